"""Whether a study may run at a site: one pure function of sizes, columns, sites, policy and floors, with every reason
against it and every remedy that it would itself accept.

    reasons(situation) → (error, …)        none: the site takes part
    advice(situation)  → (words, the situation after it), only where reasons(after) is empty

`fedci check`, `fedci site check`, `fedci run` and a site that is told the common units all ask it, so that none of them
refuses what another accepts. What they know differs: before a run nobody knows which columns lack values elsewhere,
and a first stage is taken to be that of sites like this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fedci.errors import DisclosureError, FedciError, StudyError
from fedci.model.families import model_of
from fedci.model.family import Family
from fedci.protocol import stages
from fedci.site.limits import check_floors, check_memory, check_noise, check_rounds
from fedci.site.release import numbers_told
from fedci.study.options import FitOptions, preset_names
from fedci.study.policy import POLICIES, SECURE_SUM_SITES, Policy, check_masks
from fedci.study.strictness import shown
from fedci.study.study import Study
from fedci.table.table import Table, size_problems

MOST_PEOPLE, MOST_SITES = 2**20, 64
"""Beyond so many an advice is none."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that the decision depends on."""

    site: str
    study: Study
    """Under the site's floors, if it has any (`Study.under`)."""
    options: FitOptions
    rows: int
    treated: int
    """Of more than two arms, who did not get the reference."""
    columns: int
    """d, without the indicators of missing values."""
    sites: int
    """m, that take part."""
    indicators: int = 0
    """Columns that mark missing values, at any site, as far as is known."""
    others: tuple[int, ...] = ()
    """Of more than two arms: people in each but the reference."""
    stage: int | None = None
    """R of the first stage (0: there is none), as all sites together have it; none: as if all were like this one."""

    @property
    def model(self) -> Family:
        marked = 0 if self.study.completes else self.indicators
        return model_of(self.options.model, self.columns + marked, self.columns, self.sites,
                        self.study.outcome_type, self.study.most_intervals, self.study.arm_count)

    @property
    def by_arm(self) -> tuple[int, ...]:
        return self.rows - self.treated, *(self.others or (self.treated,))

    @property
    def cohort(self) -> int:
        """Over how many sites the sums are that the coordinator sees."""
        return self.sites if self.study.policy.secures(self.sites) else 1

    @property
    def people(self) -> int:
        """Who carries a sum, at the least: this site's, in a first stage if there is one, and of every other site in
        the sum as many as the policy that all agreed on asks for."""
        stage, arms = self._stage, self.by_arm
        own = sum(stages.some_of(n, stage, len(arms)) for n in arms) if stage else self.rows
        return own + (self.cohort - 1) * self.study.agreed_policy.min_rows

    @property
    def _stage(self) -> int:
        if self.stage is not None:
            return self.stage
        looked_at = stages.people_of(self.by_arm, self.options.optimiser.first_rows)
        return stages.first(self.model, self.options, self.rows, looked_at).rows


class Advice(NamedTuple):
    """A change in words, and the situation after it, which is accepted."""

    words: str
    then: Situation


def situation(study: Study, table: Table, sites: int, options: FitOptions | None = None,
              indicators: int | None = None, stage: int | None = None) -> Situation:
    """Of a site's table; `indicators`: of all sites, where they are known."""
    own = int(np.isnan(table.x).any(0).sum())
    return Situation(site=table.site, study=study, options=options or study.fit_options(), rows=table.rows,
                     treated=table.treated, columns=table.x.shape[1], sites=sites, stage=stage,
                     others=table.by_arm[1:] if table.arms > 2 else (),
                     indicators=own if indicators is None else indicators)


