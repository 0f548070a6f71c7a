"""`FedCI(study).fit(sources)`: the whole federated study in one process, in the manner of EconML."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedci.coordinator.checkpoint import Mark, link_again, load
from fedci.coordinator.coordinator import Round, run_study
from fedci.coordinator.refits import refuted
from fedci.errors import StudyError, UsageError
from fedci.plain import Shown
from fedci.privacy.agreement import Credentials
from fedci.protocol.course import resumed
from fedci.protocol.engine import InProcessEngine, added
from fedci.result.result import Result
from fedci.site.site import Site
from fedci.study.study import Study
from fedci.table.parted import parted
from fedci.table.source import Source
from fedci.table.table import Table

if TYPE_CHECKING:
    import pandas as pd


HABITS = {
    "predict": ": fit returns a Result, and result.effect(X) has effects of new people",
    "effect": ": fit returns a Result; ask that one", "ate": ": fit returns a Result; ask that one",
    "fit_predict": ": result = fit(sources), then result.effect(X)", "transform": ": nothing is transformed",
    "score": ": result.diagnostics says how well it fits", "get_params": ": see .study",
    "set_params": ": make another with FedCI(study.changed(…))"}
"""What users of scikit-learn and EconML ask for, and what to ask instead."""


class FedCI(Shown):
    """Federated causal inference with Gaussian processes.

    study      column roles, disclosure policy and, optionally, changes to the preset
    preset     'default' (chosen by measurement), 'classic' or 'paper' (the authors' settings); None: the study's own
    seed       makes a run reproducible bit for bit; None: the study's own
    """

    def __init__(self, study: Study, preset: str | None = None, seed: int | None = None):
        changes = {"preset": preset, "seed": seed}
        self.study = study.changed(**{name: value for name, value in changes.items() if value is not None})
        self.study.fit_options()  # a preset that the study cannot have is told at once

    def shown(self) -> str:
        return f"FedCI of {self.study.shown()}\n  .fit([Source(name, data), …]) returns a Result"

    if not TYPE_CHECKING:  # a checker that saw this would take any name for one of ours

        def __getattr__(self, name):
            """For what other packages call it."""
            raise AttributeError(f"'FedCI' has no {name!r}{HABITS.get(name, '')}")

    def fit(self, sources: Iterable[Source] | pd.DataFrame, progress: Callable[[Round], None] | None = None,
            checkpoint: Path | None = None, *, site: str | None = None) -> Result:
        """Fit all sources together. Each stays behind its own `Site`; only messages pass between them.

        One source that holds all rows is the combined analysis: the same code, one site.
        progress     told of every round; its method `watch`, if it has one, of every question to a site
        checkpoint   a file from which an interrupted fit of the same sources goes on to the same bits
        site         with one table of all people in place of sources: the column that says at which site each is
        """
        if progress is not None and not callable(progress):
            raise UsageError("fit takes no y: the outcome is a column of each table, and the study names it")
        sources = parted(sources, site) if site is not None else _checked(sources)
        _check_names([source.name for source in sources])
        return self.fit_tables([source.read(self.study) for source in sources], progress, checkpoint)

    def fit_tables(self, tables: Sequence[Table], progress: Callable[[Round], None] | None = None,
                   checkpoint: Path | None = None) -> Result:
        """`fit` of tables that were read for this study: each is read once, and what was looked at is what is fitted.
        """
        _check_names([table.site for table in tables])
        return self.fit_sites(self.sites(tables), progress, checkpoint)

    def sites(self, tables: Sequence[Table]) -> dict[str, Site]:
        """The parties that own the tables. All are this process, with nothing to hide from itself: linkage, masks and
        noise follow from the seed."""
        secrets = {table.site: hashlib.sha256(self._secret + table.site.encode()).digest() for table in tables}
        study = self._of([table.site for table in tables])
        return {table.site: Site(study, table, Credentials(key=self._secret, secret=secrets[table.site]))
                for table in tables}

    def _of(self, sites: Sequence[str]) -> Study:
        """The study with these sites as its cohort, unless it names its own: sites answer no other."""
        return self.study if self.study.sites else self.study.changed(sites=tuple(sorted(sites)))

    def fit_sites(self, sites: Mapping[str, Site], progress: Callable[[Round], None] | None = None,
                  checkpoint: Path | None = None) -> Result:
        """The study over parties in this process; refuters change their rows in the end, the result's people stay."""
        engine = InProcessEngine(sites, watch=getattr(progress, "watch", lambda *_: None))
        study = self._of(list(sites))
        self._go_on(study, sites, checkpoint)
        outcome = run_study(engine, study, progress, link_secret=self._secret, checkpoint=checkpoint)
        people = {name: site.people for name, site in sites.items()}
        engines = [engine]

        def beside() -> InProcessEngine:
            engines.append(InProcessEngine({name: site.beside() for name, site in sites.items()}))
            return engines[-1]

        outcome = refuted(engine, study, outcome, progress, checkpoint, beside=beside)
        return Result(study=self.study, outcome=outcome, people=people,
                      traffic=added(one.traffic for one in engines))

    @property
    def _secret(self) -> bytes:
        return hashlib.sha256(f"{self.study.hash()} {self.study.seed}".encode()).digest()

    def _go_on(self, study: Study, sites: Mapping[str, Site], checkpoint: Path | None) -> None:
        """Sites start anew with the coordinator, and stand where it stood."""
        mark = Mark(study.hash(), tuple(sorted(sites)))
        standing = load(checkpoint, mark, "")
        places = {} if standing.state is None else {standing.fit_round + 1: resumed(standing.state)}
        for site in sites.values():
            site.restore_places(places)
        if self.study.links:
            link_again(checkpoint, mark)


def _checked(sources: Any) -> list[Source]:
    """Sources, or what to pass in place of what other packages take."""
    import pandas as pd

    example = 'pass [Source("lyon", "lyon.csv"), Source("oslo", frame)]'
    if isinstance(sources, pd.DataFrame):
        raise UsageError(f'got one DataFrame: pass fit(df, site="hospital") where a column names the site, or '
                         f'{example[5:]}')
    if isinstance(sources, Source):
        return [sources]
    if isinstance(sources, Mapping):
        raise UsageError("got a dict: pass [Source(name, data) for name, data in tables.items()]")
    if isinstance(sources, str | Path) or not isinstance(sources, Iterable):
        raise UsageError(f"got {type(sources).__name__}: {example}")
    listed = list(sources)
    others = [one for one in listed if not isinstance(one, Source)]
    if others:
        raise UsageError(f"got {type(others[0]).__name__} among the sources: {example}")
    return listed


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise UsageError("no source was given: pass a list such as [Source('a', 'a.csv'), Source('b', frame)]")
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f"the site '{name}' is given twice; each site takes part once, under its own name")
