"""The methods of the benchmark in their modes: from the sources of one replication to rows of figures.

    fed   all sources in one federated fit          (FedCI)
    com   one fit on the rows of all sources: what privacy forbids
    loc   each source alone
    agg   each source alone, and the m estimates for a person averaged (baselines)

With one source all modes are the same fit, made once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.benchmark.learners.estimate import Predictor
from fedci.benchmark.run import oracle
from fedci.benchmark.run.baselines import LEARNERS, Estimate, Learner, check_installed
from fedci.benchmark.run.cells import Cell, SiteEffect
from fedci.benchmark.run.protocols import Answer, Average, of_estimate, scores
from fedci.benchmark.run.suites import Suite, incomplete, is_binary, varying
from fedci.effect import Effect
from fedci.errors import FedciError, UsageError
from fedci.study.options import nearest, preset
from fedci.synthetic.datasets import Records, Split, combined

if TYPE_CHECKING:
    import pandas as pd

    from fedci.result.result import Result

ORACLE = "oracle"
LONGEST_REASON = 200
IMPUTED_DRAWS = 64
"""Of the posterior, under P1, where every draw factors the covariance of all test people."""


@dataclass(frozen=True)
class Variant:
    """FedCI with a preset and changes to it."""

    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    missing: str = "impute"
    """What a study does about missing covariates."""


ALONE = {"model": {"inter_dependency": False}}
VARIANTS = {
    "FedCI": Variant("default"),
    "FedCI (classic)": Variant("classic"),
    "FedCI (paper)": Variant("paper"),
    "FedCI (no inter-dependency)": Variant("default", {"model": {"kernel": "matern52 + linear(scale)"}}),
    "FedCI (classic, no inter-dependency)": Variant("classic", ALONE),
    "FedCI (paper, no inter-dependency)": Variant("paper", ALONE),
}
ABLATIONS = {
    "FedCI, linear": Variant("default", {"model": {"directions": 0, "landmarks": 0}}),
    "FedCI, no products or thresholds": Variant("default", {"model": {"landmarks": 0}}),
    "FedCI, no directions": Variant("default", {"model": {"directions": 0}}),
    "FedCI, one direction": Variant("default", {"model": {"directions": 1}}),
    "FedCI, three directions": Variant("default", {"model": {"directions": 3}}),
    "FedCI, Gaussian directions": Variant("default", {"model": {"tails": None}}),
    "FedCI, no common slope": Variant("default", {"model": {"common": False}}),
    "FedCI, arms unexplained": Variant("default", {"model": {"between_arms": False}}),
    "FedCI, no own functions": Variant("default", {"model": {"kernel": "constant(scale)"}}),
    "FedCI, point estimates": Variant("default", {"model": {"posterior": "point"}}),
    "FedCI, 16 draws": Variant("default", {"optimiser": {"draws": 16}}),
    "FedCI, standardised 0/1": Variant("default", {"model": {"binary_sd": None}}),
}
"""The default with one ingredient changed: what each brings."""
GAPS = {"FedCI, missing drawn": Variant("default", missing="model")}
"""What is missing drawn by the model, in place of its mean and a mark: another fit only where something is."""
OURS = VARIANTS | ABLATIONS | GAPS
NAMES = (*OURS, *LEARNERS, ORACLE)
FEDCI_MODES, LEARNER_MODES = ("fed", "com", "loc"), ("com", "loc", "agg")


def slug(name: str) -> str:
    """'GP T-learner (ARD)' → 'gp-t-learner-ard': what a shell takes without quotes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def named(text: str) -> str:
    """A method by its name or its slug."""
    known = {slug(name): name for name in NAMES}
    if slug(text) not in known:
        raise UsageError(f"no method {text!r}{nearest(slug(text), known)} Known: {', '.join(known)}.")
    return known[slug(text)]