def together(study: Study, tables: list[Table], options: FitOptions) -> list[Situation]:
    """Of sites that are all here: what each knows of the others is known."""
    gaps = int(np.any([np.isnan(table.x).any(0) for table in tables], axis=0).sum())
    sized = [situation(study, table, len(tables), options, gaps) for table in tables]
    looked_at = sum((stages.people_of(table.by_arm, options.optimiser.first_rows) for table in tables),
                    np.zeros(stages.MOST))
    stage = stages.first(sized[0].model, options, sum(table.rows for table in tables), looked_at).rows
    return [replace(one, stage=stage) for one in sized]


# --- the decision


def reasons(asked: Situation) -> tuple[FedciError, ...]:
    """All that stands against it; empty: the study may run at the site."""
    return tuple(error for check in CHECKS for error in check(asked))


def admit(asked: Situation) -> None:
    """One error with every reason and every remedy, or nothing. A remedy may hold the site's counts: no FloorError,
    which leaves in full."""
    if found := reasons(asked):
        kind = DisclosureError if any(isinstance(one, DisclosureError) for one in found) else type(found[0])
        raise kind(f"site '{asked.site}': {'; '.join(map(str, found))}. {in_words(advice(asked))}{of_nobody(asked)}")


def in_words(found: tuple[Advice, ...]) -> str:
    if not found:
        return "No change that fedci knows of would be accepted: leave the site out"
    return f"Would be accepted: {'; or '.join(one.words for one in found)}"


def of_nobody(asked: Situation) -> str:
    """What only a person can decide: whose data these are. '' where the study does not call them simulated."""
    floors = asked.study.floors
    if asked.study.agreed_policy.name != "simulation" or floors is None or floors.name == "simulation":
        return ""
    return ('. If these are people of nobody, as the study\'s policy says, allow it at each site: `fedci site policy '
            '--base simulation --reason "simulated people"`')


def _floors(asked: Situation) -> Iterator[FedciError]:
    yield from _tried(check_floors, asked.study)


def _sizes(asked: Situation) -> Iterator[FedciError]:
    yield from size_problems(asked.study, asked.by_arm)


def _masks(asked: Situation) -> Iterator[FedciError]:
    yield from _tried(check_masks, asked.study.policy, asked.sites)


def _rounds(asked: Situation) -> Iterator[FedciError]:
    yield from _tried(check_rounds, asked.study, asked.options)


def _noise(asked: Situation) -> Iterator[FedciError]:
    yield from _tried(check_noise, asked.study)


def _linkage(asked: Situation) -> Iterator[FedciError]:
    if asked.study.links and not asked.study.policy.allow_linkage:
        yield DisclosureError("the study links people, and the policy has allow_linkage = false")


def _memory(asked: Situation) -> Iterator[FedciError]:
    for problem in _tried(check_memory, asked.site, asked.rows, asked.columns, asked.options,
                          asked.study.outcome_type, asked.study.most_intervals, asked.study.arm_count):
        yield type(problem)(str(problem).removeprefix(f"site '{asked.site}': "))


def _width(asked: Situation) -> Iterator[FedciError]:
    """Nearly as many columns of T (model `shared`), or parameters, as people: sums may tell rows apart."""
    policy, model, people = asked.study.policy, asked.model, asked.people
    where = "in the clear" if asked.cohort == 1 else f"in a sum of {asked.cohort} sites"
    if model.size > policy.max_parameters_per_row * people:
        yield DisclosureError(f"the model has {model.size} parameters for {people} people; the policy allows "
                              f"{policy.max_parameters_per_row:g} for each {where}")
    if model.columns > policy.statistics_per_row * people:
        yield DisclosureError(f"the model '{asked.options.model.family}' would send sums over {model.columns} columns "
                              f"of {people} people; the policy allows {policy.statistics_per_row:g} columns per person "
                              f"{where}")


def _numbers(asked: Situation) -> int:
    return numbers_told(asked.study, asked.options, asked.model, asked.rows, asked.columns, asked.indicators)


def told_per_person(asked: Situation) -> float:
    """Numbers told in all sums of the study, over the people in them."""
    return _numbers(asked) / max(asked.people, 1)


