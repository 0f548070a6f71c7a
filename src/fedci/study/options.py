"""The options of a fit as validated data: model, optimiser, prediction; and the presets that ship with the package.

    kernel expression   sum := product ('+' product)*      product := factor ('*' factor)*
                        factor := name | name '(' flag (',' flag)* ')' | '(' sum ')'
                        name ∈ rbf, matern12, matern32, matern52, linear, constant        flag ∈ ard, scale

`ard` gives each input its own length-scale; `scale` a learnt output scale (without it k(x, x) = 1).
Nothing here imports JAX, so that reading a study stays fast.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterable
from importlib import resources
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from fedci.errors import StudyError, UsageError

STATIONARY = ("rbf", "matern12", "matern32", "matern52")
WITHOUT_LENGTH = ("linear", "constant")
KERNELS = (*STATIONARY, *WITHOUT_LENGTH)
KERNEL_FLAGS = ("ard", "scale")
ROUND_CAP = 5000
"""No study may ask a site for more evaluations than this. The disclosure policy sets its own, lower limit."""

MAX_KERNEL_TOKENS = 200
"""Longer than any sensible kernel, short enough for a recursive reader."""

Expression = tuple[Any, ...]
"""('sum' | 'product', children…) or (kernel name, frozenset of flags)."""
Tokens = list[str]


def parse_kernel(text: str) -> Expression:
    """The tree of a kernel expression; ValueError names the token it stumbled over."""
    tokens = re.findall(r"[A-Za-z_0-9]+|\S", text)
    if len(tokens) > MAX_KERNEL_TOKENS:
        raise ValueError(f"a kernel of {len(tokens)} words and signs is too long: at most {MAX_KERNEL_TOKENS}")
    tree, rest = _parse_sum(tokens)
    if rest:
        raise ValueError(f"cannot read {rest[0]!r} in the kernel {text!r}")
    return tree


def _parse_sum(tokens: Tokens) -> tuple[Expression, Tokens]:
    return _parse_chain(tokens, "+", "sum", _parse_product)


def _parse_product(tokens: Tokens) -> tuple[Expression, Tokens]:
    return _parse_chain(tokens, "*", "product", _parse_factor)


def _parse_chain(tokens: Tokens, operator: str, label: str,
                 parse_part: Callable[[Tokens], tuple[Expression, Tokens]]) -> tuple[Expression, Tokens]:
    first, tokens = parse_part(tokens)
    parts = [first]
    while tokens and tokens[0] == operator:
        part, tokens = parse_part(tokens[1:])
        parts.append(part)
    return (parts[0] if len(parts) == 1 else (label, *parts)), tokens


def _parse_factor(tokens: Tokens) -> tuple[Expression, Tokens]:
    if not tokens:
        raise ValueError("the kernel ends where a kernel's name should stand")
    head, tokens = tokens[0], tokens[1:]
    if head == "(":
        tree, tokens = _parse_sum(tokens)
        return tree, _expect(tokens, ")")
    if head not in KERNELS:
        raise ValueError(f"unknown kernel {head!r}{nearest(head, KERNELS)}; known: {', '.join(KERNELS)}")
    if not (tokens and tokens[0] == "("):
        return (head, frozenset()), tokens
    first, tokens = _parse_flag(tokens[1:])
    flags = {first}
    while tokens and tokens[0] == ",":
        flag, tokens = _parse_flag(tokens[1:])
        flags.add(flag)
    if head in WITHOUT_LENGTH and "ard" in flags:
        raise ValueError(f"the kernel {head!r} has no length-scale: 'ard' has no meaning for it")
    return (head, frozenset(flags)), _expect(tokens, ")")


def _parse_flag(tokens: Tokens) -> tuple[str, Tokens]:
    if not tokens or tokens[0] not in KERNEL_FLAGS:
        got = repr(tokens[0]) if tokens else "nothing"
        raise ValueError(f"got {got} where a flag of the kernel should stand; known: {', '.join(KERNEL_FLAGS)}")
    return tokens[0], tokens[1:]


def _expect(tokens: Tokens, token: str) -> Tokens:
    if not tokens or tokens[0] != token:
        raise ValueError(f"the kernel lacks a {token!r}")
    return tokens[1:]


def nearest(word: str, known: Iterable[str]) -> str:
    """', did you mean …?' when a known word is near, or the same in other letters, else nothing."""
    listed = list(known)
    same = [one for one in listed if one.casefold() == word.casefold() != one]
    hits = same or difflib.get_close_matches(word, listed, n=1)
    return f", did you mean {hits[0]!r}?" if hits else ""


def _kernel(text: str) -> str:
    parse_kernel(text)
    return text


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Kernel = Annotated[str, AfterValidator(_kernel)]
Positive = Annotated[float, Field(gt=0), AfterValidator(_finite)]
Matrix2 = tuple[tuple[float, float], tuple[float, float]]
M = TypeVar("M", bound=BaseModel)


class Options(BaseModel):
    """Frozen, and strict about names: an unknown key is an error, not a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    if not TYPE_CHECKING:  # a checker reads the fields

        def __new__(cls, *values, **named):
            if values:
                needed = [name for name, field in cls.model_fields.items() if field.is_required()]
                fields = needed or list(cls.model_fields)[:1]
                raise UsageError(f"{cls.__name__} takes its values by name, got {len(values)} without one: write "
                                 f"{cls.__name__}({', '.join(f'{name}=…' for name in fields)}, …)")
            return super().__new__(cls)