def modes_of(name: str) -> tuple[str, ...]:
    if name in ABLATIONS | GAPS:
        return ("fed",)
    if name in VARIANTS:
        return FEDCI_MODES
    return ("com",) if name == ORACLE else LEARNER_MODES


def missing_package(name: str) -> str | None:
    """What to install before this method can run."""
    try:
        if name in LEARNERS:
            check_installed(LEARNERS[name])
    except UsageError as error:
        return error.message
    return None


@dataclass
class Fits:
    """The fits of one method on one replication, each made once, however many modes and numbers of sources use it."""

    splits: Sequence[Split]
    seed: int
    imputation: bool = True
    everywhere: bool = False
    """Whether people of sources that are not fitted are asked about too."""
    made: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """(what `make()` gave, its seconds); the error it raised, raised again."""
        if key not in self.made:
            start = time.perf_counter()
            try:
                self.made[key] = (make(), time.perf_counter() - start)
            except Exception as error:
                self.made[key] = error
        if isinstance(self.made[key], Exception):
            raise self.made[key]
        return self.made[key]

    def first(self, count: int) -> Sequence[Split]:
        return self.splits[:count]

    def others(self, count: int) -> Sequence[Split]:
        """Beyond the first `count`, those whose people are asked about."""
        return self.splits[count:] if self.everywhere else ()

    def scored(self, count: int) -> range:
        return range(len(self.splits) if self.everywhere else count)


@dataclass(frozen=True)
class Outcome:
    """Answers for the test people of each source, averages of the people fitted on, and what it cost."""

    answers: Sequence[Answer]
    averages: Sequence[Average] = ()
    cost: Mapping[str, float] = field(default_factory=dict)
    effect: tuple[float, float, float, float] | None = None
    """mean, sd, low, high of the average effect at source 1."""


def cells(name: str, suite: Suite, replication: int, counts: Sequence[int], modes: Sequence[str],
          seed: int, imputation: bool = True) -> Iterator[Cell | SiteEffect]:
    """All rows of a method on one replication. What fails is a row that says why."""
    splits = suite.load(replication)
    fits = Fits(splits, seed + replication, imputation, suite.everywhere)
    for count in counts:
        for mode in modes:
            key: dict[str, Any] = {"dataset": suite.label, "method": name, "mode": mode, "sources": count,
                                   "replication": replication}
            try:
                outcome = _outcome(name, suite, fits, mode, count)
            except Exception as error:  # whatever a package raises becomes its row
                yield Cell(**key, protocol="P2", failed=_reason(error))
                continue
            for protocol, figures in scores(outcome.answers, [splits[s] for s in fits.scored(count)],
                                             outcome.averages).items():
                facts: dict[str, Any] = {**key, **figures, **outcome.cost}
                yield Cell(protocol=protocol, **facts)
            if outcome.effect and mode == "fed":
                mean, sd, low, high = outcome.effect
                yield SiteEffect(dataset=suite.label, method=name, sources=count, replication=replication, mean=mean,
                                 sd=sd, low=low, high=high, truth=float(splits[0].train.cate.mean()))


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:LONGEST_REASON]
    return text if isinstance(error, FedciError) else f"{type(error).__name__}: {text}"


def _outcome(name: str, suite: Suite, fits: Fits, mode: str, count: int) -> Outcome:
    if name == ORACLE:
        return _oracle(suite, fits, count)
    if name in OURS:
        return fedci(OURS[name], fits, "fed" if count == 1 else mode, count)
    return _learner(LEARNERS[name], fits, mode, count)


# --- FedCI

def fedci(variant: Variant, fits: Fits, mode: str, count: int) -> Outcome:
    """FedCI on the first `count` sources in a mode."""
    fitted = partial(fedci_fit, variant, seed=fits.seed, imputation=fits.imputation)
    if mode == "loc":
        alone = [fits.once(("fed", s), partial(fitted, [fits.splits[s]]))[0] for s in range(count)]
        return _side_by_side(alone)
    if mode == "com":
        return fits.once(("com", count), lambda: fitted(fits.first(count), together=True,
                                                          others=fits.others(count)))[0]
    key = ("fed", 0) if count == 1 else ("all", count)
    return fits.once(key, lambda: fitted(fits.first(count), others=fits.others(count)))[0]


