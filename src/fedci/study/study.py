"""The study: which column plays which role, what may leave a site, and how the model is fitted.

    study.toml ─► Study ─► design columns, FitOptions, Policy, and one hash that every party must share

A study is the contract between the sites, so it says all that must agree and nothing about where a site keeps
its data. docs/study.md explains every key of the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from fedci.errors import OutputError, StudyError
from fedci.plain import Shown, named
from fedci.study import outcomes
from fedci.study.assignment import Design
from fedci.study.coding import TREATMENT_KEYS, Coding, Name, name_of, sources, with_codings
from fedci.study.decisions import Decisions
from fedci.study.estimand import Estimand
from fedci.study.identity import RULE, check_format
from fedci.study.omop import Omop
from fedci.study.options import FitOptions, nearest, with_noise
from fedci.study.options import preset as preset_options
from fedci.study.outcomes import OutcomeType
from fedci.study.policy import Policy, policy
from fedci.study.stated import Stated as _Stated
from fedci.study.subgroups import Group, Subgroup, groups_of, read
from fedci.study.toml import lines, parsed, reason, text_of, toml_key

SITE_ID = re.compile(r"[a-z0-9-]{1,40}")
"""What names a site: it stands in messages, ledgers and file names, so it is short and plain."""
OPTION_TABLES = tuple(FitOptions.model_fields)
"""The tables of a study file that change the preset."""
OF_TYPES = ("outcome_type", "time", "horizons", "cuts", "exposure")
"""The fields that a file writes into `outcome = { … }`."""
HASH_FORMAT = 2
"""Raised when the meaning of a study changes, so that old and new packages do not agree by chance."""


def is_name(text: str) -> bool:
    """Whether a column, a level or a study may be called so."""
    try:
        return bool(name_of(text))
    except ValueError:
        return False


Limit = Annotated[float, Field(strict=True)]
Missing = Literal["refuse", "impute", "model"]
"""'impute': the mean of all people, and an indicator; 'model': draws of what is missing given what is seen."""
RowsWithout = Literal["refuse", "drop"]


class Covariate(_Stated):
    """One column that may explain treatment and outcome."""

    name: Name
    type: Literal["numeric", "binary", "categorical"] = "numeric"
    levels: tuple[Name, ...] | None = None
    """Of a categorical, in order; the first is the reference that the other levels are compared with."""
    range: tuple[Limit, Limit] | None = None
    """Of a numeric: smallest and largest value that can be true. It catches codes for 'unknown'."""
    missing: Missing | None = None
    """What to do about missing values; none: as the study says."""

    @staticmethod
    def _place(data: Any) -> str:
        return f"covariates.{data['name']}" if isinstance(data, Mapping) and "name" in data else "covariates"

    @field_validator("levels", mode="before")
    @classmethod
    def _codes_are_words(cls, levels: Any) -> Any:
        """Levels coded 1, 2, 3 may be written without quotes."""
        if not isinstance(levels, list | tuple):
            return levels
        return tuple(str(level) if _is_integer(level) else level for level in levels)

    @field_validator("range")
    @classmethod
    def _range_is_ordered(cls, limits: tuple[float, float] | None) -> tuple[float, float] | None:
        if limits and not limits[0] < limits[1]:
            raise ValueError("needs [smallest, largest], the first below the second")
        return limits

    @model_validator(mode="after")
    def _keys_fit_the_type(self) -> Self:
        if problem := self._misfit():
            raise StudyError(f"covariates.{self.name}: {problem}")
        return self

    def _misfit(self) -> str | None:
        """What does not go with the type, and the remedy; none: all does."""
        levels, categorical = self.levels or (), self.type == "categorical"
        if categorical and len(levels) < 2:
            return 'a categorical needs two levels or more. Write levels = ["A", "B"], the reference first'
        if categorical and len(set(levels)) < len(levels):
            return "levels holds the same level twice; each stands once"
        if self.levels is not None and not categorical:
            return f'a {self.type} covariate has no levels. Set type = "categorical", or remove levels'
        if self.range and self.type != "numeric":
            return f"a {self.type} covariate has no range. Remove it"
        return None

    def design_columns(self) -> tuple[str, ...]:
        """Its columns in the design: itself, or one indicator for each level but the reference."""
        if self.type != "categorical":
            return (self.name,)
        return tuple(f"{self.name}={level}" for level in (self.levels or ())[1:])


class Linkage(_Stated):
    """How people who stand at several sites are found and left out (docs/linkage.md)."""

    enabled: Annotated[bool, Field(strict=True)] = True
    """False: the ids are not used, and a person at two sites counts twice."""
    keep: Annotated[int, Field(strict=True, ge=1)] = 1
    """Sites at which a person stays."""
    dates: dict[str, str] = {}
    """Id column → how its dates are written, such as "%d.%m.%Y"; other ids are text."""

    @staticmethod
    def _place(data: Any) -> str:
        return "linkage"

    @field_validator("dates")
    @classmethod
    def _formats(cls, dates: dict[str, str]) -> dict[str, str]:
        return {name: check_format(form) for name, form in dates.items()}


REFUTERS = ("placebo", "random-cause", "subset")
FEWEST_CONTROLS = 5
"""Negative controls from which a spread of errors is learnt at all."""


class Diagnosing(_Stated):
    """Which diagnostics a study runs, and whether its effects wait for them (docs/diagnostics.md)."""

    enabled: Annotated[bool, Field(strict=True)] = True
    blinded: Annotated[bool, Field(strict=True)] = False
    """Whether effects stay sealed until a person has seen the diagnostics and opens them."""
    refute: tuple[Literal["placebo", "random-cause", "subset"], ...] = ()
    """Each a fit of its own, of rows that the sites change; true: all of them."""
    negative_control: Name | None = None
    """A column of an outcome that treatment cannot change; the study is fitted to it as well."""
    negative_controls: Annotated[tuple[Name, ...], Field(max_length=200)] = ()
    """Many such columns: what their effects come to tells how wrong such studies are, and intervals are widened by it.
    """

    @staticmethod
    def _place(data: Any) -> str:
        return "diagnostics"

    @field_validator("refute", mode="before")
    @classmethod
    def _all_or_some(cls, value: Any) -> Any:
        return {True: REFUTERS, False: ()}[value] if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _nothing_without_diagnostics(self) -> Self:
        for key in ("blinded", "refute", "negative_control", "negative_controls"):
            if not self.enabled and getattr(self, key):
                raise StudyError(f"diagnostics.{key} needs the diagnostics. Set enabled = true, or remove {key}")
        if len(set(self.refute)) < len(self.refute):
            raise StudyError("diagnostics.refute holds the same refuter twice; each stands once")
        if 0 < len(self.negative_controls) < FEWEST_CONTROLS:
            raise StudyError(f"diagnostics.negative_controls: {len(self.negative_controls)} are too few to tell how "
                             "wrong "
                             f"studies are: name {FEWEST_CONTROLS} or more, better 30; of one, write negative_control")
        return self

    @property
    def controls(self) -> tuple[str, ...]:
        """All columns of negative controls."""
        return (*((self.negative_control,) if self.negative_control else ()), *self.negative_controls)


class SharedQuery(_Stated):
    """`[source]`: the query that gives a site's table where all sites keep their data alike. Each site chooses whether
    it uses it (`--data sql:`), and says itself where its database is (docs/study.md)."""

    query: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    omop: Omop | None = None
    """In place of a query: cohorts, windows and concepts of an OMOP common data model."""

    @staticmethod
    def _place(data: Any) -> str:
        return "source"

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.query is None) == (self.omop is None):
            raise StudyError("source: give a query, or [source.omop], one of the two")
        return self

    @model_validator(mode="before")
    @classmethod
    def _no_address(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and (others := sorted(set(data) - {"query", "omop"})):
            raise StudyError(f"source: the study goes to every party, so it holds a query (or omop) and nothing else; "
                             f"got {', '.join(map(str, others))}. A site names its database in FEDCI_DATABASE_URL")
        return data


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
        return _covariates(value)

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
        return _plain(value)

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
        if not self.covariates:
            raise StudyError("covariates: the list is empty; name at least one column")
        if self.quorum is not None and self.sites and self.quorum > len(self.sites):
            raise StudyError(f"quorum = {self.quorum} is more than the {len(self.sites)} sites of the study")
        outcomes.check(self.outcome_type, self.time, self.horizons, self.cuts, self.exposure,
                       next(iter(self.diagnostics.controls), None))
        self._check_roles()
        self._check_coding()
        self._check_arms()
        self._check_cluster()
        self._check_omop()
        self._check_level_counts()
        self._check_linkage()
        self._check_completed()
        self._check_noise(self.fit_options())
        self._check_subgroups()
        return self

    def _check_roles(self) -> None:
        """One role for each column, and no indicator with the name of another column."""
        role_of: dict[str, str] = {}
        for role, column in self._roles():
            if column in role_of:
                raise StudyError(f"{role}: column {column!r} is already in {role_of[column]}; "
                                 "a column has one role and stands once. Remove it from one of them")
            role_of[column] = role

    def _roles(self) -> Iterator[tuple[str, str]]:
        yield "treatment", self.treatment
        yield from (("outcome", column) for column in self.outcome_columns)
        yield from (("ids", column) for column in self.ids)
        if self.cluster is not None:
            yield "cluster", self.cluster
        for column in self.diagnostics.controls:
            yield f"diagnostics.negative_control{'s' * (column in self.diagnostics.negative_controls)}", column
        for covariate in self.covariates:
            yield from (("covariates", column) for column in {covariate.name, *covariate.design_columns()})

    def _check_arms(self) -> None:
        """Of more than two: what is made of two alone is told in words."""
        if not self.arms:
            return
        place, count = f"treatment.{self.treatment}.arms", len(self.arms)
        if len(set(self.arms)) < count:
            raise StudyError(f"{place} holds the same arm twice; each stands once")
        if count < 3:
            raise StudyError(f"{place}: got {count}, needs three or more, the reference first. Two are written "
                             f"treated = …, untreated = …")
        if count > self.policy.max_levels:
            raise StudyError(f"{place}: got {count} arms, policy.max_levels is {self.policy.max_levels}. Merge arms")
        if any(getattr(self.coding.get(self.treatment), key, ()) for key in TREATMENT_KEYS):
            raise StudyError(f"{place}: treated and untreated are of two arms. Keep arms, or these")
        if self.source is not None and self.source.omop is not None:
            raise StudyError(f"{place}: a study from an OMOP common data model has the arms of its two cohorts. Leave "
                             f"arms out, or make the table by a query of your own")
        if self.policy.epsilon is not None:
            raise StudyError(f"{place}: there is no differential privacy of more than two arms yet. Leave epsilon out")
        if self.completes:
            raise StudyError(f"{place}: missing = \"model\" is of two arms yet. Write missing = \"impute\"")
        if self.subgroups or self.design.randomised or self.decisions:
            key = "subgroups" if self.subgroups else "decisions" if self.decisions else "design"
            raise StudyError(f"{place}: {key} is of two arms yet. Leave it out, or run a study of two of the arms")
        if self.diagnostics.refute or self.diagnostics.controls:
            raise StudyError(f"{place}: refuters and negative controls are of two arms yet. Leave them out, or run a "
                             f"study of two of the arms")

    @property
    def arm_count(self) -> int:
        return len(self.arms) or 2

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Those of the study, the reference first."""
        return self.arms or ("untreated", "treated")

    def _check_cluster(self) -> None:
        if self.cluster is not None and self.outcome_type == "survival":
            raise StudyError(f"cluster = {self.cluster!r}: clusters are not known yet of a time to an event. Leave "
                             f"cluster out, or take another outcome, such as 0 and 1 at a horizon")

    def _check_coding(self) -> None:
        """Of columns that the study has; and what makes 0 and 1 of words, of the treatment alone."""
        columns = self.columns
        for name, coding in self.coding.items():
            if name not in columns:
                raise StudyError(f"coding.{name}: the study has no such column{nearest(name, columns)}; it has "
                                 f"{', '.join(columns)}")
            if name != self.treatment and any(getattr(coding, key) for key in TREATMENT_KEYS):
                raise StudyError(f"coding of {name!r}: treated is a key of the treatment. Write values = "
                                 f"{{ Y = 1, N = 0 }}")
            if name in self.ids and coding.model_dump(exclude={"column", "label"}, exclude_defaults=True):
                raise StudyError(f"coding of {name!r}: an id is read as it stands; only column and label may be said")

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

    def _check_omop(self) -> None:
        """What the study reads comes from the common data model, each column from its feature."""
        if self.source is None or self.source.omop is None:
            return
        made = {self.treatment, self.outcome, "person_id", *self.source.omop.features}
        for name in self.reads():
            if name not in made:
                raise StudyError(f"source.omop: the study reads {name!r}, and no feature says where it comes from"
                                 f"{nearest(name, self.source.omop.features)}. Write [source.omop.features.{name}]")

    def _check_subgroups(self) -> None:
        """Subgroups and decisions are of covariates, and told with the diagnostics: sums without noise."""
        if self.decisions is not None:
            self.decisions.columns(self.covariates)
        named = [key for key, asks in (("subgroups", self.groups), ("decisions", self.decisions)) if asks]
        if named and not self.diagnostics.enabled:
            raise StudyError(f"{named[0]}: they are told with the diagnostics. Set enabled = true under [diagnostics]")
        if named and (self.policy.epsilon is not None or self.noises_sums):
            raise StudyError(f"{named[0]}: they are told without noise, and this study's sums have noise "
                             f"(policy.{'epsilon' if self.policy.epsilon is not None else 'sum_noise'}). Leave them "
                             f"out; or, where every site allows exact sums, take preset = \"default\" and a policy of "
                             f"name = \"custom\" (docs/decisions.md)")

    @property
    def groups(self) -> tuple[Group, ...]:
        """All subgroups, in the order of their definitions."""
        return groups_of(self.subgroups, self.covariates)

    @property
    def levels(self) -> int:
        """Of the sums of effects in subgroups: of numbers one, of all else risks (or rates) without and with
        treatment."""
        return 1 if self.outcome_type == "numeric" else 2

    def _check_level_counts(self) -> None:
        for covariate in self.covariates:
            count, most = len(covariate.levels or ()), self.policy.max_levels
            if count > most:
                raise StudyError(f"covariates.{covariate.name}.levels: got {count} levels, "
                                 f"policy.max_levels is {most}. Merge levels")

    def _check_linkage(self) -> None:
        if self.links and not self.policy.allow_linkage:
            raise StudyError("policy.allow_linkage = false, and the study names ids for linkage. Set enabled = false "
                             "under [linkage], or leave allow_linkage out")
        if self.linkage != Linkage() and not self.ids:
            raise StudyError("linkage: the study names no ids. Name the columns that identify a person in ids")
        for column in self.linkage.dates:
            if column not in self.ids:
                raise StudyError(f"linkage.dates: column {column!r} is not among the ids{nearest(column, self.ids)}; "
                                 f"ids = {', '.join(self.ids)}")

    def _check_completed(self) -> None:
        """What is drawn is drawn from one law of all covariates and of a numeric outcome, without noise in its sums."""
        if not self.completes:
            return
        for covariate in self.covariates:
            if (covariate.missing or self.missing) == "impute":
                raise StudyError(f'covariates.{covariate.name}: missing = "impute" and missing = "model" in one study: '
                                 f'what is missing is drawn given all other covariates. Choose one of them for all; '
                                 f'"refuse" may stand beside it')
        if self.outcome_type != "numeric":
            raise StudyError(f'missing = "model": what is missing is drawn given the outcome, and of a '
                             f'{self.outcome_type} outcome no law is known yet. Write missing = "impute"')
        if self.policy.epsilon is not None:
            raise StudyError('missing = "model": the sums that what is missing is learnt from would have to have '
                             'noise, and none is known. Write missing = "refuse", or leave policy.epsilon out')

    def _check_noise(self, options: FitOptions) -> None:
        """Differential privacy needs bounds that are declared, and no answer that the noise does not cover."""
        if self.policy.epsilon is not None and self.outcome_type != "numeric":
            raise StudyError(f"policy.epsilon: there is no differential privacy of a {self.outcome_type} outcome yet. "
                             f"Leave epsilon out; outcome_noise flips outcomes at the sites")
        if self.policy.noises("moments"):
            for covariate in self.covariates:
                if covariate.type == "numeric" and not (covariate.range and all(map(math.isfinite, covariate.range))):
                    raise StudyError(f"covariates.{covariate.name}.range is missing: the noise of the moments is "
                                     f"measured by it. Give [smallest, largest]")
                if self.fills(covariate):
                    raise StudyError(f"covariates.{covariate.name}: where values are missing is told without noise. "
                                     f'Set missing = "refuse" under differential privacy of the moments')
        optimiser = options.optimiser
        blind = options.model.noises_gradients and optimiser.name != "lbfgs" and optimiser.tolerance == 0
        if self.policy.noises("gradients") and not blind:
            raise StudyError("policy.noised has 'gradients': they need the model of the presets 'classic' or 'paper', "
                             "an optimiser other than lbfgs, and optimiser.tolerance = 0 (the objective is not told)")

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
        if self.outcome_type != "numeric" and not known:
            raise StudyError(f"the outcome '{self.outcome}' is {self.outcome_type}, and the preset "
                             f"'{preset or self.preset}' knows numeric outcomes only. Choose the preset 'default'")
        tells = getattr(options.model, "rounds_tell", "gradients")
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
        agreed = self.model_dump(exclude={"preset", "options"})
        agreed["policy"] = self.agreed_policy.model_dump()
        agreed["sites"] = sorted(self.sites)
        if self.source is None:
            del agreed["source"]
        else:
            agreed["source"] = self.source.model_dump(exclude_none=True)
        agreed["coding"] = {name: coding.plain() for name, coding in self.coding.items()}
        for key in ("coding", "rows_without", "cluster", "arms", "subgroups", "design", "estimand", "decisions"):
            if getattr(self, key) == type(self).model_fields[key].default:  # what a study does not say is no part of it
                del agreed[key]
        # a study has the hash that it had before there were other types
        agreed = {key: value for key, value in agreed.items() if key not in OF_TYPES
                  or value != Study.model_fields[key].default}
        agreed["fit"] = self.fit_options().model_dump()
        if not agreed["fit"]["model"].get("sum_noise"):  # nor before sums could have noise
            del agreed["policy"]["sum_noise"]
            for key in ("sum_noise", "noise_masked"):
                agreed["fit"]["model"].pop(key, None)
        if not self.diagnostics.negative_controls:  # nor before there were many of them
            del agreed["diagnostics"]["negative_controls"]
        agreed["format"] = HASH_FORMAT
        agreed["ids_rule"] = RULE
        return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """The study that a TOML file describes; any problem with the file is one StudyError."""
        return cls.from_toml(text_of(Path(path)), f"study file {path}")

    @classmethod
    def from_toml(cls, text: str, place: str = "study") -> Study:
        """The study that TOML text describes; `place` is where a message says the text came from."""
        return cls.model_validate(_fields(parsed(text, place)))

    def to_toml(self) -> str:
        """The study as a file: `Study.read` of it is equal to this study."""
        changes = self.policy.changes()
        top = self.model_dump(exclude={"covariates", "linkage", "diagnostics", "policy", "options", "source",
                                       "estimand", *OF_TYPES, "coding", "subgroups", "design", "decisions"})
        top = {key: value for key, value in top.items() if value is not None}
        if self.rows_without == "refuse":
            del top["rows_without"]
        if arms := top.pop("arms"):
            top["treatment"] = {"name": self.treatment, "arms": list(arms)}
        if self.design.randomised:
            top["design"] = self.design.plain()
        coded = {name: coding.plain() for name, coding in self.coding.items()}
        if self.outcome_type != "numeric":
            top["outcome"] = outcomes.written(self.outcome, self.outcome_type, self.time, self.horizons, self.cuts,
                                              self.exposure)
        for role, name in (("treatment", self.treatment), ("outcome", self.outcome)):
            if name in coded:
                top[role] = (top[role] if isinstance(top[role], dict) else {"name": name}) | coded.pop(name)
        tables = {f"covariates.{toml_key(covariate.name)}": covariate.model_dump(exclude={"name"}, exclude_none=True)
                  | coded.pop(covariate.name, {}) for covariate in self.covariates}
        tables |= {f"coding.{toml_key(name)}": coding for name, coding in coded.items()}
        if linkage := self.linkage.model_dump(exclude_defaults=True):
            tables["linkage"] = linkage
        if diagnostics := self.diagnostics.model_dump(exclude_defaults=True):
            tables["diagnostics"] = diagnostics
        if self.decisions is not None:
            tables["decisions"] = self.decisions.model_dump(exclude_defaults=True)
        tables |= {f"subgroups.{toml_key(name)}": one.plain() for name, one in self.subgroups.items()}
        if self.source:
            tables["source"] = self.source.model_dump(exclude_none=True)
        if self.estimand:
            tables |= self.estimand.tables()
        if changes:
            tables["policy"] = {"name": self.policy.name, **changes}
        else:
            top["policy"] = self.policy.name
        sections = [f"[{head}]\n{lines(rows)}" for head, rows in (tables | self.options).items()]
        return "\n".join([lines(top), *sections])

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