class MeanOptions(Options):
    """A mean function: `zero`, `linear`, `network` (a shared trunk and one head per output), or, for the
    source-level means r and h, `table`: one free pair per site."""

    kind: Literal["zero", "linear", "network", "table"] = "linear"
    trunk: tuple[int, ...] = ()
    head: tuple[int, ...] = ()


class WishartOptions(Options):
    """Prior Wishart(scale, dof) of Φ or Σ, mean dof·scale, and how its posterior is parameterised."""

    scale: Matrix2
    dof: Annotated[float, Field(ge=2), AfterValidator(_finite)]
    learn_dof: bool = True
    start_dof: Annotated[float, Field(ge=2), AfterValidator(_finite)] | None = None
    """Degrees of freedom of q at the start; the prior's when absent."""
    correlation: Literal["positive", "signed"] = "signed"
    """The range of ρ (of η): [0, 1] as the paper prints, or (−1, 1)."""
    learn_correlation: bool = True
    """False keeps ρ (or η) at the prior's value: no data inform η."""

    @field_validator("scale")
    @classmethod
    def _positive_definite(cls, scale: Matrix2) -> Matrix2:
        (a, b), (c, d) = scale
        if not (all(map(math.isfinite, (a, b, c, d))) and b == c and a > 0 and a * d - b * c > 0):
            raise ValueError("must be symmetric and positive definite")
        return scale


class SharedOptions(Options):
    """The model `shared`: a random function that all sites share, and one of each site's own (docs/model.md)."""

    standardise: ClassVar[bool] = True
    moments_spread: ClassVar[str] = "variance"
    exchanges_per_round: ClassVar[int] = 2
    draws_per_theta: ClassVar[int] = 16
    """Of β for each draw of θ behind the effects: they cost a site no factorisation."""
    noises_gradients: ClassVar[bool] = False
    """Whether a site's gradient can be clipped and noised: here it comes of sums that are told as they are."""

    family: Literal["shared"]
    directions: Annotated[int, Field(ge=0, le=8)] = 2
    """K: along how many directions of x the shared function may bend; 0 leaves it linear."""
    knots: Annotated[int, Field(ge=1, le=64)] = 7
    """J: hinges along each direction."""
    landmarks: Annotated[int, Field(ge=0, le=256)] = 32
    """M: points through which products and thresholds of covariates are learnt from all sites together; 0: they are
    not."""
    kernel: Kernel = "matern52 + linear(scale) + constant(scale)"
    """k, the covariance of f^s, the function of a site's own; its constant part is the paper's g^s."""
    tails: Annotated[float, Field(gt=2)] | None = 3.0
    """Degrees of freedom of Student's t, the prior of the directions' entries: a few covariates may carry a direction.
    Without, it is Gaussian."""
    common: bool = True
    """Whether all coefficients may share a mean: the common slope Σ_c x_c/√d and m_k."""
    posterior: Literal["gaussian", "point"] = "gaussian"
    """q(θ): Gaussian with a diagonal, or a point (the mode), whose intervals do not know that θ is uncertain."""
    binary_sd: Positive | None = 0.5
    """0/1 columns keep the spread of a fair coin: a rare trait does not become a large distance, and one that nobody
    has yet keeps a meaning. Without, they are standardised like the others."""
    exact_rows: Annotated[int, Field(ge=1)] = 400
    """A site with more rows learns its own function through inducing inputs: time linear in its rows, not cubic."""
    rounds_tell: Literal["gradients", "products"] = "gradients"
    """What a round asks of a site: statistics and gradients at each draw, in two exchanges; or once the products of
    a dictionary of columns, with which the next rounds' worth of steps is taken at home (preset `few`)."""
    between_arms: bool = True
    """Whether how probable treatment is along the covariates has a coefficient of its own: their slopes are shrunk, and
    would leave a part of the confounding to the effect, where people are few and arms far apart (docs/model.md)."""
    sum_noise: Annotated[float, Field(ge=0, le=4)] = 0.0
    """s of the policy, where products are told with noise: the policy says it, not the study."""
    noise_masked: bool | Literal["auto"] = False
    """The policy's `secure_sum`, where products are told with noise: in a masked sum each site adds a part of it."""
    inducing: Annotated[int, Field(ge=1, le=2000)] = 64
    """M: how many; they are rows of the site, chosen by it, and never leave it."""
    jitter: Positive = 1e-10
    """Added to each covariance's diagonal, relative to its mean. If you get a NumericalError, raise this."""