def _told(asked: Situation) -> Iterator[FedciError]:
    """Exact sums in such number can be solved for the people in them: masks only hide whose site they are of. Sums with
    noise cannot; but the noise must leave something of them."""
    if asked.model.noises_sums:
        yield from _drowned(asked)
        return
    told, people, most = _numbers(asked), asked.people, asked.study.policy.numbers_per_person
    if told > most * people:
        why = ("From so many exact sums rows can be solved for, whoever adds them up" if most else
               "However many people there are, those who stand alone in a column can be solved for from exact sums")
        yield DisclosureError(f"the study would tell up to {told:,} numbers in sums over {people:,} people, "
                              f"{told / people:,.3g} for each; the policy allows {f'{most:g}' if most else 'none'} "
                              f"(policy.numbers_per_person). {why} (docs/security.md)")


def _drowned(asked: Situation) -> Iterator[FedciError]:
    """As if all sites were like this one."""
    people, needed = asked.rows * asked.sites, asked.model.people_needed
    if people < needed:
        yield DisclosureError(f"with the noise that policy.sum_noise = {asked.study.policy.sum_noise:g} asks for, sums "
                              f"of {asked.columns + asked.indicators} columns are of use from {needed:,} people on; "
                              f"{asked.sites} sites like this one have {people:,} (docs/security.md)")
    if min(asked.treated, asked.rows - asked.treated) < (least := asked.model.arm_needed):
        yield DisclosureError(f"the noise that policy.sum_noise asks for is measured for sites with {least:,} people "
                              f"in each arm; here are {asked.treated:,} and {asked.rows - asked.treated:,}")


CHECKS: tuple[Callable[[Situation], Iterator[FedciError]], ...] = (
    _floors, _sizes, _masks, _rounds, _noise, _linkage, _memory, _width, _told)


def _tried(check: Callable[..., None], *given: Any) -> Iterator[FedciError]:
    try:
        check(*given)
    except FedciError as problem:
        yield problem


# --- what would be accepted

Accepts = Callable[[Situation], bool]
Remedy = Callable[[Situation, Accepts], Advice | None]


def advice(asked: Situation) -> tuple[Advice, ...]:
    """Each change that by itself makes the site accept, or several together; after them what loosens the policy."""
    if not reasons(asked):
        return ()
    keeping = _each(asked, KEEPING) or _several(asked, KEEPING)
    return keeping + _each(asked, LOOSENING) or _several(asked, KEEPING + LOOSENING)


def _each(asked: Situation, remedies: tuple[Remedy, ...]) -> tuple[Advice, ...]:
    return tuple(one for remedy in remedies if (one := remedy(asked, lambda then: not reasons(then))))


def _several(asked: Situation, remedies: tuple[Remedy, ...]) -> tuple[Advice, ...]:
    """One change after the other, each of which leaves fewer reasons; nothing where some stay."""
    now, words = asked, ""
    while against := len(reasons(now)):
        step = next((one for remedy in remedies if (one := remedy(now, _leaves_fewer(against)))), None)
        if step is None:
            return ()
        now, words = step.then, f"{words} and {step.words}" if words else step.words
    return (Advice(words, now),)


def _leaves_fewer(against: int) -> Accepts:
    return lambda then: len(reasons(then)) < against


