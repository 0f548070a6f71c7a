"""The release accountant of a site: of whom it has told, in which columns, and whether of these it may tell as well.

    cohort   whose sums leave: c, its treated c¹ and its untreated c⁰ (the outcome's moments leave for each arm; of more
             arms all of them)
    refused  where a combination of these and of all told before tells more of a person than a mean over
             `min_difference` people does (c alone), or over `min_cell` (arms):  h > 1/n  (`privacy.leverage`)

One store for a site (`site.store`), whatever kit, study, job or run asks. A person is a keyed digest of the ids, where
the study has any, and one of the row: by the first, one patient more is seen in a study of other columns; by the
second, one patient's corrected value in a study of the same. Where two releases share a column and neither digest (no
ids, other columns), nobody can tell whether they are of the same people: the later is refused, unless the site's
operator says, with a reason that is kept, that they are others.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedci.errors import DisclosureError, OutputError
from fedci.privacy.secure_sum import derived, info
from fedci.site import store
from fedci.site.cohort import Cohort, check_span, fingerprints, per_person, read_cohort, written
from fedci.site.store import Line, Store
from fedci.study.identity import RULE
from fedci.study.origin import Origin
from fedci.study.policy import Policy
from fedci.study.study import Study
from fedci.table.table import Table, id_records

BEFORE = frozenset({"handshake", "linkage", "keys"})
"""Phases in which nothing of the rows' values leaves."""
MOST_GROWTH = 2.0
"""Of an outcome's sd since its noise was first measured: noise then hides half of what it should."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a run is about to tell of, as the site sees it."""

    site: str
    run: str
    study: str
    """Its hash."""
    columns: tuple[str, ...]
    """Names in the site's table: covariates, treatment, outcome, with its time or exposure."""
    outcome: str
    people: Mapping[str, Sequence[bytes]]
    """Way of knowing people → one record for each; the same order in each way."""
    w: np.ndarray
    """[n] the arm of each, as this run has it."""
    per_person: float = 0.0
    """Numbers told in all sums of the study, its refuters too, over the people in them: what the policy limits. 0 of a
    refuter's run, which the study's own has counted."""
    sites: tuple[str, ...] = ()
    """Whose people are summed with them."""
    hidden: tuple[str, ...] = ()
    """Columns of the table that are told as outcomes only; none: the outcome."""
    part: bool = False
    """Whether it is a subgroup of the people that the run was let tell of: one more cohort that combines with others,
    and none of those that `max_cohorts` counts."""


class Counts(NamedTuple):
    """What a store holds, without anybody in it."""

    cohorts: int
    people: int
    """Different ones, as far as the site can tell."""
    runs: int
    numbers: int
    """Told in all runs."""
    most: int
    """Numbers told in the runs that one person was in, of whom it is most."""


