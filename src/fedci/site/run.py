"""What a site is, and what changes at it in a run: two frozen objects. A request leads from one `Run` to the next.

    (party, run, request) → (run', reply)          the door swaps run for run' when the reply is in the ledger, or never
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from fedci.errors import OutputError, SiteError
from fedci.privacy.agreement import Credentials
from fedci.protocol import refuting
from fedci.protocol.course import Contract
from fedci.protocol.messages import Message, Reply
from fedci.site import accountant
from fedci.site.accountant import Accountant, Release
from fedci.site.admission import situation, told_per_person
from fedci.site.following import Course
from fedci.site.linking import SiteLinkage
from fedci.site.masking import SiteSums
from fedci.site.people import Posterior
from fedci.site.prepared import Prepared
from fedci.study.policy import Policy
from fedci.study.study import Study
from fedci.table import small_cells
from fedci.table.table import Table, restricted

Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class Party:
    """A site, whatever is asked of it."""

    name: str
    agreed: Study
    """The study that all parties hold."""
    whole: Table
    """All its rows; they never leave."""
    noisy: Table
    """The same as sums see them: with the site's noise on their outcomes (`site.outcome_noise`)."""
    credentials: Credentials = field(repr=False)
    secret: bytes = field(repr=False)
    """What its masks follow from: it is the kit's."""
    noise_secret: bytes = field(repr=False)
    """What its noise follows from: the store's, so that a new kit does not draw another noise on the same sums."""
    accountant: Accountant | None = None
    """Knows of which people the site has told before; none: one person holds all rows, and nobody need remember."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Replaced, never changed."""

    study: Study
    """The agreed one, or while a refuter runs, the refuter's."""
    table: Table
    rows: np.ndarray
    """[n] where the table's people stand in the whole table; linkage may leave some out, and a refuter more."""
    linked: np.ndarray
    """Rows that linkage left."""
    name: str = ""
    refuter: str = ""
    linkage: SiteLinkage | None = None
    admitted: bool = False
    """Whether the accountant has let these people be told of."""
    described: bool = False
    """Whether sums have left: then the rows stay as they are, or two answers would tell one person's."""
    prepared: Prepared | None = None
    sums: SiteSums | None = None
    """The secure sums of this run; none: not agreed on."""
    course: Course | None = None
    """As far as it was followed; none before the handshake."""
    earlier: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """Round → where the fit stood (`place`), of a process before this one."""
    memory: Any = None
    """What the model keeps of the last question of the fit for the next one."""
    posterior: Posterior | None = None

    @property
    def masked(self) -> bool:
        """Whether only masked sums leave."""
        return self.sums is not None and self.sums.ready

    @property
    def contract(self) -> Contract:
        if self.course is None:
            raise AssertionError("the handshake comes first")
        return self.course.contract

    def place(self, number: int) -> dict[str, np.ndarray] | None:
        """Where the fit stood in an exchange, as named arrays: for the site's own disk. None before the fit."""
        packed = None if self.course is None else self.course.packed(number)
        asked = self.sums.digests.get(number) if self.sums and self.masked else None
        about = {} if asked is None else {"digest": np.array(asked)}
        return None if packed is None else packed | about

    def with_earlier(self, packed: Mapping[int, Mapping[str, np.ndarray]]) -> Run:
        """With what `place` gave before a restart, by round."""
        return replace(self, earlier=packed, course=self.course and replace(self.course, earlier=packed))

    def remembering(self, sums: SiteSums) -> Run:
        """With keys of the secure sums; of exchanges before a restart it knows what was asked."""
        earlier = self.course.earlier if self.course else {}
        digests = {number: str(place["digest"]) for number, place in earlier.items() if "digest" in place}
        return replace(self, sums=replace(sums, digests=digests | dict(sums.digests)))


