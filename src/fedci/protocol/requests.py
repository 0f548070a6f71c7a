"""Every request, one row each: its phase, the arrays that answer it, what is summed, what a ledger keeps, what is said.

    REQUESTS["AskDiagnostic.balance"].shapes(sizes)     of the arrays of an answer, by named sizes
    REQUESTS["PullBack"].leaves(secure=True)            the names that may leave: of a summed answer only its masked sum
    row_of(message)                                     the row of a request

The door, the ledger, `fedci check`, the progress line, both parties' checks and docs/security.md read this table, and
nothing else lists requests. A new kind of diagnostic is a row here, a step of the course (`protocol.course`) and what
computes it at a site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedci.diagnostics import balance, fit, missingness, overlap, propensity, sameness, trial
from fedci.effect import REALISED, told_of_realised
from fedci.model import completion
from fedci.model.shared.dictionary import stage_of
from fedci.privacy.secure_sum import BOUNDED, COMPACT, RAW, RELATIVE, WIDE, Form
from fedci.protocol import stages, timing
from fedci.protocol.messages import (
    AskLinkKey,
    AskMaskKey,
    AskTokens,
    Exclude,
    Hello,
    Message,
    OpenSum,
    Reply,
    Step,
    TakeCheckKey,
    TakeLinkKey,
    TakeMaskKeys,
    Tokens,
    WrapLinkKey,
)
from fedci.protocol.notes import MOST_PEOPLE
from fedci.study.options import FitOptions
from fedci.study.study import Study

MASKED, OWN = "masked", "own/"
"""The name of a masked answer, and how the names begin of what a site tells of itself beside it."""
MEANS, SPREADS, MOMENTS = "AskMeans", "AskSpreads", "AskMoments"
"""Counts and sums of the columns; squares about the pooled means; both at once, squares about 0 (`course.opening`)."""
COMPLETION = "AskCompletion"
NO_PHASE = "none"
"""Of what could not be read, or is no request."""
SIZES = {
    "people": "people at the site",
    "columns": "the study's covariates, a column for each level",
    "covariates": "those, and the indicators of missing values",
    "sites": "the cohort",
    "described": "columns, the outcome of each arm, the treatment",
    "parameters": "numbers in θ",
    "draws": "draws from q",
    "realised": f"every {REALISED}th of these draws",
    "basis": "q, columns of the basis",
    "products": "q(q + 1)/2",
    "dictionary": "D, columns whose products are told",
    "dictionary_products": "D(D + 1)/2",
    "own": "numbers of θ about the sites' own functions",
    "scores": "draws of the coefficients at which these are told",
    "correlations": "noise correlations of realised effects",
    "arms": "arms of the treatment: two, or as many as the study names",
    "populations": "everybody, the treated, the untreated; of more arms everybody, and who got each",
    "intervals": "J, intervals of a time to an event",
    "completed": "D, columns and the outcome",
    "completed_products": "D(D + 1)/2",
    "groups": "subgroups of the study",
    "along": "1, and columns along which the effect's linear summary is told",
    "leaves": "of a rule at most",
    "cutoffs": "the cost, and shares of people who are treated first",
    "levels": "1, or of what is no number 2: the untreated and the treated",
}
"""What the lengths of answers are named by; all of them are known before anything is asked (`fedci check`)."""

Sizes = Mapping[str, int]
Shapes = dict[str, tuple[int, ...]]
Occasions = tuple[tuple[int, int], ...]
"""((draws asked about, how often at most), …)."""


@dataclass(frozen=True)
class Array:
    """One array of an answer."""

    name: str
    shape: tuple[int | str, ...]
    """Of numbers, and of names of SIZES."""
    meaning: str
    """As `fedci check` says it."""
    holds: Callable[[np.ndarray], bool] | None = None
    """What is true of its numbers at every honest site; None: they may be any."""

    def at(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(_length(length, sizes) if isinstance(length, str) else length for length in self.shape)


def _length(name: str, sizes: Sizes) -> int:
    return told_of_realised(sizes["draws"]) if name == "realised" else sizes[name]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A row: all that is known of a request before it is asked."""

    name: str
    """As ledgers have it: the message's type, of a diagnostic with its kind."""
    message: type[Message]
    phase: str
    answer: tuple[Array, ...] = ()
    """What is added over the sites (`summed`), or told. No more may leave a site, no fewer are an answer."""
    own: tuple[Array, ...] = ()
    """What the result or the report has of each site, in the clear beside the sum, masked or not."""
    replies: tuple[type[Message], ...] = (Reply,)
    """The types of its answer."""
    summed: bool = False
    """Whether answers are added over the sites: under secure sums only their masked sum leaves, beside `own`."""
    averaged: bool = False
    """Whether `own` is averages over the draws, told beside a masked sum alone and only with `site_effects`."""
    form: Form = WIDE
    """How a masked sum holds its numbers."""
    optional: bool = False
    """Whether the study goes on without it where a site refuses: diagnostics."""
    notes: tuple[str, ...] = ()
    """Keys of the notes that may come with an answer in the clear."""
    in_full: bool = False
    """Whether the ledger keeps the answer number by number: it is told of people's groups."""
    most: int = 1
    """How often its arrays leave in a run at most, where that does not depend on the options; tokens in parts."""
    draws: Callable[[FitOptions], Occasions] | None = None
    """Of the fit's own: about how many draws, and how often at most."""
    asks: Callable[[Study], bool] = lambda study: True
    """Of a diagnostic: whether this study asks for it."""
    words: str = ""
    """What the progress line says that it is for; '': nothing."""
    slow: bool = False
    """Whether the progress line shows it after the rounds as well."""

    @property
    def kind(self) -> str:
        """Of a diagnostic; '' of all else."""
        return self.name.partition(".")[2]

    def rules(self) -> dict[str, Callable[[np.ndarray], bool]]:
        """What is true of the arrays of one site's answer, by the names under which they leave."""
        own = {OWN + array.name: array.holds for array in self.own if array.holds is not None}
        return {array.name: array.holds for array in self.answer if array.holds is not None} | own

    def shapes(self, sizes: Sizes) -> Shapes:
        """Of what is added, or told."""
        return {array.name: array.at(sizes) for array in self.answer}

    def own_shapes(self, sizes: Sizes) -> Shapes:
        """Of what a site tells of itself beside the sum: averages are as of one draw."""
        per_site = {**sizes, "draws": 1} if self.averaged else sizes
        return {array.name: array.at(per_site) for array in self.own}

    def leaves(self, secure: bool, site_effects: bool = False) -> set[str]:
        """The names of the arrays that answer it."""
        masked = secure and self.summed
        beside = self.own if not self.averaged or (masked and site_effects) else ()
        names = {MASKED} if masked else {array.name for array in self.answer}
        return names | {OWN + array.name for array in beside}

    def notes_beside(self, secure: bool) -> set[str]:
        """The keys of the notes that may answer it; under masks no jitter, which would tell of rows."""
        return {"shares"} if secure and self.summed else set(self.notes)

    def occasions(self, options: FitOptions) -> Occasions:
        return self.draws(options) if self.draws else ((1, self.most),)