class Accountant:
    """`admit` before anything of a cohort is told; `add_numbers` for every answer.

    apart    why the people of this run are none of those told of before, where the site cannot see it; the operator's
    audits   it is looked at by an auditor, who adds nothing
    """

    def __init__(self, folder: Path | str, apart: str = "", audits: bool = False):
        self.store, self.apart, self.audits = Store(Path(folder)), apart.strip(), audits
        self._key = derived(self.store.secret, info("people"))
        self._cohorts: list[Cohort] = []
        self._releases: list[Line] = []
        self._numbers: Counter[str] = Counter()
        """Run → numbers told."""
        self._scales: dict[str, float] = {}
        """Outcome → the sd that its noise is measured by."""
        self._asked: dict[str, str] = {}
        """What is told in one way for ever → the question that was answered: sums with noise, counts of events by
        time."""
        self._read = 0
        self._look()

    @property
    def acts(self) -> list[Line]:
        """What the operator did to the store, with a reason: begun anew, restored from an older backup, and people said
        to be others."""
        return [line for line in self.store.lines if line.get("reason") or line.get("apart")]

    def secret(self, purpose: str) -> bytes:
        """What must be the same in every kit and study of this site follows from it."""
        return derived(self.store.secret, info(purpose))

    def scale(self, column: str, sd: float) -> float:
        """The sd that the noise of an outcome is measured by: as it was when it was first asked for. DisclosureError
        where that is so much less than the outcome's own that it would hide little: the first study chose people who
        are alike, and a second multiple of one noise would solve for the outcome."""
        with self._locked():
            if column not in self._scales and self.audits:
                return sd
            if column not in self._scales:
                self.store.add({"kind": "scale", "column": column, "sd": sd})
                self._look()
            if sd > MOST_GROWTH * self._scales[column]:
                raise DisclosureError(
                    f"the noise on the outcome '{column}' is measured by its spread when it was first told of, and now "
                    f"its spread is more than {MOST_GROWTH:g} times as large: the noise would hide little. Take the "
                    f"outcome in the unit and for the kind of people of that first study, or name it otherwise: then "
                    f"its noise is measured anew")
            return self._scales[column]

    def asked_once(self, about: str, question: str) -> None:
        """DisclosureError where noise was drawn for another question about the same sums: a new draw for each would let
        whoever changes the question a little (a site that tells other sums each time) average it out."""
        if not self._asked_alike(about, question):
            raise DisclosureError(
                "sums with noise were told of these people in this study, in other common units: another site's "
                "sums were others then. In these units the noise would be drawn anew, and what both tell adds up. "
                "Ask with the data of that run, at every site")

    def counted_once(self, outcome: str, times: str) -> None:
        """DisclosureError where events were counted by other parts of time: of two counts up to times that differ by
        little the difference is who had the event between."""
        if not self._asked_alike(f"times {outcome}", times):
            raise DisclosureError(
                f"events of '{outcome}' were counted in an earlier study by other parts of time, and the difference of "
                f"two counts could be one person. Take the horizons, and the cuts, of that study")

    def _asked_alike(self, about: str, question: str) -> bool:
        """Whether it is the question that was answered about this first; then, and from then on, the first."""
        with self._locked():
            if about not in self._asked:
                if self.audits:
                    return True
                self.store.add({"kind": "asked", "about": about, "question": question})
                self._look()
            return self._asked[about] == question

    # --- before anything leaves

    def admit(self, release: Release, policy: Policy) -> None:
        """The cohort is remembered, on disk; DisclosureError where sums over it would tell of few."""
        cohort = self._cohort(release)
        with self._locked():
            same = next((k for k, other in enumerate(self._cohorts) if cohort.equals(other)), None)
            self._check(release, cohort, same, policy)
            if same is None:
                self.store.add({"kind": "cohort", "count": len(release.w), "prints": {
                    way: base64.b64encode(prints.tobytes()).decode() for way, prints in cohort.prints.items()},
                    **written(cohort.arm)})
                same = len(self._cohorts)
            about = {"kind": "release", "cohort": same, "site": release.site, "run": release.run,
                     "study": release.study, "columns": sorted(release.columns), "outcome": release.outcome,
                     "per_person": release.per_person, "sites": sorted(release.sites), "apart": self.apart}
            about |= {"part": True} if release.part else {}
            if release.hidden:
                about["hidden"] = sorted(release.hidden)
            if not any({**line, **about} == line for line in self._releases):
                self.store.add({**about, "time": store.now()})
            self._look()

    def _check(self, release: Release, cohort: Cohort, same: int | None, policy: Policy) -> None:
        """Column by column: sums of different columns do not combine. Without `min_difference` all but that holds."""
        self._check_hidden(release, policy)
        if not release.part:
            self._check_count(release, cohort, policy.max_cohorts)
        self._check_numbers(release, cohort, same, policy.numbers_per_person)
        if not policy.min_difference:
            return
        cohorts_by_column = {frozenset(line["cohort"] for line in self._releases if column in line["columns"])
                             for column in release.columns}
        self._check_comparable(release.site, cohort, frozenset().union(*cohorts_by_column))
        for numbers in cohorts_by_column:
            if numbers and same not in numbers:
                check_span(release.site, cohort, [self._cohorts[number] for number in sorted(numbers)], policy)

    def _check_comparable(self, site: str, cohort: Cohort, numbers: Iterable[int]) -> None:
        if self.apart or all(cohort.prints.keys() & self._cohorts[number].prints.keys() for number in numbers):
            return
        raise DisclosureError(
            f"site '{site}': the study shares columns with an earlier one, and the site cannot tell whether they are "
            f"of the same people: the columns are others, and not both studies have ids. Name the same ids in the "
            f"study (linkage.enabled = false, if nobody is to be linked). If you know that these are other people, say "
            f"so: `fedci site run --apart \"REASON\"`; the store and the ledger keep the reason")

    def _check_hidden(self, release: Release, policy: Policy) -> None:
        """An outcome that noise hides is no covariate of another study, where it would be told without."""
        hidden = (set(release.columns) - _only_outcome(release.hidden, release.outcome)) & set().union(
            *(_only_outcome(line.get("hidden"), line["outcome"]) for line in self._releases))
        if hidden and policy.outcome_noise:
            raise DisclosureError(
                f"site '{release.site}': {', '.join(map(repr, sorted(hidden)))} was told of as an outcome, with noise "
                f"that hides each person's (policy.outcome_noise), and a covariate or a treatment is told of without. "
                f"Leave the column out of this study")

    def _check_count(self, release: Release, cohort: Cohort, most: int) -> None:
        different = {self._cohorts[line["cohort"]].whom for line in self._releases
                     if line["outcome"] == release.outcome and not line.get("part")}
        if len(different) >= most and cohort.whom not in different:
            raise DisclosureError(
                f"site '{release.site}': it has told of {len(different)} different cohorts with the outcome "
                f"'{release.outcome}', and exact sums of ever more of them close in on everybody; the policy allows "
                f"{most} (policy.max_cohorts). Ask about one of the cohorts that were told of: as often as needed")

    def _check_numbers(self, release: Release, cohort: Cohort, same: int | None, most: float) -> None:
        """Of studies about some of the same people, in some of the same columns, the numbers add up. A study that runs
        again with the same people at the same sites tells the same; with others it asks at other parameters."""
        again = release.study, same, sorted(release.sites)
        shared = {(line["study"], line["cohort"], *line.get("sites", ())): float(line.get("per_person", 0.0))
                  for line in self._releases
                  if (line["study"], line["cohort"], line.get("sites", [])) != again
                  and not set(line["columns"]).isdisjoint(release.columns)
                  and cohort.meets(self._cohorts[line["cohort"]], unknown=not self.apart)}
        before, others = sum(shared.values()), sum(map(bool, shared.values()))
        if release.per_person and before and before + release.per_person > most:
            raise DisclosureError(
                f"site '{release.site}': of some of these people {before:.3g} numbers for each were told in "
                f"{others} other studies or cohorts, this one would tell {release.per_person:.3g} more, and the policy "
                f"allows {most:g} (policy.numbers_per_person): from so many sums rows can be solved for. A study that "
                f"was run may be run again, with the same people at the same sites; one of other people is another "
                f"matter")

    # --- what left

    def add_numbers(self, run: str, numbers: int) -> None:
        """So many numbers leave in a run; in a run of which no cohort was admitted nothing of a person does."""
        if numbers <= 0:
            return
        with self._locked():
            if run in self.runs:
                self.store.add({"kind": "told", "run": run, "numbers": int(numbers)}, durable=False)
                self._look()

    @property
    def runs(self) -> set[str]:
        """Of which sums were told."""
        return {line["run"] for line in self._releases if not line.get("part")}

    @property
    def counts(self) -> Counts:
        with self._locked():
            numbers = np.zeros(len(self._cohorts), np.int64)
            for number, run in {(line["cohort"], line["run"]) for line in self._releases if not line.get("part")}:
                numbers[number] += self._numbers[run]
            each = per_person(self._cohorts, numbers)
            return Counts(cohorts=len(self._cohorts), people=len(each), runs=len(self.runs),
                          numbers=self._numbers.total(), most=int(each.max(initial=0)))

    # --- the store's lines

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.store.locked():
            self._look()
            yield

    def _look(self) -> None:
        """At the lines that are new since the last look."""
        for line in self.store.lines[self._read:]:
            match line["kind"]:
                case "cohort":
                    self._cohorts.append(read_cohort(line))
                case "release":
                    self._releases.append(line)
                case "scale":
                    self._scales.setdefault(line["column"], float(line["sd"]))
                case "asked":
                    self._asked.setdefault(line["about"], line["question"])
                case "told":
                    self._numbers[line["run"]] += line["numbers"]
        self._read = len(self.store.lines)

    def _cohort(self, release: Release) -> Cohort:
        prints = {way: fingerprints(people, self._key, way) for way, people in sorted(release.people.items())}
        order = np.argsort(next(iter(prints.values())), kind="stable")
        arm = np.asarray(release.w)[order].astype(np.uint8)
        return Cohort({way: digests[order] for way, digests in prints.items()}, arm)


