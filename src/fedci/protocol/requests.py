"""Every request, one row each: its phase, the arrays that answer it, what is summed, what a ledger keeps, what is said.

    REQUESTS["AskDiagnostic.balance"].shapes(sizes)     of the arrays of an answer, by named sizes
    REQUESTS["PullBack"].leaves(secure=True)            the names that may leave: of a summed answer only its masked sum
    row_of(message)                                     the row of a request

The door, the ledger, `fedci check`, the progress line, both parties' checks and docs/security.md read this table, and
nothing else lists requests. A new request, or a new kind of diagnostic, is a row here and what computes it at a site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedci.diagnostics import balance, fit, overlap, propensity
from fedci.protocol.messages import (
    AskDiagnostic,
    AskEffects,
    AskLinkKey,
    AskMaskKey,
    AskMoments,
    AskSharedEffects,
    AskStatistics,
    AskTokens,
    Evaluate,
    Exclude,
    Hello,
    Message,
    OpenSum,
    Prepare,
    PullBack,
    Reply,
    TakeCheckKey,
    TakeLinkKey,
    TakeMaskKeys,
    Tokens,
    WrapLinkKey,
)
from fedci.study.options import FitOptions

MASKED, OWN = "masked", "own/"
"""The name of a masked answer, and how the names begin of what a site tells of itself beside it."""
NO_PHASE = "none"
"""Of what could not be read, or is no request."""
SIZES = {
    "people": "people at the site",
    "columns": "the study's covariates, a column for each level",
    "covariates": "those, and the indicators of missing values",
    "coefficients": "covariates and sites",
    "parameters": "numbers in θ",
    "draws": "draws from q",
    "basis": "q, columns of the basis",
    "products": "q(q + 1)/2",
    "correlations": "noise correlations of realised effects",
    "populations": "everybody, the treated, the untreated",
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
    flag: bool = False
    """Whether it says of others that they are told or hidden, and holds no numbers."""

    def at(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[length] if isinstance(length, str) else length for length in self.shape)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A row: all that is known of a request before it is asked."""

    name: str
    """As ledgers have it: the message's type, of a diagnostic with its kind."""
    message: type[Message]
    phase: str
    answer: tuple[Array, ...] = ()
    """In the clear. No more may leave a site, no fewer are an answer."""
    replies: tuple[type[Message], ...] = (Reply,)
    """The types of its answer."""
    summed: bool = False
    """Whether answers are added over the sites: under secure sums only their masked sum leaves, beside `by_site`."""
    masked: tuple[Array, ...] | None = None
    """What is added under masks, where it is not the answer in the clear without `by_site`."""
    by_site: tuple[str, ...] = ()
    """Arrays that the result or the report has of each site: told in the clear beside a masked sum."""
    averaged: bool = False
    """Whether `by_site` is told as averages over the draws, and only where the policy has `site_effects`."""
    bounded: bool = False
    """Whether the sums are gradients of standardised data, which a masked sum holds in one integer each."""
    notes: tuple[str, ...] = ()
    """Keys of the notes that may come with an answer in the clear."""
    in_full: bool = False
    """Whether the ledger keeps the answer number by number: it is told of people's groups."""
    most: int = 1
    """How often its arrays leave in a run at most, where that does not depend on the options; tokens in parts."""
    draws: Callable[[FitOptions], Occasions] | None = None
    """Of the fit's own: about how many draws, and how often at most."""
    words: str = ""
    """What the progress line says that it is for; '': nothing."""
    slow: bool = False
    """Whether the progress line shows it after the rounds as well."""

    @property
    def kind(self) -> str:
        """Of a diagnostic; '' of all else."""
        return self.name.partition(".")[2]

    @property
    def added(self) -> tuple[Array, ...]:
        """What is summed over the sites; what is told of each is not, but for averages, which come beside their sum."""
        if self.masked is not None:
            return self.masked
        return tuple(array for array in self.answer if self.averaged or array.name not in self.by_site)

    def shapes(self, sizes: Sizes) -> Shapes:
        """Of the answer in the clear."""
        return {array.name: array.at(sizes) for array in self.answer}

    def summed_shapes(self, sizes: Sizes) -> Shapes:
        return {array.name: array.at(sizes) for array in self.added}

    def own_shapes(self, sizes: Sizes) -> Shapes:
        """Of what a site tells of itself beside a masked sum: averages are as of one draw."""
        return {array.name: array.at({**sizes, "draws": 1}) for array in self.answer if array.name in self.by_site}

    def leaves(self, secure: bool, site_effects: bool = False) -> set[str]:
        """The names of the arrays that answer it."""
        if not (secure and self.summed):
            return {array.name for array in self.answer}
        own = self.by_site if site_effects or not self.averaged else ()
        return {MASKED, *(OWN + name for name in own)}

    def notes_beside(self, secure: bool) -> set[str]:
        """The keys of the notes that may answer it; under masks also no jitter, which would tell of rows."""
        if not (secure and self.summed):
            return set(self.notes)
        return {"shares", "withheld"} if self.kind else {"shares"}

    def occasions(self, options: FitOptions) -> Occasions:
        return self.draws(options) if self.draws else ((1, self.most),)


