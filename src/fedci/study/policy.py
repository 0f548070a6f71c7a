"""The disclosure policy of a study: the smallest groups that may be described, and how finely.

`standard` is for patients: a study may make it stricter, and the name is then still true. `simulation` is for data that
nobody has to protect: simulated or public. `custom` is anything else, from the values of `standard`: what it loosens
each site has to allow by itself (`site.floors`). All are data, so that a site can read what it agrees to; which way a
value is stricter stands in `study.strictness`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from fedci.errors import FloorError, StudyError
from fedci.study.options import ROUND_CAP, Options, nearest, validated
from fedci.study.strictness import RULES, is_alone, looser_fields, shown, stricter

ARM_FLOOR = 10
"""Rows per arm below which four moments give patients away (integer ages: uniquely at 8, often at 12)."""
STANDARD_ROUND_CAP = 1000
"""Each round shows the coordinator one more function of the rows."""
SECURE_SUM_SITES = 3
"""With two sites, each can subtract its own part from the sum and read the other's."""

NOISE_STEP = 0.05
"""Of `outcome_noise`."""

Count = Annotated[int, Field(strict=True, ge=0)]
Bound = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
Setting = TypeVar("Setting")


class Policy(Options):
    """What a site asks before anything leaves it. A study names one, and may make it stricter."""

    name: Literal["standard", "simulation", "custom"] = "standard"
    min_rows: Annotated[int, Field(strict=True, ge=2)] = 50
    """Rows a site needs to take part."""
    min_arm_rows: Annotated[int, Field(strict=True, ge=1)] = 20
    """Treated rows, and untreated rows, that a site needs to take part."""
    override_reason: str = ""
    """Why `min_arm_rows` may fall below 10 under `custom`; kept with the study, for whoever audits it."""
    min_cell: Count = 10
    """Rows on each side of a binary column; with fewer, the column's moments stay at the site."""
    moment_digits: Annotated[int, Field(strict=True, ge=1, le=17)] | None = 4
    """Significant digits of the moments that leave; none: as computed (`simulation` only)."""
    parameters_per_row_warn: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 0.33
    """Parameters per row above which the result carries a warning: it could memorise rows."""
    statistics_per_row: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 0.33
    """Columns per row above which the sums of the model `shared` may not leave a site in the clear."""
    max_parameters_per_row: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 1.0
    """Parameters per row above which a site does not take part."""
    numbers_per_person: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] = 0.0
    """Numbers told in all sums of a study for each person in them, at most; 0: no sums of a fit, which are exact. By
    the local bound people in the tails of a column can be solved for at every size and ratio that was tried
    (docs/assurance.md); more numbers than people can be solved for everybody."""
    min_difference: Count = 20
    """No combination of what a site tells, in this study and all before, tells more of a person than a mean over so
    many people does; of the arms, over `min_cell`."""
    max_cohorts: Annotated[int, Field(strict=True, ge=1)] = 20
    """Different cohorts that a site tells of with one outcome, over all studies."""
    max_levels: Annotated[int, Field(strict=True, ge=2)] = 40
    """Levels a categorical covariate may have."""
    max_level_share: Share = 0.33
    """Levels of a categorical per row of the site, at most."""
    max_rounds: Annotated[int, Field(strict=True, ge=1, le=ROUND_CAP)] = 200
    """Evaluations of the objective a fit may ask a site for; at most 1000 but under `simulation`."""
    allow_single_arm: Annotated[bool, Field(strict=True)] = False
    """Whether a site with only treated (or only untreated) rows may take part, with a warning."""
    allow_linkage: Annotated[bool, Field(strict=True)] = True
    """Whether keyed tokens of people may leave, to find those who stand at several sites."""
    secure_sum: Annotated[bool, Field(strict=True)] | Literal["auto"] = True
    """Whether the coordinator sees only sums over three sites or more: the sums of one site, exact, give its people's
    rows away. "auto": only where there are so many; with fewer each site's sums are seen."""
    site_effects: Annotated[bool, Field(strict=True)] = True
    """Under secure sums: whether each site's own average effects are told, or only those of all sites together."""
    outcome_noise: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.1
    """δ: each site adds noise of δ times the outcome's sd to its people's outcomes, once and for ever: whoever knows
    all else learns an outcome to ± δ sd at best. A multiple of 0.05; 0: none."""
    sum_noise: Annotated[float, Field(strict=True, ge=0, le=4)] = 0.5
    """s: a fit at home (preset `few`) tells its sums with noise, drawn at the sites and known to the model: whoever
    knows all else, and all that is told in a study, learns a value of a person to ± s sd at best. 0: none."""
    epsilon: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    """ε of differential privacy, of all that `noised` names together; none: no noise."""
    delta: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None
    """δ of differential privacy."""
    noised: tuple[Literal["moments", "effects", "gradients"], ...] = ("moments", "effects")
    """What is noised: moments (protects a record), final effects, and gradients (protect a site's answer)."""
    outcome_range: tuple[Bound, Bound] | None = None
    """Declared bounds of the outcome, for the noise of its moments; values beyond are moved to them."""
    effect_bound: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    """The largest average effect of a site, for the noise of the effects."""
    gradient_clip: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    """Norm to which a site's gradient is clipped, for its noise."""
    max_file_bytes: Annotated[int, Field(strict=True, ge=1)] = 4 * 2**30
    """Size of a site's file above which it is not opened."""

    @model_validator(mode="after")
    def _the_name_is_true(self) -> Self:
        if self.name != "simulation":
            self._check_floors()
        if self.name == "standard":
            self._check_standard()
        return self

    def _check_standard(self) -> None:
        """A policy may not call itself `standard` and ask for less: whoever reads the name would be misled."""
        usual = {key: field.default for key, field in Policy.model_fields.items()}
        for key in looser_fields(vars(self), usual):
            raise StudyError(
                f"policy: {key} = {shown(getattr(self, key))} is looser than 'standard', which has {shown(usual[key])} "
                f"({RULES[key].words}). A policy of that name may only be stricter: leave {key} out, or write "
                f"name = \"custom\"; then each site has to allow it by itself (`fedci site policy --help`)")

    @model_validator(mode="after")
    def _noise_is_on_the_ladder(self) -> Self:
        steps = self.outcome_noise / NOISE_STEP
        if abs(steps - round(steps)) > 1e-9:
            raise StudyError(f"policy.outcome_noise = {self.outcome_noise:g} is no multiple of {NOISE_STEP:g}: noise "
                             f"grows in such steps, so that two studies with different values do not solve for an "
                             f"outcome. Take {NOISE_STEP * np.ceil(steps):g}")
        return self

    @model_validator(mode="after")
    def _noise_is_declared(self) -> Self:
        if (self.epsilon is None) != (self.delta is None):
            raise StudyError("policy: epsilon and delta go together: differential privacy is a pair of both")
        if self.epsilon is not None:
            self._check_noise()
        return self

    def _check_noise(self) -> None:
        if not self.noised or len(set(self.noised)) < len(self.noised):
            raise StudyError("policy.noised: name what is noised, each once: moments, effects, gradients")
        low, high = self.outcome_range or (0.0, 0.0)
        for kind, key, there in (("moments", "outcome_range", low < high),
                                 ("effects", "effect_bound", self.effect_bound),
                                 ("gradients", "gradient_clip", self.gradient_clip)):
            if kind in self.noised and not there:
                raise StudyError(f"policy.{key} is missing: the noise of the {kind} is measured by it, and it must be "
                                 f"declared, not taken from the data")

    def noises(self, kind: str) -> bool:
        return self.epsilon is not None and kind in self.noised

    def _check_floors(self) -> None:
        if self.min_arm_rows < ARM_FLOOR and not self.override_reason.strip():
            raise StudyError(
                f"policy: min_arm_rows = {self.min_arm_rows} is below {ARM_FLOOR}, where moments "
                "give patients away. Raise it, or write the reason in override_reason")
        if self.max_rounds > STANDARD_ROUND_CAP:
            raise StudyError(
                f"policy: max_rounds = {self.max_rounds} is above {STANDARD_ROUND_CAP}, the most "
                f"that {self.name!r} allows. Lower it")
        if self.moment_digits is None:
            raise StudyError(f"policy: moment_digits must be a number under {self.name!r}; the usual one is 4")

    def secures(self, sites: int) -> bool:
        """Whether the sums of so many sites are masked."""
        return self.secure_sum is True or (self.secure_sum == "auto" and sites >= SECURE_SUM_SITES)

    def under(self, floors: Policy) -> Policy:
        """The stricter value of the two wherever a site can apply it by itself; else this policy's."""
        held = {key: stricter(key, value, getattr(floors, key)) for key, value in vars(self).items()
                if is_alone(key, value)}
        return self.model_copy(update=held)

    def disagreements(self, floors: Policy) -> tuple[str, ...]:
        """Fields in which this policy asks for less than `floors`, and all parties have to do the same."""
        return tuple(key for key in looser_fields(vars(self), vars(floors))
                     if RULES[key].has_floor and not is_alone(key, getattr(self, key)))

    def changes(self) -> dict[str, Any]:
        """What differs from the policy of the same name: what a study file has to say besides that name."""
        usual = POLICIES[self.name].model_dump()
        return {key: value for key, value in self.model_dump().items() if value != usual[key]}