# --- people


def release(*, site: str, run: str, agreed: Study, study: Study, whole: Table, rows: np.ndarray,
            w: np.ndarray, per_person: float = 0.0, sites: tuple[str, ...] = (), part: bool = False) -> Release:
    """What a run tells of: these rows of the site's whole table, in these arms.

    agreed    the study of all parties; `study` is it, or while a refuter runs, the refuter's
    """
    told = [column for name in (*(covariate.name for covariate in study.covariates), study.treatment)
            for column in whole.origin(name).columns]
    outcome = [column for name in study.outcome_columns for column in whole.origin(name).columns]
    hidden = tuple(column for column in whole.origin(study.outcome).columns if column not in told)
    return Release(site=site, run=run, study=agreed.hash(), columns=tuple(dict.fromkeys((*told, *outcome))),
                   outcome=whole.origin(study.outcome).name, people=_records(agreed, whole, rows), w=np.asarray(w),
                   per_person=per_person, sites=sites, hidden=() if hidden == (study.outcome,) else hidden, part=part)


LINKED = "(linkage)"
"""Stands for the one number that a linkage tells of a cohort: how many people it has."""


def of_linkage(site: str, run: str, agreed: Study, whole: Table) -> Release:
    """What the tokens of a linkage tell: everybody's number, whatever arm they are of."""
    everybody = np.arange(whole.rows)
    return Release(site=site, run=run, study=agreed.hash(), columns=(LINKED,), outcome=LINKED,
                   people=_records(agreed, whole, everybody), w=np.zeros(whole.rows), part=True)