def diagnostic(kind: str) -> str:
    """The name of a kind of diagnostic."""
    return f"AskDiagnostic.{kind}"


# --- how often a fit asks


def _each_round(options: FitOptions) -> Occasions:
    return ((options.optimiser.draws, options.optimiser.rounds),)


def _told_products(options: FitOptions) -> Occasions:
    """Of each stage of its columns (`Family.dictionary`)."""
    told = Counter(int(stage_of(number)) for number in range(1, options.optimiser.rounds + 1))
    return tuple(sorted(told.items()))


def _last_thetas(options: FitOptions) -> int:
    """Draws of θ after the fit; draws of β come with each."""
    return max(options.prediction.draws // options.model.draws_per_theta, 1)


def _last_draws(options: FitOptions) -> Occasions:
    """With each θ its draws of β."""
    return ((_last_thetas(options) * options.model.draws_per_theta, 1),)


def _statistics(options: FitOptions) -> Occasions:
    """At the start about one θ, in every round, and for the effects' draws."""
    return ((1, 1), *_each_round(options), (_last_thetas(options), 1))


def _completions(options: FitOptions) -> Occasions:
    """Of one law at most so often, then of all."""
    return (1, completion.MOST_STEPS), (completion.copies(options), completion.MIXING)


# --- the arrays of the answers


def _never_negative(numbers: np.ndarray) -> bool:
    return bool((numbers >= 0).all())


def _are_counts(numbers: np.ndarray) -> bool:
    return bool(((numbers >= 0) & (numbers <= MOST_PEOPLE)).all())


def _is_curvature(numbers: np.ndarray) -> bool:
    """[p, p] of a concave log-likelihood: symmetric, and no direction in which it bends the other way."""
    numbers = np.asarray(numbers, float)  # of the least int64 the absolute value is negative
    scaled = numbers / max(float(np.abs(numbers).max(initial=0.0)), 1e-300)
    if not (np.isfinite(scaled).all() and np.abs(scaled - scaled.T).max(initial=0.0) <= 1e-6):
        return False
    return bool(np.linalg.eigvalsh(scaled).min(initial=0.0) >= -1e-6)


def _has_squares(numbers: np.ndarray) -> bool:
    """[draws, q(q + 1)/2], the upper half of ZᵀC⁻¹Z row by row: its diagonal is of squares."""
    columns = int((np.sqrt(8 * numbers.shape[-1] + 1) - 1) / 2)
    diagonal = np.cumsum(np.arange(columns, 0, -1)) - np.arange(columns, 0, -1)
    return bool((numbers[..., diagonal] >= 0).all())


def _never_positive(numbers: np.ndarray) -> bool:
    return bool((numbers <= 0).all())


def _is_truth(numbers: np.ndarray) -> bool:
    return bool(((numbers == 0) | (numbers == 1)).all())


def _positive(name: str, shape: tuple[int | str, ...], meaning: str) -> Array:
    return Array(name, shape, meaning, holds=_never_negative)


def _counted(name: str, shape: tuple[int | str, ...], meaning: str) -> Array:
    return Array(name, shape, meaning, holds=_are_counts)


_WHOM = "over everybody, the treated, the untreated"
_AVERAGED, _AVERAGED_BY_CORRELATION = (1, "populations"), (1, "correlations", "populations")
_EFFECTS = (
    Array("cate_mean", ("draws", "populations"), f"sum of expected effects, {_WHOM}"),
    Array("cate_var", _AVERAGED, f"its variance, averaged over draws, {_WHOM}", holds=_never_negative),
    Array("ite_mean", ("realised", "correlations", "populations"), f"sum of realised effects, {_WHOM}"),
    Array("ite_var", _AVERAGED_BY_CORRELATION, f"its variance, averaged over draws, {_WHOM}", holds=_never_negative),
    Array("ite_sd", ("correlations",), "sum of the people's standard deviations", holds=_never_negative),
    Array("people", ("populations",), "how many people", holds=_never_negative),
)
_BY_ARM = "over everybody, and over who got each arm"
_ARM_SUMS = (
    Array("arm_mean", ("draws", "arms", "populations"), f"sum of what is expected in each arm, {_BY_ARM}"),
    Array("arm_cov", (1, "arms", "arms", "populations"), f"its covariances, averaged over draws, {_BY_ARM}"),
    _counted("people", ("populations",), "how many people"),
)
_RISKS = (
    Array("risks", ("draws", "arms", "populations"), f"sum of risks without and with treatment, {_WHOM}",
          holds=_never_negative),
    _counted("people", ("populations",), "how many people"),
)
_COVARIANCES, _BY_ARMS = f"their covariances over the draws, {_WHOM}", (1, "arms", "arms", "populations")
_OWN_RISKS = (*_RISKS, Array("risks_cov", _BY_ARMS, _COVARIANCES))
_RATES = (
    Array("rates", ("draws", "arms", "populations"), f"sum of rates without and with treatment, {_WHOM}",
          holds=_never_negative),
    _counted("people", ("populations",), "how many people"),
)
_OWN_RATES = (*_RATES, Array("rates_cov", _BY_ARMS, _COVARIANCES))
_CURVES = (
    Array("survival", ("draws", "arms", "intervals", "populations"),
          f"sum of survival without and with treatment at the end of each interval, {_WHOM}", holds=_never_negative),
    _counted("people", ("populations",), "how many people"),
)
_OWN_CURVES = (*_CURVES, Array("survival_cov", (1, "arms", "intervals", "arms", "intervals", "populations"),
                               _COVARIANCES))
_FAILED = Array("failed", (), "whether the numbers ran away", holds=_is_truth)
_ARMS = (len(balance.WEIGHTINGS), 2)
_PLACES, _BINS = (fit.PLACES,), (fit.CALIBRATION_BINS, 4)
_TELLING = "how many sites tell each"


# --- the table

_PEOPLE = (_counted("people", ("arms",), "people of the site, and the treated (or those of each arm)"),)
_COUNTS_AND_TOTALS = (
    _counted("count", ("columns",), "values of each column"), Array("total", ("columns",), "their sum"),
    _counted("y_count", ("arms",), "people in each arm, the untreated first"),
    Array("y_total", ("arms",), "sum of their outcomes"),
    _counted("stages", (stages.MOST,), "people that a first stage would look at"))
_ROWS = (
    Request(name="Hello", message=Hello, phase="handshake", notes=("warnings",), words="handshake"),
    Request(name="AskLinkKey", message=AskLinkKey, phase="linkage",
            notes=("people", "fingerprint", "public", "signature"), words="linkage"),
    Request(name="WrapLinkKey", message=WrapLinkKey, phase="linkage", notes=("wrapped",)),
    Request(name="TakeLinkKey", message=TakeLinkKey, phase="linkage"),
    Request(name="AskTokens", message=AskTokens, phase="linkage", replies=(Reply, Tokens), words="linkage",
            answer=(Array("tokens", ("people", 2), "a keyed token for each person, in random order"),
                    Array("witnesses", ("people", 3), "a keyed proof that the person stands here"))),
    Request(name="Exclude", message=Exclude, phase="linkage", notes=("excluded", "warnings"), words="linkage"),
    Request(name="AskMaskKey", message=AskMaskKey, phase="keys", notes=("public", "signature")),
    Request(name="TakeMaskKeys", message=TakeMaskKeys, phase="keys", notes=("wrapped",)),
    Request(name="TakeCheckKey", message=TakeCheckKey, phase="keys"),
    Request(name="AskColumns", message=Step, phase="moments", summed=True, words="columns", answer=(
                _positive("withheld", ("columns",), "sites where too few people stand apart in a column"),
                _positive("varies", ("columns",), "sites where enough of them do"),
                _positive("incomplete", ("columns",), "sites that lack some of its values"),
                _positive("gaps_withheld", ("columns",), "sites that lack too few of them to say so"))),
    Request(name=MEANS, message=Step, phase="moments", summed=True, form=RAW, in_full=True, words="moments",
            own=_PEOPLE, answer=_COUNTS_AND_TOTALS),
    Request(name=MOMENTS, message=Step, phase="moments", summed=True, form=RAW, in_full=True, words="moments",
            own=_PEOPLE, answer=(
                *_COUNTS_AND_TOTALS, _positive("square", ("columns",), "squares of each column"),
                _positive("y_square", (), "of the outcome"))),
    Request(name=SPREADS, message=Step, phase="moments", summed=True, form=RAW, words="units", answer=(
                _positive("square", ("columns",), "squares of each column about its mean"),
                _positive("y_square", (), "of the outcome"))),
    Request(name="AskTimes", message=Step, phase="moments", summed=True, form=RAW, in_full=True, words="intervals",
            answer=(
                _counted("events", ("arms", timing.PARTS), "people with the event by arm and part of time; few hidden"),
                _counted("censored", ("arms", timing.PARTS), "people followed no longer, likewise"))),
    Request(name="AskExposure", message=Step, phase="moments", summed=True, form=RAW, words="units", answer=(
                _positive("exposure", ("arms",), "sum of exposures in each arm, the untreated first"),)),
    Request(name="AskDescription", message=Step, phase="moments", summed=True, words="units", answer=(
                Array("moments", ("sites", 4, "described"), "mean, variance, skewness, kurtosis of the site"),
                _counted("counts", ("sites", "described"), "how many people they are over"))),
    Request(name="Prepare", message=Step, phase="moments", words="units"),
    Request(name=COMPLETION, message=Step, phase="completing", summed=True, draws=_completions, words="what is missing",
            answer=(
                Array("first", ("draws", 2, "completed"), "sums of completed columns and of outcomes, by arm"),
                Array("second", ("draws", 2, "completed_products"), "sums of their products", holds=_has_squares),
                _positive("levels", ("draws", "completed"), "squares of the site's own levels, as they were drawn"))),
    Request(name="Begin", message=Step, phase="fit", words="first round"),
    Request(name="Evaluate", message=Step, phase="fit", summed=True, form=BOUNDED,
            notes=("jitter",), draws=_each_round, words="first round", answer=(
                Array("objective", (), "the site's part of the objective"),
                Array("gradient", ("parameters",), "its slope in the model's parameters"),
                Array("phi_roots", ("draws", 2, 2), "its slope in the draws of Φ"),
                Array("sigma_roots", ("draws", 2, 2), "its slope in the draws of Σ"), _FAILED)),
    Request(name="AskStatistics", message=Step, phase="fit", summed=True, form=COMPACT, notes=("jitter",),
            draws=_statistics, words="first round", answer=(
                Array("gram", ("draws", "products"), "products of the basis columns, weighted", holds=_has_squares),
                Array("cross", ("draws", "basis"), "basis columns times the outcome"),
                Array("square", ("draws",), "the outcome's square, weighted", holds=_never_negative),
                Array("log_det", ("draws",), "size of the site's own covariance"), _FAILED)),
    Request(name="PullBack", message=Step, phase="fit", summed=True, draws=_each_round,
            words="first round", answer=(
                Array("gradient", ("draws", "parameters"), "slope of the objective in the model's parameters"),
                _FAILED)),
    Request(name="AskProducts", message=Step, phase="fit", summed=True, form=RELATIVE, notes=("jitter",),
            draws=_told_products, words="first round", answer=(
                Array("gram", ("dictionary_products",), "products of the dictionary's columns, weighted"),
                Array("cross", ("dictionary",), "its columns times the outcome"),
                Array("square", (), "the outcome's square, weighted"),
                Array("log_det", (), "log determinant of the outcomes' covariance"),
                Array("own_slope", ("own",), "slope of the likelihood in the scales of the sites' own functions"),
                Array("own_bend", ("own", "own"), "its curvature"),
                Array("own_scores", ("scores", "own"), "its slope at draws of the coefficients"), _FAILED)),
    Request(name="OpenSum", message=OpenSum, phase="fit", notes=("opened",)),
    Request(name="AskEffects", message=Step, phase="effects", answer=_EFFECTS, summed=True, own=_EFFECTS,
            averaged=True, notes=("jitter",), in_full=True, draws=_last_draws, words="effects", slow=True),
    Request(name="AskSharedEffects", message=Step, phase="effects", answer=_EFFECTS, summed=True, own=_EFFECTS,
            averaged=True, notes=("jitter",), in_full=True, draws=_last_draws, words="effects", slow=True),
    Request(name="AskArms", message=Step, phase="effects", answer=_ARM_SUMS, summed=True, own=_ARM_SUMS,
            averaged=True, notes=("jitter",), in_full=True, draws=_last_draws, words="effects", slow=True),
    Request(name="AskRisks", message=Step, phase="effects", answer=_RISKS, summed=True, own=_OWN_RISKS,
            averaged=True, notes=("jitter",), in_full=True, draws=_last_draws, words="effects", slow=True),
    Request(name="AskRates", message=Step, phase="effects", answer=_RATES, summed=True, own=_OWN_RATES,
            averaged=True, notes=("jitter",), in_full=True, draws=_last_draws, words="effects", slow=True),
    Request(name="AskSurvival", message=Step, phase="effects", answer=_CURVES, summed=True, own=_OWN_CURVES,
            averaged=True, notes=("jitter",), in_full=True, draws=_last_draws, words="effects", slow=True),
    Request(name=diagnostic("propensity"), message=Step, phase="design", summed=True, optional=True,
            most=propensity.STEPS, words="diagnostics", slow=True, answer=(
                Array("log_likelihood", (), "of the propensity model, at the site's best intercept",
                      holds=_never_positive),
                Array("gradient", ("covariates",), "its slope in the common coefficients"),
                Array("hessian", ("covariates", "covariates"), "its curvature, the site's intercept profiled out",
                      holds=_is_curvature),
                _positive("carried", (2,), "sums of the weights and of their squares: how many people carry it"))),
    Request(name=diagnostic("balance"), message=Step, phase="design", summed=True, optional=True, in_full=True,
            words="diagnostics", slow=True, answer=(
                _positive("told", (_ARMS[0], "covariates"), _TELLING),
                _positive("size", (*_ARMS, "covariates"), "weight of the people in each arm, by weighting"),
                Array("first", (*_ARMS, "covariates"), "weighted sum of each covariate"),
                _positive("second", (*_ARMS, "covariates"), "and of its square"),
                _positive("carried", (_ARMS[0],), _TELLING), _positive("weight", _ARMS, "sum of the weights"),
                _positive("square", _ARMS, "sum of the squared weights"))),
    Request(name=diagnostic("overlap"), message=Step, phase="design", summed=True, optional=True, in_full=True,
            words="diagnostics", slow=True, own=(Array("intercept", (), "of the site's propensity"),), answer=(
                _positive("counts", (2, overlap.BINS), "people by preference score; small counts hidden"),
                _positive("hidden", (2, overlap.BINS), "how many sites hide each"),
                _positive("shares", (2, 2), "people in equipoise and outside common support, of how many"),
                _positive("where_told", ("covariates",), _TELLING),
                _positive("where_size", ("covariates",), "people whose treatment was all but decided"),
                Array("where_total", ("covariates",), "sum of their covariates"))),
    Request(name=diagnostic("missingness"), message=Step, phase="design", summed=True, optional=True, in_full=True,
            asks=lambda study: study.may_lack, words="diagnostics", answer=(
                _positive("told", ("columns",), _TELLING),
                _counted("gaps", (missingness.ARMS, "columns"), "people of an arm without a value; few: hidden"),
                _counted("people", (missingness.ARMS, "columns"), "of how many"),
                _positive("dropped_told", (), "how many sites tell what follows"),
                _counted("dropped", (missingness.LACKS,), "rows left out: without treatment, untreated and treated "
                                                          "without outcome"),
                _counted("dropped_people", (missingness.ARMS,), "people who are not"))),
    Request(name=diagnostic("outcome"), message=Step, phase="checks", summed=True, optional=True, in_full=True,
            words="diagnostics", slow=True, own=(
                Array("effect", (3,), "people, sum and squares of doubly robust effects"),
                Array("residuals", (2, 3), "people, sum and squares of residuals in each arm")), answer=(
                _positive("sites", (), "how many sites tell"),
                _positive("places", _PLACES, "outcomes by predictive probability; small counts hidden"),
                _positive("places_hidden", _PLACES, "how many sites hide each"),
                _positive("places_whole", _PLACES, "the same over the sites that hide none"),
                Array("bins", _BINS, "predicted and observed outcomes; small bins hidden"),
                Array("line", (6,), "sums of the calibration line"),
                _positive("treated_share", (2,), "people, and sum of their propensities"),
                Array("sameness", (sameness.POWERS, sameness.POWERS),
                      "sums of products of doubly robust effects and expected ones"))),
    Request(name=diagnostic("trial"), message=Step, phase="checks", summed=True, optional=True, in_full=True,
            asks=lambda study: study.design.randomised and study.outcome_type != "survival", words="plain difference",
            answer=(
                Array("arms", (2, trial.MOMENTS), "people of an arm, sums of outcomes, exposures and their products"),
                Array("strata", (3,), "the site's own plain difference, weighted, and its variance"))),
    Request(name=diagnostic("subgroups"), message=Step, phase="checks", summed=True, optional=True, in_full=True,
            asks=lambda study: bool(study.subgroups), draws=_last_draws, words="subgroups", slow=True, answer=(
                _counted("told", ("groups",), "sites that tell of a subgroup: not where few are in it, or in all else"),
                _counted("people", ("groups",), "people in it there"),
                Array("effects", ("draws", "levels", "groups"), "sum of their expected effects, or of their risks"),
                Array("effects_cov", ("groups", "groups"), "its covariances within a draw, averaged over draws"))),
    Request(name=diagnostic("decisions"), message=Step, phase="checks", summed=True, optional=True, in_full=True,
            asks=lambda study: study.decisions is not None, draws=_last_draws, words="decisions", slow=True, answer=(
                Array("products", ("along", "along"), "products of the covariates of the linear summary"),
                Array("projected", ("draws", "levels", "along"), "expected effects, or risks, times each of them"),
                Array("projected_cov", ("along", "along"), "its covariances within a draw, averaged over draws"),
                _counted("leaf_told", ("leaves",), "sites that tell of a leaf of the rule"),
                _counted("leaf_people", ("leaves",), "people in it there"),
                Array("leaf_effects", ("draws", "levels", "leaves"), "sum of their expected effects, or risks"),
                Array("leaf_cov", ("leaves", "leaves"), "its covariances within a draw, averaged over draws"),
                Array("leaf_scores", ("leaves", 4), "doubly robust effects, their squares, times outcomes without, and "
                                                   "expected effects"),
                _counted("above_told", ("cutoffs",), "sites that tell of those expected to benefit by more"),
                _counted("above_people", ("cutoffs",), "how many these are"),
                Array("above_scores", ("cutoffs", 3), "their doubly robust effects, squares, times outcomes without"),
                Array("scores", (6,), "the same over everybody, and doubly robust outcomes without treatment"))),
)
REQUESTS: dict[str, Request] = {row.name: row for row in _ROWS}
"""In the order of a study's phases, but for the design, which is asked before the fit and told after it."""
NO_REQUEST = Request(name="", message=Message, phase=NO_PHASE)
"""Of what is none, or of a step that nobody knows: nothing may leave in answer to it."""


def diagnostics_in(phase: str, study: Study) -> tuple[str, ...]:
    """Those that the study asks once in a phase, in the table's order: the course asks them all. The propensity model,
    which takes steps and which they need, comes before them."""
    first = diagnostic("propensity")
    return tuple(row.name for row in REQUESTS.values()
                 if row.kind and row.phase == phase and row.name != first and row.asks(study))


def asked(message: Message) -> str:
    """The name under which a request is answered: a step's own, or its type's."""
    return message.name if isinstance(message, Step) and message.name in REQUESTS else type(message).__name__


def row_of(message: Message | None) -> Request:
    return NO_REQUEST if message is None else REQUESTS.get(asked(message), NO_REQUEST)