POLICIES = {
    "standard": Policy(),
    "simulation": Policy(
        name="simulation", min_rows=2, min_arm_rows=1, min_cell=0, moment_digits=None, max_level_share=1.0,
        statistics_per_row=1e9, max_parameters_per_row=1e9, numbers_per_person=1e9, min_difference=0, max_cohorts=10**9,
        max_rounds=ROUND_CAP, secure_sum=False, outcome_noise=0.0, sum_noise=0.0,
    ),
    "custom": Policy(name="custom"),
}


GONE = frozenset({"check_trajectory"})
"""Keys of version 0.1.0 without which nothing changes: sites follow every study."""


def policy(value: str | dict[str, Any] | Policy) -> Policy:
    """By name; or from a dict: the policy its `name` says (else `standard`) with the other keys laid over."""
    if isinstance(value, Policy):
        return value
    if isinstance(value, str):
        return _named(value)
    if isinstance(value, dict):
        base = _named(value.get("name", "standard"))
        value = {key: part for key, part in value.items() if key not in GONE}
        return validated(Policy, {**base.model_dump(), **value}, where="policy")
    raise StudyError(f"policy: got {type(value).__name__}, needs a name ({', '.join(POLICIES)}) or a table")


def _named(name: object) -> Policy:
    if not isinstance(name, str) or name not in POLICIES:
        hint = nearest(name, POLICIES) if isinstance(name, str) else ""
        raise StudyError(f"policy {name!r} does not exist{hint}; known: {', '.join(POLICIES)}")
    return POLICIES[name]