def _only_outcome(hidden: Iterable[str] | None, outcome: str) -> set[str]:
    """Columns that were told as outcomes only."""
    return set(hidden or (outcome,))


def _records(agreed: Study, whole: Table, rows: np.ndarray) -> dict[str, list[bytes]]:
    """Each person by ids, where the study names them, and by the row: columns by their origin, so that neither their
    order nor what a study calls them makes another person. By what a query of the study's author gives as ids people
    are known within that query alone."""
    names, table = _names(agreed, whole), whole.take(rows)
    values = np.column_stack([table.x, table.w, table.y, *([] if table.time is None else [table.time])])
    order = sorted(range(len(names)), key=lambda k: names[k])
    values = values[:, order].astype("<f8") + 0.0  # no −0
    values[np.isnan(values)] = np.nan
    ways = {f"row {json.dumps(sorted(names))}": [row.tobytes() for row in values]}
    if agreed.ids:
        everybody = id_records(agreed, whole)
        whose = [whole.origin(name) for name in agreed.ids]
        about = [agreed.ids, sorted(agreed.linkage.dates.items())]
        if any(made != Origin((name,)) for name, made in zip(agreed.ids, whose, strict=True)):
            about = [[made.name for made in whose], about[1], *([] if _from_cdm(agreed) else [m.how for m in whose])]
        ways[f"ids {RULE} {json.dumps(about)}"] = [everybody[row] for row in rows]
    return ways


def _names(agreed: Study, whole: Table) -> list[str]:
    """Of the columns of a row: covariates in their design, treatment, outcome and, if it has one, its time."""
    def called(name: str, level: str = "") -> str:
        made = whole.origin(name)
        return f"{made.name}{level}{made.how}"

    made = [called(covariate.name, column.removeprefix(covariate.name)) for covariate in agreed.covariates
            for column in covariate.design_columns()]
    return [*made, called(agreed.treatment), *(called(name) for name in agreed.outcome_columns[:1]),
            *([] if whole.time is None else [" ".join(map(called, agreed.outcome_columns[1:]))])]


def _from_cdm(agreed: Study) -> bool:
    """Whether ids are those of a common data model, which a study's author does not choose."""
    return agreed.source is not None and agreed.source.omop is not None


# --- a store that must be there


def opened(folder: Path, entries: Iterable[Mapping[str, Any]], apart: str = "") -> Accountant:
    """The site's accountant; OutputError where the ledger (`entries`) has answers of which the store knows nothing: it
    is lost, another's, or older than they are. Only where nothing was ever answered is a store begun in silence."""
    answers = answered(entries)
    if not store.exists(folder):
        if answers:
            raise store.missing(folder)
        store.create(folder)
    accountant = Accountant(folder, apart)
    since = accountant.store.since
    lost = [run for run, when in answers.items() if run not in accountant.runs and not _was_before(when, since)]
    if lost:
        raise OutputError(f"the store in '{folder}' does not know {len(lost)} of the runs that this kit's ledger has "
                          f"answered: it is another site's, or older than they are. {store.REMEDY}")
    return accountant


def answered(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Run → when it last told something of the rows."""
    return {entry["run"]: entry["time"] for entry in entries
            if entry["run"] and entry["reply"] == "Reply" and entry["phase"] not in BEFORE}


def _was_before(when: str, since: str) -> bool:
    return bool(since) and datetime.fromisoformat(when) <= datetime.fromisoformat(since)


def act_in_words(act: Line) -> str:
    """Of what an operator did, with the reason, as the operator gave it."""
    if act["kind"] == "release":
        return f"the people of run {act['run']} are none of those told of before, the operator says: {act['apart']}"
    done = "begun anew" if act["kind"] == "store" else "restored from a backup that may be older than what was told"
    return f"{done} on {act['time'][:10]}: {act['reason']}"