def check_site_id(site: Any) -> None:
    """The form of a site's name, `[a-z0-9-]{1,40}`."""
    if not isinstance(site, str) or not SITE_ID.fullmatch(site):
        raise StudyError(f"site {site!r}: a site's name is 1 to 40 of the characters a-z, 0-9 and '-'")
    if site == "all":
        raise StudyError("site 'all': the tables call all sites together so. Give the site another name")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# ── the forms that covariates and options may take ──────────────────────────────────────────────────────


def _covariates(value: Any) -> tuple[Covariate, ...]:
    if isinstance(value, Mapping):
        return tuple(_described(name, options) for name, options in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(_covariate(item) for item in value)
    raise StudyError(f"covariates: got {type(value).__name__}, needs a list of columns or a table of them")


def _covariate(item: Any) -> Covariate:
    if isinstance(item, str):
        return Covariate(name=item)
    if isinstance(item, Covariate | Mapping):
        return Covariate.model_validate(item)
    raise StudyError(f"covariates: got {type(item).__name__} in the list, needs column names or tables")


def _described(name: Any, options: Any) -> Covariate:
    """From one entry of a table: name = "type", or name = {type = …, …}."""
    if isinstance(options, str):
        return Covariate.model_validate({"name": name, "type": options})
    if not isinstance(options, Mapping):
        raise StudyError(f"covariates.{name}: got {type(options).__name__}, needs a type or a table")
    if "name" in options:
        raise StudyError(f"covariates.{name}: unknown key 'name'; the table's own name is the column's")
    return Covariate.model_validate({**options, "name": name})


def _with_outcome(data: Mapping[str, Any]) -> dict[str, Any]:
    """With `outcome = {name = …, type = …}` as its fields."""
    return {**data, **outcomes.fields_of(data["outcome"])}


def _plain(value: Any) -> Any:
    """Dicts, lists and numbers as TOML holds them; the word "none" is Python's None, which TOML lacks."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, str) and value == "none" else value


def _fields(file: dict[str, Any]) -> dict[str, Any]:
    """The fields of Study from the tables of a file; [model], [optimiser], [prediction] are its options."""
    known = [key for key in Study.model_fields if key not in ("options", "arms", *OF_TYPES)] + list(OPTION_TABLES)
    for key in file:
        if key not in known:
            raise StudyError(f"study: unknown key {key!r}{nearest(key, known)}")
    fields = {key: value for key, value in file.items() if key not in OPTION_TABLES}
    return {**fields, "options": {key: file[key] for key in OPTION_TABLES if key in file}}