def first_run(party: Party) -> Run:
    """Before anything was asked."""
    everybody = np.arange(party.whole.rows)
    table = small_cells.merged(party.noisy, party.agreed.policy.min_cell)
    return Run(study=party.agreed, table=table, rows=everybody, linked=everybody)


def begun(party: Party, before: Run, refuter: str) -> Run:
    """A new run sees nothing that an earlier one left, but what holds for ever: once moments have left, linkage may
    not choose other rows. A refuter's follows the study's, on the rows that its linkage left."""
    run = replace(first_run(party), described=before.described)
    return replace(run, linked=before.linked) if refuter else run


def after_linkage(party: Party, run: Run, linked: np.ndarray) -> Run:
    """Only these rows of the whole table take part; the policy's minimum sizes hold for them too."""
    return with_rows(party, replace(run, linked=linked), restricted(party.agreed, party.noisy, linked))


def with_rows(party: Party, run: Run, table: Table) -> Run:
    """The run on this table (of the linked rows), changed as its refuter says."""
    table, rows = refuting.changed(party.agreed, table, run.linked, run.refuter)
    return replace(run, table=small_cells.merged(table, run.study.policy.min_cell), rows=rows, admitted=False)


def true_outcomes(party: Party, run: Run) -> np.ndarray:
    """[n] of the run's people, without the site's noise: for what decides whether they are told of."""
    many = dict(zip(party.agreed.diagnostics.negative_controls, party.whole.controls, strict=True))
    column = (party.whole.y if run.study.outcome == party.agreed.outcome else
              many.get(run.study.outcome, party.whole.control))
    return required(party.name, column, "a table with the study's negative control")[run.rows]


def admitted(party: Party, run: Run) -> Run:
    """DisclosureError where sums over the run's people, together with all that the site has told, would tell of few."""
    if run.admitted or party.accountant is None:
        return run
    if run.refuter and refuting.study_run(run.name, run.refuter) not in party.accountant.runs:
        raise SiteError(f"site '{party.name}' was asked out of turn: a refuter follows a run of its study of which "
                        f"sums were told. The study's count of numbers has the refuter's, and without it they would "
                        f"count for nothing")
    about = accountant.release(site=party.name, run=run.name, agreed=party.agreed, study=run.study, whole=party.whole,
                               rows=run.rows, w=run.table.w, per_person=_per_person(party, run),
                               sites=run.contract.sites)
    _admit(party, about, run.study.policy)
    return replace(run, admitted=True)


def linkage_admitted(party: Party, run: Run) -> None:
    """DisclosureError where how many people stand at the site, which its tokens tell, would differ by few from how many
    a linkage told before: a study's author says who is among them."""
    if party.accountant is not None:
        about = accountant.of_linkage(party.name, run.name, party.agreed, party.whole)
        _admit(party, about, run.study.policy)


def _admit(party: Party, about: Release, policy: Policy) -> None:
    if party.accountant is None:
        return
    try:
        party.accountant.admit(about, policy)
    except OutputError as problem:  # where the store stands is nobody's business
        refusal = SiteError(f"site '{party.name}': the store of what it has told cannot be used, and nothing leaves "
                            f"without it. Its own file site.log says why")
        refusal.add_note(str(problem))
        raise refusal from None


def _per_person(party: Party, run: Run) -> float:
    """Numbers told in the whole study over the people of a sum, its refuters included; in a refuter's run nothing
    more."""
    if run.refuter:
        return 0.0
    table = party.noisy.take(run.linked)
    return told_per_person(situation(party.agreed, table, len(run.contract.sites), run.contract.options))


def reply_to(request: Message, sums: Mapping[str, Any], **notes: Any) -> Reply:
    arrays = {name: np.asarray(value) for name, value in sums.items()}
    return Reply(request.run, request.round, request.site, arrays, notes)


def required(site: str, part: Part | None, what: str) -> Part:
    if part is None:
        raise SiteError(f"site '{site}' was asked out of turn: it waits for {what} first")
    return part