class ModelOptions(Options):
    """The model `paper`."""

    binary_sd: ClassVar[float | None] = None
    exchanges_per_round: ClassVar[int] = 1
    rounds_tell: ClassVar[str] = "gradients"
    sum_noise: ClassVar[float] = 0.0
    draws_per_theta: ClassVar[int] = 1
    noises_gradients: ClassVar[bool] = True

    family: Literal["paper"] = "paper"
    kernel: Kernel = "matern52(scale)"
    """k, the covariance of f within a site."""
    source_kernel: Kernel = "matern52(scale)"
    """γ, the prior covariance of g between sites."""
    posterior_kernel: Kernel = "matern52(scale)"
    """κ, the posterior covariance of g between sites."""
    mean: MeanOptions = MeanOptions(kind="linear")
    """μ: x → 2."""
    source_mean: MeanOptions = MeanOptions(kind="zero")
    """r: moments of the covariates → 2."""
    posterior_mean: MeanOptions = MeanOptions(kind="table")
    """h: moments of all columns → 2."""
    phi: WishartOptions
    sigma: WishartOptions
    inter_dependency: bool = True
    """Whether g is there at all (the paper's ablation switches it off)."""
    standardise: bool = True
    """Pooled centring and scaling of x and y before the fit."""
    moments_spread: Literal["variance", "sd"] = "variance"
    """Second of the four moments: the paper prints the variance, its authors' code uses the sd."""
    weight_sd: Positive | None = None
    """Prior sd of μ's weights; none: no penalty."""
    hyper_sd: Positive | None = None
    """Prior sd of the log length-scales and log output scales of k and γ around their start (κ, being part of q, has
    none); none: no penalty."""
    jitter: Positive = 1e-10
    """Added to each covariance's diagonal, relative to its mean. If you get a NumericalError, raise this."""

    @model_validator(mode="after")
    def _mean_of_x_is_a_function(self) -> Self:
        if self.mean.kind == "table":
            raise ValueError("mean.kind = 'table' has no meaning for μ: choose zero, linear or network")
        return self


class OptimiserOptions(Options):
    name: Literal["lbfgs", "adam", "adagrad", "ascent"] = "lbfgs"
    rounds: Annotated[int, Field(ge=1, le=ROUND_CAP)] = 200
    """The cap: evaluations of the objective, one message each way per site."""
    learning_rate: Positive = 1e-2
    draws: Annotated[int, Field(ge=1, le=1024)] = 8
    """Draws of (Φ, Σ) per evaluation."""
    fresh_draws: bool = False
    """New draws each round (a stochastic objective) instead of common random numbers."""
    tolerance: Annotated[float, Field(ge=0), AfterValidator(_finite)] = 1e-3
    """Converged when the objective gains less than this (nats per site) over `patience` steps; 0: run all rounds."""
    patience: Annotated[int, Field(ge=1)] = 5
    first_rows: Annotated[int, Field(ge=0)] = 1000
    """Of the model `shared`: at larger sites the first rounds look at so many people, half from each arm (ten, a
    hundred, … times as many where that spares half the work), the last at all; 0: at all from the start."""

    @model_validator(mode="after")
    def _quasi_newton_needs_a_fixed_objective(self) -> Self:
        if self.name == "lbfgs" and self.fresh_draws:
            raise ValueError("lbfgs needs common random numbers: set fresh_draws = false or choose adam")
        return self


class PredictionOptions(Options):
    draws: Annotated[int, Field(ge=2, le=65536)] = 256
    """Posterior draws of (Φ, Σ, g), or of (θ, β), behind every effect."""


class FitOptions(Options):
    """All that a preset fixes."""

    model: Annotated[ModelOptions | SharedOptions, Field(discriminator="family")]
    optimiser: OptimiserOptions = OptimiserOptions()
    prediction: PredictionOptions = PredictionOptions()