def check_masks(policy: Policy, sites: int) -> None:
    """The sums of a fit are exact, and of one site alone they give its people's rows away: under masks nobody sees
    them. Of two sites, each can subtract its own part from the sum and read the other's."""
    if policy.secure_sum is True and sites < SECURE_SUM_SITES:
        raise FloorError(
            f"policy.secure_sum = true: the sums of the fit may only be seen summed over at least {SECURE_SUM_SITES} "
            f"sites, got {sites}. One site's sums give its people's rows away, and of two sites' sum each could read "
            f"the other's part")


MASKS_REMEDY = ('Let a third site take part; where one person may see all rows, write policy = "simulation"; or agree '
                'on a policy of the name "custom" with secure_sum = "auto", which each site must allow by itself '
                '(`fedci site policy --allow secure_sum=auto --reason …`)')
"""What can be done where too few sites take part for masks."""


def check_available(policy: Policy, sites: int) -> None:
    """`check_masks`, with what can be done."""
    try:
        check_masks(policy, sites)
    except FloorError as problem:
        raise FloorError(f"{problem}. {MASKS_REMEDY}") from None


def given(setting: Setting | None) -> Setting:
    """A setting without which a policy that needs it is no policy (`Policy` has checked it)."""
    if setting is None:
        raise AssertionError("a policy that adds noise says how much")
    return setting