# --- how often a fit asks


def _each_round(options: FitOptions) -> Occasions:
    return ((options.optimiser.draws, options.optimiser.rounds),)


def _last_thetas(options: FitOptions) -> int:
    """Draws of θ after the fit; draws of β come with each."""
    return max(options.prediction.draws // options.model.draws_per_theta, 1)


def _last_draws(options: FitOptions) -> Occasions:
    """With each θ its draws of β."""
    return ((_last_thetas(options) * options.model.draws_per_theta, 1),)


def _statistics(options: FitOptions) -> Occasions:
    """At the start about one θ, in every round, and for the effects' draws."""
    return ((1, 1), *_each_round(options), (_last_thetas(options), 1))


# --- the arrays of the answers


def _moments() -> tuple[Array, ...]:
    parts = [part for name, columns in (("x", "columns"), ("y0", 1), ("y1", 1), ("w", 1))
             for part in (Array(name, (4, columns), "mean, variance, skewness, kurtosis"),
                          Array(f"{name}_count", (columns,), "how many people they are over"))]
    return (*parts, Array("suppressed", ("columns",), "which columns are kept back", flag=True),
            Array("incomplete", ("columns",), "which columns have missing values", flag=True))


_WHOM = "over everybody, the treated, the untreated"
_BY_DRAW, _BY_CORRELATION = ("draws", "populations"), ("draws", "correlations", "populations")
_EFFECTS = (
    Array("cate_mean", _BY_DRAW, f"sum of expected effects, {_WHOM}"),
    Array("cate_var", _BY_DRAW, f"its variance, {_WHOM}"),
    Array("ite_mean", _BY_CORRELATION, f"sum of realised effects, {_WHOM}"),
    Array("ite_var", _BY_CORRELATION, f"its variance, {_WHOM}"),
    Array("ite_sd", ("correlations",), "sum of the people's standard deviations"),
    Array("people", ("populations",), "how many people"),
)
_FAILED = Array("failed", (), "whether the numbers ran away")
_ARMS = (len(balance.WEIGHTINGS), 2)
_PLACES, _BINS = (fit.PLACES,), (fit.CALIBRATION_BINS, 4)
_COUNTS, _HIDDEN = "people by preference score; small counts hidden", "which counts are hidden"
_SEEN = Array("places", _PLACES, "outcomes by predictive probability; small counts hidden")
_CALIBRATION = Array("bins", _BINS, "predicted and observed outcomes; small bins hidden")
_LINE = Array("line", (6,), "sums of the calibration line")
_SHARE = Array("treated_share", (2,), "people, and sum of their propensities")


# --- the table

_ROWS = (
    Request(name="Hello", message=Hello, phase="handshake", notes=("warnings",), words="handshake"),
    Request(name="AskLinkKey", message=AskLinkKey, phase="linkage",
            notes=("people", "fingerprint", "public", "signature"), words="linkage"),
    Request(name="WrapLinkKey", message=WrapLinkKey, phase="linkage", notes=("wrapped",)),
    Request(name="TakeLinkKey", message=TakeLinkKey, phase="linkage"),
    Request(name="AskTokens", message=AskTokens, phase="linkage", replies=(Reply, Tokens), words="linkage",
            answer=(Array("tokens", ("people", 2), "a keyed token for each person, in random order"),)),
    Request(name="Exclude", message=Exclude, phase="linkage", notes=("excluded", "warnings"), words="linkage"),
    Request(name="AskMaskKey", message=AskMaskKey, phase="keys", notes=("public", "signature")),
    Request(name="TakeMaskKeys", message=TakeMaskKeys, phase="keys", notes=("wrapped",)),
    Request(name="TakeCheckKey", message=TakeCheckKey, phase="keys"),
    Request(name="AskMoments", message=AskMoments, phase="moments", answer=_moments(), in_full=True, words="moments"),
    Request(name="Prepare", message=Prepare, phase="moments", words="units"),
    Request(name="Evaluate", message=Evaluate, phase="fit", summed=True, bounded=True,
            notes=("jitter",), draws=_each_round, words="first round", answer=(
                Array("objective", (), "the site's part of the objective"),
                Array("gradient", ("parameters",), "its slope in the model's parameters"),
                Array("phi_roots", ("draws", 2, 2), "its slope in the draws of Φ"),
                Array("sigma_roots", ("draws", 2, 2), "its slope in the draws of Σ"), _FAILED)),
    Request(name="AskStatistics", message=AskStatistics, phase="fit", summed=True, notes=("jitter",),
            draws=_statistics, words="first round", answer=(
                Array("gram", ("draws", "products"), "products of the basis columns, weighted"),
                Array("cross", ("draws", "basis"), "basis columns times the outcome"),
                Array("square", ("draws",), "the outcome's square, weighted"),
                Array("log_det", ("draws",), "size of the site's own covariance"), _FAILED)),
    Request(name="PullBack", message=PullBack, phase="fit", summed=True, draws=_each_round,
            words="first round", answer=(
                Array("gradient", ("draws", "parameters"), "slope of the objective in the model's parameters"),)),
    Request(name="OpenSum", message=OpenSum, phase="fit", notes=("opened",)),
    Request(name="AskEffects", message=AskEffects, phase="effects", answer=_EFFECTS, summed=True,
            by_site=tuple(array.name for array in _EFFECTS), averaged=True, notes=("jitter",), in_full=True,
            draws=_last_draws, words="effects", slow=True),
    Request(name="AskSharedEffects", message=AskSharedEffects, phase="effects", answer=_EFFECTS,
            summed=True, by_site=tuple(array.name for array in _EFFECTS), averaged=True, notes=("jitter",),
            in_full=True, draws=_last_draws, words="effects", slow=True),
    Request(name="AskDiagnostic.propensity", message=AskDiagnostic, phase="design", summed=True,
            most=propensity.STARTS * propensity.STEPS, words="diagnostics", slow=True, answer=(
                Array("log_likelihood", (), "of the propensity model"),
                Array("gradient", ("coefficients",), "its slope"),
                Array("hessian", ("coefficients", "coefficients"), "its curvature"))),
    Request(name="AskDiagnostic.balance", message=AskDiagnostic, phase="design", in_full=True, words="diagnostics",
            slow=True, answer=(
                Array("mean", (*_ARMS, "covariates"), "covariates in each arm, by weighting"),
                Array("variance", (*_ARMS, "covariates"), "and their variance"),
                Array("size", (*_ARMS, "covariates"), "over how many people's weight"),
                Array("told", (_ARMS[0], "covariates"), "which of these are told", flag=True),
                Array("weight", _ARMS, "sum of the weights"), Array("square", _ARMS, "sum of the squared weights"))),
    Request(name="AskDiagnostic.overlap", message=AskDiagnostic, phase="design", in_full=True, words="diagnostics",
            slow=True, answer=(
                Array("counts", (2, overlap.BINS), _COUNTS), Array("hidden", (2, overlap.BINS), _HIDDEN, flag=True),
                Array("totals", (2, overlap.GROUPS), _COUNTS),
                Array("totals_hidden", (2, overlap.GROUPS), _HIDDEN, flag=True),
                Array("where_mean", ("covariates",), "covariates of people whose treatment was all but decided"),
                Array("where_size", ("covariates",), "over how many of them"),
                Array("where_told", ("covariates",), "which of these are told", flag=True))),
    Request(name="AskDiagnostic.outcome", message=AskDiagnostic, phase="checks", summed=True,
            by_site=("effect", "residuals"), in_full=True, words="diagnostics", slow=True, answer=(
                Array("effect", (3,), "people, sum and squares of doubly robust effects"),
                Array("residuals", (2, 3), "people, sum and squares of residuals in each arm"),
                _SEEN, Array("places_hidden", _PLACES, _HIDDEN, flag=True),
                _CALIBRATION, Array("bins_hidden", _BINS[:1], "which bins are hidden", flag=True), _LINE, _SHARE),
            masked=(Array("sites", (), "how many sites tell"), _SEEN,
                    Array("places_hidden", _PLACES, "how many sites hide each"),
                    Array("places_whole", _PLACES, "the same over the sites that hide none"),
                    _CALIBRATION, _LINE, _SHARE)),
)
REQUESTS: dict[str, Request] = {row.name: row for row in _ROWS}
"""In the order of a study's phases, but for the design, which is asked before the fit and told after it."""
NO_REQUEST = Request(name="", message=Message, phase=NO_PHASE)
"""Of what is none, or of a kind of diagnostic that nobody knows: nothing may leave in answer to it."""


def asked(message: Message) -> str:
    """The name under which a request is answered: its type's, for a known diagnostic with its kind."""
    if isinstance(message, AskDiagnostic) and diagnostic(message.kind) in REQUESTS:
        return diagnostic(message.kind)
    return type(message).__name__


def diagnostic(kind: str) -> str:
    """The name of a kind of diagnostic."""
    return f"{AskDiagnostic.__name__}.{kind}"


def row_of(message: Message | None) -> Request:
    return NO_REQUEST if message is None else REQUESTS.get(asked(message), NO_REQUEST)
