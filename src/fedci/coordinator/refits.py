"""Refuters: the study fitted again, by the same sites, on rows that each of them has changed (docs/diagnostics.md).

The same model, optimiser and seed; `refuting.DRAWS` posterior draws at most, and no diagnostics of the new fits. The
engine is the study's own kind: in one process or over a network, the same requests go out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fedci.coordinator.coordinator import Outcome, Round, run_study
from fedci.diagnostics import systematic
from fedci.diagnostics.heterogeneity import Interval
from fedci.diagnostics.refuters import Refuter, refuter
from fedci.diagnostics.systematic import Control
from fedci.effect import Effect, EffectSums
from fedci.errors import AwayError, FedciError
from fedci.model.parallel import cores
from fedci.protocol import refuting
from fedci.protocol.engine import Engine
from fedci.protocol.refuting import wanted
from fedci.study.study import Study

__all__ = ["checkpoints", "refuted", "wanted"]

CORES = 4
"""That one fit keeps busy: its draws are shared out among them (`model.parallel`). More at once would wait for them."""
Found = TypeVar("Found")


def refuted(engine: Engine, study: Study, outcome: Outcome, progress: Callable[[Round], None] | None = None,
            checkpoint: Path | None = None, after: Callable[[Outcome], None] = lambda outcome: None,
            beside: Callable[[], Engine] | None = None) -> Outcome:
    """The outcome with the refuters that the study asks for; one that cannot be fitted becomes a note.

    progress     its method `begin`, if it has one, is told of each refuter
    checkpoint   of the study; each refuter has one of its own beside it
    after        called with what is known after each refuter; those that the outcome holds already are not run again
    beside       makes another engine to the sites as they stand: many negative controls are then fitted at once where
                 there are cores for it, to the bits of one after the other (which `None` does)
    """
    names = [name for name in wanted(study) if not _is_done(outcome, name)] if outcome.diagnostics is not None else []
    many = [name for name in names if refuting.control_of(study, name) is not None]
    at_once = many[1:] if beside is not None else []  # the first compiles what the others run

    def fit(name: str, engine: Engine, progress: Callable[[Round], None] | None) -> Outcome | FedciError:
        """AwayError is no word on the refuter: it goes on when the site is back."""
        try:
            return run_study(engine, study, progress, checkpoint=checkpoint and _beside(checkpoint, name), refuter=name,
                             run=refuting.run_of(outcome.run, name))
        except AwayError:
            raise
        except FedciError as problem:
            return problem

    def fits() -> Generator[Outcome | FedciError, None, None]:
        begin = getattr(progress, "begin", lambda *_: None)
        for name in names[:len(names) - len(at_once)]:
            begin(f"refuter {name} ({wanted(study).index(name) + 1} of {len(wanted(study))})")
            yield fit(name, engine, progress)
        if beside is not None and at_once:
            begin(f"{len(at_once)} negative controls at once")
            yield from side_by_side(lambda name, told: fit(name, beside(), told), at_once)

    with closing(fits()) as found:
        for name, new in zip(names, found, strict=True):
            outcome = _with_fit(study, outcome, name, new)
            after(outcome)
    return outcome


def side_by_side(fit: Callable[[str, Callable[[Round], None]], Found], names: Sequence[str]) -> Iterator[Found]:
    """fit(name, told) of each name, in their order, one at once for every CORES. Where one raises, or no more is asked
    for, the others end with their round: `told` raises."""
    ended = threading.Event()

    def told(now: Round) -> None:
        if ended.is_set():
            raise AwayError("another fit of this study was interrupted")

    pool = ThreadPoolExecutor(max(cores() // CORES, 1))
    try:
        yield from pool.map(lambda name: fit(name, told), names)
    finally:
        ended.set()
        pool.shutdown(cancel_futures=True)


def _with_fit(study: Study, outcome: Outcome, name: str, new: Outcome | FedciError) -> Outcome:
    if isinstance(new, FedciError):
        return _with(outcome, (), (f"{_failed(name)}{new}",))
    column = refuting.control_of(study, name)
    if column is not None:
        return _with_control(outcome, name, column, new)
    return _with(outcome, (_row(study, outcome, name, new),), ())


def _with(outcome: Outcome, rows: tuple[Refuter, ...], notes: tuple[str, ...]) -> Outcome:
    """The outcome of a study with diagnostics, with these."""
    known = outcome.diagnostics
    return replace(outcome, diagnostics=known and known.model_copy(
        update={"refuters": known.refuters + rows, "notes": known.notes + notes}))


def checkpoints(checkpoint: Path, study: Study) -> list[Path]:
    """The files that a run leaves while it is under way."""
    return [checkpoint, *(_beside(checkpoint, name) for name in wanted(study))]


def _beside(checkpoint: Path, name: str) -> Path:
    return checkpoint.with_name(f"{checkpoint.stem}-{name}{checkpoint.suffix}")


def _failed(name: str) -> str:
    return f"the refuter '{name}' could not be fitted: "


def _is_done(outcome: Outcome, name: str) -> bool:
    known = outcome.diagnostics
    done = known.systematic.controls if known is not None and known.systematic is not None else ()
    return known is not None and (any(one.name == name for one in done) or name in [row.name for row in known.refuters]
                                  or any(text.startswith(_failed(name)) for text in known.notes))


def _with_control(outcome: Outcome, name: str, column: str, new: Outcome) -> Outcome:
    """The outcome with the effect on one of many negative controls, and what all of them so far tell."""
    known = outcome.diagnostics
    if known is None:
        return outcome
    effect, sites = new.effects.over_all.expected(), _site_effects(new)
    row = Control(name=name, column=column, mean=effect.mean, sd=effect.sd, ended=new.fit.verdict,
                  sites={site: (one.mean, one.sd) for site, one in sites.items()})
    earlier = known.systematic.controls if known.systematic is not None else ()
    own = {"all": outcome.effects.over_all.expected(), **_site_effects(outcome)}
    calibration = systematic.summary((*earlier, row), {over: (one.mean, one.sd, _interval(one))
                                                       for over, one in own.items()})
    return replace(outcome, diagnostics=known.model_copy(update={"systematic": calibration}))


def _site_effects(outcome: Outcome) -> dict[str, Effect]:
    return {site: EffectSums((sums,)).expected() for site, sums in outcome.effects.sums.items()}


def _interval(effect: Effect) -> Interval:
    low, high = effect.interval()
    return Interval(mean=effect.mean, low=low, high=high)


def _row(study: Study, outcome: Outcome, name: str, new: Outcome) -> Refuter:
    own, again = outcome.effects.over_all.expected(), new.effects.over_all.expected()
    low, high = again.interval()
    control = study.diagnostics.negative_control
    return refuter(name, mean=again.mean, sd=again.sd, low=low, high=high, ended=new.fit.verdict, study_mean=own.mean,
                   study_sd=own.sd, about=f"'{control}'" if control else "")