def fedci_fit(variant: Variant, splits: Sequence[Split], seed: int, together: bool = False,
              imputation: bool = True, others: Sequence[Split] = ()) -> Outcome:
    """One fit and its effects for the test people, also those of `others`, which the fit does not see: people of a site
    outside the study, whose realised effects nobody imputes. `together`: all rows at one site, which all belong to."""
    from fedci.estimator import FedCI
    from fedci.study.study import Study
    from fedci.table.source import Source

    start = time.perf_counter()
    keeps_constant = preset(variant.preset, dict(variant.options)).model.binary_sd is not None
    binary = is_binary(splits) & keeps_constant
    columns = varying(splits) | binary
    parts = [_with_columns(split.train, columns) for split in splits]
    parts = [combined(parts)] if together else parts
    holes = incomplete([*splits, *others])
    covariates = {name: ({"type": "binary"} if zero_one else {}) | ({"missing": variant.missing} if hole else {})
                  for name, zero_one, hole in zip(parts[0].names, binary[columns], holes[columns], strict=True)}
    study = Study(treatment="w", outcome="y", covariates=covariates, policy="simulation", preset=variant.preset,
                  options=dict(variant.options), diagnostics={"enabled": False})
    result = FedCI(study, seed=seed).fit([Source(f"s{s}", part.frame()) for s, part in enumerate(parts)])
    places = ["s0" if together else f"s{s}" if s < len(splits) else None for s in range(len(splits) + len(others))]
    tests = [(_with_columns(split.test, columns).frame(), place)
             for split, place in zip([*splits, *others], places, strict=True)]
    cates = [result.effect_posterior(*test) for test in tests]
    seconds = time.perf_counter() - start
    imputes = imputation and None not in places
    answers = [_answer(result, cate, imputes, *test) for cate, test in zip(cates, tests, strict=True)]
    ate, first = result.ate(), result.ate("s0")
    traffic = sum(t.sent + t.received for t in result.traffic.values()) / len(result.traffic)
    cost = {"seconds": seconds, "rounds": float(len(result.outcome.fit.rounds)), "bytes": traffic}
    truth = float(combined([split.train for split in splits]).cate.mean())
    low, high = ate.interval()
    return Outcome(answers, [Average(low, high, truth)], cost, (first.mean, first.sd, *first.interval()))


def _with_columns(people: Records, columns: np.ndarray) -> Records:
    return Records(x=people.x[:, columns], w=people.w, y=people.y, y0=people.y0, y1=people.y1, mu0=people.mu0,
                   mu1=people.mu1)


def _answer(result: Result, cate: Effect, imputation: bool, frame: pd.DataFrame, site: str | None) -> Answer:
    realised = result.effect_posterior(frame, site, outcome_noise=True)
    if site is None or not imputation:
        return Answer(cate.mean, cate.interval(), realised.interval())
    imputed = result.impute(frame, site, draws=IMPUTED_DRAWS)
    return Answer(cate.mean, cate.interval(), realised.interval(), imputed.mean, imputed.interval())


def _side_by_side(alone: Sequence[Outcome]) -> Outcome:
    """Sources that know nothing of each other: answers and averages of each, costs on average."""
    cost = {name: float(np.mean([outcome.cost[name] for outcome in alone])) for name in alone[0].cost}
    averages = [average for outcome in alone for average in outcome.averages]
    return Outcome([outcome.answers[0] for outcome in alone], averages, cost)


# --- baselines