LEAST_BINARY_SD = 0.5
"""Of a 0/1 column in model units, where sums have noise."""


def with_noise(options: FitOptions, noise: float, masked: bool | str) -> FitOptions:
    """As a fit at home is done with noise on its sums: straight, in one message of products, for what is told of a
    person adds up, and grows with the columns. A site's own function is a level of each arm, so that a person's part
    in the products is its own row's, and one inducing input is exact. 0/1 columns span two units at most: noise of s
    units would hide less of what is further apart than it says."""
    model = options.model
    if not isinstance(model, SharedOptions) or model.rounds_tell != "products" or not noise:
        return options
    fewer = {"sum_noise": noise, "noise_masked": masked, "directions": 0, "landmarks": 0, "between_arms": False,
             "kernel": "constant(scale)",
             "inducing": 1, "binary_sd": max(model.binary_sd or 0.0, LEAST_BINARY_SD)}
    return options.model_copy(update={"model": model.model_copy(update=fewer),
                                      "optimiser": options.optimiser.model_copy(update={"rounds": 1})})


def preset_names() -> list[str]:
    return sorted(p.name[:-5] for p in resources.files("fedci.study.presets").iterdir() if p.name.endswith(".toml"))


def preset(name: str, changes: dict[str, Any] | None = None) -> FitOptions:
    """The options of a shipped preset, with `changes` (nested as in the file) laid over it."""
    if name not in preset_names():
        raise StudyError(
            f"preset {name!r} does not exist{nearest(name, preset_names())}; known: {', '.join(preset_names())}")
    text = resources.files("fedci.study.presets").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return validated(FitOptions, _laid_over(tomllib.loads(text), changes or {}), where="options")


def _laid_over(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    both = dict(base)
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict)
        both[key] = _laid_over(base[key], value) if nested else value
    return both


def validated(cls: type[M], data: dict[str, Any], where: str) -> M:
    """`cls` from `data`; the first problem as one StudyError that names the key and the nearest known one."""
    try:
        return cls.model_validate(data)
    except ValidationError as problem:
        raise StudyError(f"{where}: {first_problem(cls, problem)}") from None


LISTS = "needs a list, in brackets, if of one thing alone too: [ … ]"


def first_problem(cls: type[BaseModel], problem: ValidationError) -> str:
    """The first thing wrong with the data of `cls`, in one line that names the key."""
    all_told = problem.errors(include_url=False, include_context=False)
    unknown = [one for one in all_told if one["type"] == "extra_forbidden"]  # a slip of a key leaves another missing
    first = (unknown or all_told)[0]
    path, known = _path(cls, [str(part) for part in first["loc"]])
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_elsewhere(path) or nearest(path[-1], known)}"
    if first["type"] == "missing":
        return f"the key {key!r} is missing"
    told = LISTS if first["type"] in ("tuple_type", "list_type") else first["msg"].removeprefix("Value error, ")
    return f"{key!r}: {told}" if key else told


def _path(cls: type[BaseModel], parts: list[str]) -> tuple[list[str], list[str]]:
    """(the path as the user wrote it, field names where it ends): pydantic puts the model's family into it."""
    path: list[str] = []
    holder: Any = cls
    kind: Any = cls
    for part in parts:
        if part in (families := _families(kind)):
            kind = families[part]
            continue
        path, holder = [*path, part], kind
        fields = getattr(kind, "model_fields", {})
        kind = _alone(fields[part].annotation) if part in fields else _of_each(kind)
    return path, list(getattr(holder, "model_fields", {}))


def _alone(kind: Any) -> Any:
    """The one model of a union with others that are none, such as None."""
    models = [one for one in get_args(kind) if hasattr(one, "model_fields")]
    return models[0] if len(models) == 1 and get_origin(kind) in (Union, UnionType) else kind


def _of_each(kind: Any) -> Any:
    """What a table of many holds; None of what is no such table."""
    return get_args(kind)[1] if get_origin(kind) is dict else None


def _families(kind: Any) -> dict[str, type[BaseModel]]:
    """The models of a union by their family; nothing for any other type."""
    if get_origin(kind) not in (Union, UnionType):
        return {}
    models = [one for one in get_args(kind) if "family" in getattr(one, "model_fields", {})]
    return {family: one for one in models for family in get_args(one.model_fields["family"].annotation)}


def _elsewhere(path: list[str]) -> str:
    """A hint for a key of `[model]` that another preset's model has."""
    both = {*ModelOptions.model_fields, *SharedOptions.model_fields}
    return ": it belongs to the model of another preset" if path[0] == "model" and path[-1] in both else ""