def _more_people(asked: Situation, accepts: Accepts) -> Advice | None:
    least = asked.study.policy.min_arm_rows
    if asked.others:
        return _more_in_each(asked, accepts, least)
    treated, untreated = (max(n, least) for n in (asked.treated, asked.rows - asked.treated))

    def of(more: int) -> Situation:
        return replace(asked, rows=treated + untreated + more, treated=treated + more // 2, stage=None)

    then = _smallest(of, accepts, 0, MOST_PEOPLE)
    words = "{0.rows:,} people here, {0.treated:,} of them treated (now {1.rows:,} and {1.treated:,})"
    return None if then is None else Advice(words.format(then, asked), then)


def _more_in_each(asked: Situation, accepts: Accepts, least: int) -> Advice | None:
    """Of more than two arms."""
    def of(more: int) -> Situation:
        first, *others = (max(n, least) + more // len(asked.by_arm) for n in asked.by_arm)
        return replace(asked, rows=first + sum(others), treated=sum(others), others=tuple(others), stage=None)

    then = _smallest(of, accepts, 0, MOST_PEOPLE)
    words = "{0.rows:,} people here, {0.by_arm} in the arms (now {1.rows:,}, and {1.by_arm})"
    return None if then is None else Advice(words.format(then, asked), then)


def _more_sites(asked: Situation, accepts: Accepts) -> Advice | None:
    then = _smallest(lambda sites: replace(asked, sites=sites), accepts, asked.sites + 1, MOST_SITES)
    return None if then is None else Advice(f"{then.sites} sites (now {asked.sites})", then)


def _fewer_columns(asked: Situation, accepts: Accepts) -> Advice | None:
    def of(columns: int) -> Situation:
        return replace(asked, columns=columns, indicators=min(columns, asked.indicators), stage=None)

    then = _largest(of, accepts, 1, asked.columns - 1)
    words = "at most {0.columns} columns of covariates, a level being one (now {1.columns})"
    return None if then is None else Advice(words.format(then, asked), then)


def _fewer_landmarks(asked: Situation, accepts: Accepts) -> Advice | None:
    return _less_of(asked, accepts, "landmarks", 0)


def _fewer_knots(asked: Situation, accepts: Accepts) -> Advice | None:
    return _less_of(asked, accepts, "knots", 1)


def _fewer_directions(asked: Situation, accepts: Accepts) -> Advice | None:
    return _less_of(asked, accepts, "directions", 0)


def _less_of(asked: Situation, accepts: Accepts, key: str, least: int) -> Advice | None:
    """Of a model that has such an option."""
    if not hasattr(asked.options.model, key):
        return None
    then = _largest(lambda value: _with_options(asked, "model", key, value), accepts, least,
                    getattr(asked.options.model, key) - 1)
    return None if then is None else Advice(f"model.{key} = {getattr(then.options.model, key)} in the study", then)


def _fewer_rounds(asked: Situation, accepts: Accepts) -> Advice | None:
    most = asked.study.policy.max_rounds
    if asked.options.optimiser.rounds <= most:
        return None
    then = _with_options(asked, "optimiser", "rounds", most)
    return Advice(f"optimiser.rounds = {most} in the study", then) if then and accepts(then) else None


def _other_preset(asked: Situation, accepts: Accepts) -> Advice | None:
    for name in preset_names():
        with suppress(StudyError):
            study = _study(asked.study, asked.study.floors, preset=name)
            then = replace(asked, study=study, options=study.fit_options(), stage=None)
            if then.options != asked.options and accepts(then):
                return Advice(f"the preset '{name}'", then)
    return None


def _stricter_study(asked: Situation, accepts: Accepts) -> Advice | None:
    """The study meets the site's floors."""
    agreed, floors = asked.study.agreed_policy, asked.study.floors
    missing = agreed.disagreements(floors) if floors else ()
    if floors is None or not missing:
        return None
    return _policy_changed(asked, accepts, {key: getattr(floors, key) for key in missing}, floors,
                           "in the study's [policy] {values}")


def _consent(asked: Situation, accepts: Accepts) -> Advice | None:
    """What would be let through if the study said so, and each site's operator: an act of theirs, never a default."""
    agreed, floors, policy = asked.study.agreed_policy, asked.study.floors, asked.study.policy
    changes = {key: getattr(agreed, key) for key in agreed.disagreements(floors)} if floors else {}
    if asked.sites < SECURE_SUM_SITES and policy.secure_sum is True:
        changes["secure_sum"] = "auto"
    if asked.model.size > policy.max_parameters_per_row * (people := max(asked.people, 1)):
        changes["max_parameters_per_row"] = float(np.ceil(10 * asked.model.size / people) / 10)
    if policy.outcome_noise and asked.study.outcome_type in ("survival", "count"):
        changes["outcome_noise"] = 0.0
    told = _numbers(asked)
    if not asked.model.noises_sums and told > policy.numbers_per_person * people:
        changes["numbers_per_person"] = float(np.ceil(told / people))
    if not changes:
        return None
    acts = " ".join(f"--allow {key}={shown(value)}" for key, value in changes.items())
    allowed = None if floors is None else floors.model_copy(update={"name": "custom", **changes})
    return _policy_changed(asked, accepts, changes, allowed,
                           "if every site consents, [policy] name = \"custom\" with {values}"
                           + ("" if allowed is None else f" and at each site `fedci site policy {acts} --reason …`"))


def _simulation(asked: Situation, accepts: Accepts) -> Advice | None:
    """Offered where too few sites take part: often one person holds all tables."""
    if asked.sites >= SECURE_SUM_SITES or asked.study.policy.secure_sum is not True:
        return None
    floors = POLICIES["simulation"] if asked.study.floors else None
    with suppress(StudyError):
        study = _study(asked.study, floors, policy="simulation")
        then = replace(asked, study=study, stage=None)
        words = "" if floors is None else " (and at each site `fedci site policy --base simulation --reason …`)"
        if accepts(then):
            return Advice(f'policy = "simulation", where one person may see all rows{words}', then)
    return None


KEEPING: tuple[Remedy, ...] = (_more_people, _more_sites, _fewer_columns, _fewer_landmarks, _fewer_knots,
                               _fewer_directions, _fewer_rounds, _other_preset, _stricter_study)
"""Under which the policy stays as strict as it is."""
LOOSENING: tuple[Remedy, ...] = (_simulation, _consent)


def _policy_changed(asked: Situation, accepts: Accepts, changes: Mapping[str, Any], floors: Policy | None,
                    words: str) -> Advice | None:
    agreed = asked.study.agreed_policy
    with suppress(StudyError):
        values = agreed.model_dump() | dict(changes)
        try:
            study = _study(asked.study, floors, policy=values)
        except StudyError:
            study = _study(asked.study, floors, policy=values | {"name": "custom"})
        then = replace(asked, study=study, stage=None)
        if accepts(then):
            return Advice(words.format(values=", ".join(f"{k} = {shown(v)}" for k, v in changes.items())), then)
    return None


def _with_options(asked: Situation, table: str, key: str, value: Any) -> Situation | None:
    """With one option changed in the study file."""
    changed = dict(asked.study.options.get(table) or {}) | {key: value}
    with suppress(StudyError):
        study = _study(asked.study, asked.study.floors, options=asked.study.options | {table: changed})
        part = getattr(asked.options, table).model_copy(update={key: value})
        return replace(asked, study=study, options=asked.options.model_copy(update={table: part}), stage=None)
    return None


def _study(study: Study, floors: Policy | None, **changes: Any) -> Study:
    """Another study, checked as one that was read; StudyError where there can be none."""
    return Study.model_validate(study.under(None).model_dump() | changes).under(floors)


def _smallest(of: Callable[[int], Situation], accepts: Accepts, low: int, high: int) -> Situation | None:
    """The first that is accepted, from `low` on: by ever longer steps, then between the last two."""
    step, before = 1, low - 1
    at = low
    while not accepts(of(at)):
        if at >= high:
            return None
        before, at, step = at, min(at + step, high), 2 * step
    while at - before > 1:
        middle = (at + before) // 2
        before, at = (before, middle) if accepts(of(middle)) else (middle, at)
    return of(at)


def _largest(of: Callable[[int], Situation | None], accepts: Accepts, low: int, high: int) -> Situation | None:
    """The last that is accepted, between the two; if the least is not, there is none."""
    def fits(value: int) -> bool:
        then = of(value)
        return then is not None and accepts(then)

    if high < low or not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return of(low)