def _learner(learner: Learner, fits: Fits, mode: str, count: int) -> Outcome:
    check_installed(learner)
    if mode == "com" or count == 1:
        return _combined(learner, fits, 0, count, fits.scored(count))
    alone = [_combined(learner, fits, s, 1, range(s, s + 1)) for s in range(count)]
    return _side_by_side(alone) if mode == "loc" else _bagged(learner, fits, alone, count)


def _combined(learner: Learner, fits: Fits, start: int, count: int, sources: range) -> Outcome:
    """One fit on sources start … start + count − 1, asked about the test people of `sources`."""
    asked = [_asked(learner, fits, start, count, s) for s in sources]
    seconds = _predictor(learner, fits, start, count)[1] + sum(seconds for _, seconds in asked)
    answers = [of_estimate(estimate, fits.splits[s].test) for (estimate, _), s in zip(asked, sources, strict=True)]
    has_average = asked[0][0].ate is not None
    return Outcome(answers, [_average(learner, fits, start, count)] if has_average else [], {"seconds": seconds})


def _rows(fits: Fits, start: int, count: int) -> Records:
    return combined([split.train for split in fits.splits[start:start + count]])


def _predictor(learner: Learner, fits: Fits, start: int, count: int) -> tuple[Predictor, float]:
    rows, seed = _rows(fits, start, count), fits.seed * len(fits.splits) + start
    return fits.once(("fit", start, count), lambda: learner.learn(rows.x, rows.w, rows.y, seed))


def _asked(learner: Learner, fits: Fits, start: int, count: int, s: int) -> tuple[Estimate, float]:
    """The estimate for the test people of source s, and its seconds."""
    predict, _ = _predictor(learner, fits, start, count)
    return fits.once(("asked", start, count, s), lambda: predict(fits.splits[s].test.x))


def _average(learner: Learner, fits: Fits, start: int, count: int) -> Average:
    """Of the people fitted on, as for FedCI; its seconds are not counted."""
    (predict, _), rows = _predictor(learner, fits, start, count), _rows(fits, start, count)
    estimate, _ = fits.once(("average", start, count), lambda: predict(rows.x))
    _, low, high = estimate.ate
    return Average(low, high, float(rows.cate.mean()))


def _bagged(learner: Learner, fits: Fits, alone: Sequence[Outcome], count: int) -> Outcome:
    """The mean of the sources' estimates for each person; no interval follows from theirs."""
    each = {s: [_asked(learner, fits, k, 1, s)[0] for k in range(count)] for s in fits.scored(count)}
    answers = [of_estimate(_mean_estimate(estimates), fits.splits[s].test) for s, estimates in each.items()]
    return Outcome(answers, cost={"seconds": float(np.mean([outcome.cost["seconds"] for outcome in alone]))})


def _mean_estimate(each: Sequence[Estimate]) -> Estimate:
    arms = [None if getattr(each[0], name) is None else np.mean([getattr(estimate, name) for estimate in each], axis=0)
            for name in ("mu0", "mu1")]
    return Estimate(cate=np.mean([estimate.cate for estimate in each], axis=0), mu0=arms[0], mu1=arms[1])


# --- the limit

def _oracle(suite: Suite, fits: Fits, count: int) -> Outcome:
    """The true parametric form with the generator's own priors."""
    if suite.form is None:
        raise UsageError(f"the true form of {suite.label} is not a parametric one we can fit")
    start, splits = time.perf_counter(), fits.first(count)
    predict = oracle.fit(suite.form[0], [split.train for split in splits], suite.form[1])
    answers = [of_estimate(predict(split.test.x, s), split.test) for s, split in enumerate(splits)]
    seconds = time.perf_counter() - start
    rows = combined([split.train for split in splits])
    estimate = predict(rows.x, np.repeat(np.arange(count), [len(split.train) for split in splits]))
    averages = [] if estimate.ate is None else [Average(*estimate.ate[1:], float(rows.cate.mean()))]
    return Outcome(answers, averages, {"seconds": seconds})
