"""The study: which column plays which role, what may leave a site, and how the model is fitted.

    study.toml ─► Study ─► design columns, FitOptions, Policy, and one hash that every party must share

A study is the contract between the sites, so it says all that must agree and nothing about where a site keeps
its data. docs/study.md explains every key of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from fedci.errors import OutputError, StudyError
from fedci.plain import Shown, named
from fedci.study import consistency, outcomes
from fedci.study.assignment import Design
from fedci.study.coding import Coding, Name, sources, with_codings
from fedci.study.contract import hash_of
from fedci.study.covariate import Covariate, Missing, covariates_of
from fedci.study.decisions import Decisions
from fedci.study.estimand import Estimand
from fedci.study.options import FitOptions, nearest, with_noise
from fedci.study.options import preset as preset_options
from fedci.study.outcomes import OutcomeType
from fedci.study.policy import Policy, policy
from fedci.study.sections import Diagnosing, Linkage, SharedQuery
from fedci.study.site_name import check_site_id
from fedci.study.stated import Stated as _Stated
from fedci.study.study_file import fields_of, without_none_words, written
from fedci.study.subgroups import Group, Subgroup, groups_of, read
from fedci.study.toml import parsed, reason, text_of

RowsWithout = Literal["refuse", "drop"]


class Study(Shown, _Stated):
    """What every party must agree on. Read from `study.toml`, or built with the same names in Python."""

    name: Name = "study"
    treatment: Name
    """Column of 1 (treated) and 0 (not); or of the words in `arms`."""
    arms: tuple[Name, ...] = ()
    """Of more than two arms, the reference first; in a file `treatment = { name = …, arms = […] }`."""
    outcome: Name
    """Column of numbers; in a file, or with a type, `{ name = …, type = … }`."""
    outcome_type: OutcomeType = "numeric"
    """'binary': the column holds 1 (it happened) and 0 (it did not), and effects are differences of risks. 'survival':
    the same, when the time was over; 'count': how often (`study.outcomes`)."""
    time: Name | None = None
    """Of a time to an event: the column that says how long a person was followed."""
    horizons: tuple[float, ...] = ()
    """Times at which survival is compared."""
    cuts: tuple[float, ...] = ()
    """Where its intervals end; none: where the sites' events say."""
    exposure: Name | None = None
    """Of a count: the column that says over how long it was counted; none: as long for everybody."""
    covariates: tuple[Covariate, ...]
    """From a list of names (numeric), Covariates or dicts; or a dict from name to options."""
    ids: tuple[Name, ...] = ()
    """Columns that identify a person, for linkage; read as text, and never leave the site as they are."""
    linkage: Linkage = Linkage()
    """Used when there are ids and more than one site."""
    missing: Missing = "refuse"
    """What to do about missing covariates."""
    rows_without: RowsWithout = "refuse"
    """What to do about rows without their treatment or their outcome."""
    cluster: Name | None = None
    """Column of the hospital, school or family within the site: people who share one are alike in what nobody measured.
    """
    coding: dict[str, Coding] = {}
    """Column → how it comes from a site's cells; in a file also by the same keys in the column's own table."""
    diagnostics: Diagnosing = Diagnosing()
    design: Design = Design()
    """How treatment came about: 'observational', or drawn by lot, 'randomised' (`study.assignment`)."""
    decisions: Decisions | None = None
    """What is asked of the effects for a decision (`study.decisions`)."""
    subgroups: dict[Name, Subgroup] = {}
    """Name → of whom effects are told beside everybody's (`study.subgroups`)."""
    policy: Policy = policy("standard")
    """By name, or a dict of changes to the policy its `name` says."""
    preset: str = "default"
    options: dict[str, Any] = {}
    """Changes laid over the preset: {model: …, optimiser: …, prediction: …}; "none" removes a value."""
    sites: tuple[str, ...] = ()
    """Who may take part; empty: anyone."""
    quorum: Annotated[int, Field(strict=True, ge=1)] | None = None
    """On a network: how many sites are enough when others stay away; none: all must be there."""
    runs: Annotated[int, Field(strict=True, ge=1)] = 5
    """How often a site begins the study anew, on a network: each run, should rows or the cohort differ, tells more."""
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**32)] = 0
    source: SharedQuery | None = None
    """A query that sites with the same tables may use."""
    estimand: Estimand | None = None
    """The question in words, and the trial that it stands for."""
    _agreed_policy: Policy | None = PrivateAttr(default=None)
    """As all parties hold it, where a site's floors have made `policy` stricter."""
    _floors: Policy | None = PrivateAttr(default=None)

    if TYPE_CHECKING:  # a study can be written in more forms than it is kept in

        def __init__(self, *, name: str = ..., treatment: str | Mapping[str, Any], arms: Iterable[str] = ...,
                     outcome: str | Mapping[str, Any],
                     outcome_type: OutcomeType = ..., time: str | None = ..., horizons: Iterable[float] = ...,
                     cuts: Iterable[float] = ..., exposure: str | None = ...,
                     covariates: Iterable[str | Covariate | Mapping[str, Any]] | Mapping[str, Any],
                     ids: str | Iterable[str] = ..., linkage: Linkage | Mapping[str, Any] = ..., missing: Missing = ...,
                     rows_without: RowsWithout = ..., cluster: str | None = ...,
                     coding: Mapping[str, Coding | Mapping[str, Any]] = ...,
                     diagnostics: Diagnosing | Mapping[str, Any] = ...,
                     design: str | Design | Mapping[str, Any] = ...,
                     decisions: Decisions | Mapping[str, Any] | None = ...,
                     subgroups: Mapping[str, str | Subgroup | Mapping[str, Any]] = ...,
                     policy: str | Policy | Mapping[str, Any] = ...,
                     preset: str = ..., options: Mapping[str, Any] = ..., sites: Iterable[str] = ...,
                     quorum: int | None = ..., runs: int = ..., seed: int = ...,
                     source: SharedQuery | Mapping[str, Any] | None = ...,
                     estimand: Estimand | Mapping[str, Any] | None = ...,
                     ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _outcome_with_its_type(cls, data: Any) -> Any:
        data = with_codings(data) if isinstance(data, Mapping) else data
        return _with_outcome(data) if isinstance(data, Mapping) and isinstance(data.get("outcome"), Mapping) else data

    @field_validator("covariates", mode="before")
    @classmethod
    def _any_form_of_covariates(cls, value: Any) -> tuple[Covariate, ...]:
        return covariates_of(value)

    @field_validator("ids", mode="before")
    @classmethod
    def _one_id_needs_no_list(cls, ids: Any) -> Any:
        return (ids,) if isinstance(ids, str) else ids

    @field_validator("design", mode="before")
    @classmethod
    def _design_by_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("subgroups", mode="before")
    @classmethod
    def _any_form_of_subgroups(cls, value: Any) -> Any:
        return read(value)

    @field_validator("policy", mode="before")
    @classmethod
    def _policy_by_name(cls, value: Any) -> Policy:
        return policy(value)

    @field_validator("options", mode="before")
    @classmethod
    def _plain_options(cls, value: Any) -> Any:
        return without_none_words(value)

    @field_validator("sites")
    @classmethod
    def _site_ids(cls, sites: tuple[str, ...]) -> tuple[str, ...]:
        for site in sites:
            check_site_id(site)
            if sites.count(site) > 1:
                raise StudyError(f"sites: {site!r} is repeated; list each site once")
        return sites

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        consistency.check(self)
        return self

    @property
    def arm_count(self) -> int:
        return len(self.arms) or 2

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Those of the study, the reference first."""
        return self.arms or ("untreated", "treated")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the study, whatever a site calls them."""
        return (self.treatment, *self.outcome_columns, *(c.name for c in self.covariates), *self.ids,
                *self.diagnostics.controls, *((self.cluster,) if self.cluster else ()))

    def reads(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """The columns of a table that these columns of the study (none: all) are made from."""
        return sources(self.coding, tuple(self.columns if names is None else names))

    def label(self, column: str) -> str:
        """What a person calls a column of the study, or of its design: its label, of a level with the level."""
        name, level = column, ""
        if column not in self.coding and "=" in column:
            named = [c.name for c in self.covariates if column in c.design_columns() and c.type == "categorical"]
            name, level = (named[0], column.removeprefix(named[0])) if named else (column, "")
        coding = self.coding.get(name)
        return f"{coding.label}{level}" if coding is not None and coding.label else column

    def said(self, column: str) -> str:
        """Its label with its unit: 'systolic pressure (mmHg)'."""
        return f"{self.label(column)} ({self.unit(column)})" if self.unit(column) else self.label(column)

    def unit(self, column: str) -> str:
        """The unit of a column's values; '' where none is said."""
        coding = self.coding.get(column)
        return coding.unit or "" if coding is not None else ""

    @property
    def groups(self) -> tuple[Group, ...]:
        """All subgroups, in the order of their definitions."""
        return groups_of(self.subgroups, self.covariates)

    @property
    def levels(self) -> int:
        """Of the sums of effects in subgroups: of numbers one, of all else risks (or rates) without and with
        treatment."""
        return 1 if self.outcome_type == "numeric" else 2

    @property
    def outcome_columns(self) -> tuple[str, ...]:
        """The outcome's, and that of its time or exposure."""
        return (self.outcome, *(column for column in (self.time, self.exposure) if column is not None))

    @property
    def most_intervals(self) -> int:
        """Of a time to an event, before any count is known; else 0."""
        return outcomes.most_intervals(self.outcome_type, self.horizons, self.cuts)

    @property
    def links(self) -> bool:
        """Whether people at several sites are to be found."""
        return bool(self.ids) and self.linkage.enabled

    def fit_options(self, preset: str | None = None) -> FitOptions:
        """The preset (the study's, unless one is named) with the study's changes, within the policy."""
        options = preset_options(preset or self.preset, self.options)
        known = (options.model.family, options.model.rounds_tell) == ("shared", "gradients")
        tells = getattr(options.model, "rounds_tell", "gradients")
        knows = ("numeric", "binary") if tells == "products" and not self.agreed_policy.sum_noise else ("numeric",)
        if self.outcome_type not in knows and not known:
            words = "numeric outcomes and 0/1 outcomes" if "binary" in knows else "numeric outcomes"
            what = (f"the outcome '{self.outcome}' is {self.outcome_type}, and the preset '{preset or self.preset}' "
                    f"knows {words} only")
            if self.agreed_policy.sum_noise:
                raise StudyError(f"{what} where sums have noise (policy.sum_noise). Where every site allows exact "
                                 f"sums, take preset = \"default\" and a policy of name = \"custom\" "
                                 f"(docs/outcomes.md)")
            raise StudyError(f"{what}. Choose the preset 'default'")
        if self.cluster is not None and (options.model.family != "shared" or tells != "gradients"):
            raise StudyError(f"cluster: the preset '{preset or self.preset}' knows no clusters. Choose the preset "
                             f"'default'")
        if self.arms and not known:
            raise StudyError(f"the treatment '{self.treatment}' has {len(self.arms)} arms, and the preset "
                             f"'{preset or self.preset}' knows two. Choose the preset 'default'")
        if self.completes and (options.model.family != "shared" or tells != "gradients"):
            raise StudyError(f"missing = \"model\": the preset '{preset or self.preset}' draws nothing. Choose the "
                             f"preset 'default', or write missing = \"impute\"")
        rounds, most = options.optimiser.rounds, self.agreed_policy.max_rounds
        if rounds > most:
            raise StudyError(f"optimiser.rounds = {rounds} is above policy.max_rounds = {most}. "
                             f"Set rounds to {most} or less under [optimiser], or agree on more in a [policy] of the "
                             f"name \"custom\"")
        if options.model.sum_noise:
            raise StudyError("model.sum_noise is the policy's to say. Write sum_noise under [policy]")
        return with_noise(options, self.agreed_policy.sum_noise, self.agreed_policy.secure_sum)

    @property
    def noises_sums(self) -> bool:
        """Whether its fit tells sums with noise: then nothing is told without."""
        return self.fit_options().model.sum_noise > 0

    @property
    def tells_realised(self) -> bool:
        """Whether sums of realised effects are told: not where effects have noise."""
        return not (self.policy.noises("effects") or self.noises_sums)

    def changed(self, **changes: Any) -> Study:
        """The study with another preset, seed or cohort: another contract, with a hash of its own."""
        return self.model_copy(update=changes) if changes else self
    # --- at a site with floors of its own

    @property
    def agreed_policy(self) -> Policy:
        """The policy that all parties hold; `policy` is stricter where this site's floors are."""
        return self._agreed_policy or self.policy

    @property
    def floors(self) -> Policy | None:
        """What this site asks of any study; none: nothing but the study's own policy."""
        return self._floors

    def under(self, floors: Policy | None) -> Study:
        """The study as a site with such floors runs it: the stricter value holds. Its hash stays that of the agreed
        study. What a site cannot apply alone is told by `site.admission`."""
        held = self.model_copy(update={"policy": self.agreed_policy.under(floors) if floors else self.agreed_policy})
        held._agreed_policy, held._floors = (self.agreed_policy, floors) if floors else (None, None)
        return held

    def refuted(self, **changes: Any) -> Study:
        """The study of a refuter: the same but for these changes, and without diagnostics of its own."""
        return self.model_copy(update={"diagnostics": Diagnosing(enabled=False), **changes})

    def fills(self, covariate: Covariate) -> bool:
        """Whether a missing value of this covariate is filled rather than refused."""
        return (covariate.missing or self.missing) != "refuse"

    @property
    def completes(self) -> bool:
        """Whether what is missing is drawn given what is seen, and not set to the mean."""
        return any((covariate.missing or self.missing) == "model" for covariate in self.covariates)

    @property
    def may_lack(self) -> bool:
        """Whether values may be missing, filled or their rows dropped: what is missing is then looked at."""
        return self.rows_without == "drop" or any(self.fills(covariate) for covariate in self.covariates)

    def check_site(self, site: str) -> None:
        """Whether this site may take part."""
        check_site_id(site)
        if self.sites and site not in self.sites:
            raise StudyError(f"site {site!r} is not in the study{nearest(site, self.sites)}; "
                             f"sites = {', '.join(self.sites)}")

    def hash(self) -> str:
        """SHA-256 of all that must agree, as hex: the same for the same study however it was written down."""
        return hash_of(self)

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """The study that a TOML file describes; any problem with the file is one StudyError."""
        return cls.from_toml(text_of(Path(path)), f"study file {path}")

    @classmethod
    def from_toml(cls, text: str, place: str = "study") -> Study:
        """The study that TOML text describes; `place` is where a message says the text came from."""
        return cls.model_validate(fields_of(parsed(text, place), cls.model_fields))

    def to_toml(self) -> str:
        """The study as a file: `Study.read` of it is equal to this study."""
        return written(self)

    def shown(self) -> str:
        """What it asks, of what, and under which policy."""
        outcome = f"'{self.said(self.outcome)}'{'' if self.outcome_type == 'numeric' else f' ({self.outcome_type})'}"
        return (f"Study '{self.name}': effect of '{self.label(self.treatment)}' on {outcome}\n"
                f"  {len(self.covariates)} covariates: {named(map(self.said, (c.name for c in self.covariates)))}\n"
                f"  policy '{self.policy.name}', preset '{self.preset}', seed {self.seed}, hash {self.hash()[:12]}")

    def __repr__(self) -> str:
        return self.shown()

    def write(self, path: str | Path) -> None:
        """`to_toml` in a file, replacing what was there."""
        try:
            Path(path).write_text(self.to_toml(), encoding="utf-8")
        except (OSError, ValueError) as problem:
            raise OutputError(f"the study cannot be written to {path}: {reason(problem)}") from None


def _with_outcome(data: Mapping[str, Any]) -> dict[str, Any]:
    """With `outcome = {name = …, type = …}` as its fields."""
    return {**data, **outcomes.fields_of(data["outcome"])}


