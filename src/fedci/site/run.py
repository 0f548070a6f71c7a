"""What a site is, and what changes at it in a run: two frozen objects. A request leads from one `Run` to the next.

    (party, run, request) → (run', reply)          the door swaps run for run' when the reply is in the ledger, or never
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from fedci.errors import SiteError
from fedci.privacy.agreement import Credentials
from fedci.protocol import refuting
from fedci.protocol.messages import Message, Prepare, Reply
from fedci.site import diagnosing
from fedci.site.cohorts import Releases
from fedci.site.course import Course
from fedci.site.linking import SiteLinkage
from fedci.site.masking import SiteSums
from fedci.site.people import Posterior
from fedci.site.prepared import Prepared
from fedci.study.options import FitOptions
from fedci.study.study import Study
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
    credentials: Credentials = field(repr=False)
    secret: bytes = field(repr=False)
    """What its masks and its noise follow from."""
    releases: Releases | None = None
    """Of which people the site has told before; none: nobody remembers."""


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
    seed: int = 0
    options: FitOptions | None = None
    linkage: SiteLinkage | None = None
    described: bool = False
    """Whether moments have left: then the rows stay as they are, or two answers would tell one person's."""
    counts: np.ndarray | None = None
    """[3] people, treated, untreated as the moments told them."""
    prepared: Prepared | None = None
    preparation: Prepare | None = None
    """The request that it came from."""
    sums: SiteSums | None = None
    """The secure sums of this run; none: not agreed on."""
    course: Course | None = None
    """Of the fit, as far as it was followed; none: the policy does not ask for it."""
    earlier: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """Round → where the fit stood (`Course.packed`), of a process before this one."""
    evaluations: frozenset[int] = frozenset()
    """Rounds of the talk in which the fit asked for something."""
    memory: Any = None
    """What the model keeps of the last question of the fit for the next one."""
    posterior: Posterior | None = None
    diagnosed: diagnosing.Asked = frozenset()
    silent_from: int | None = None
    """The round from which the site keeps out of the run's propensity model; none: it is in it."""

    @property
    def masked(self) -> bool:
        """Whether only masked sums leave."""
        return self.sums is not None and self.sums.ready

    @property
    def _followed(self) -> Course:
        if self.course is None:
            raise AssertionError("only a course that the site follows has places")
        return self.course

    def is_silent(self, number: int) -> bool:
        return self.silent_from is not None and number >= self.silent_from

    def place(self, number: int) -> dict[str, np.ndarray]:
        """Where the fit stood in an exchange, as named arrays: for the site's own disk."""
        about = {"digest": np.array(self.sums.digests[number])} if self.sums and self.masked else {}
        return self._followed.packed(number) | about

    def at_places(self, packed: Mapping[int, Mapping[str, np.ndarray]]) -> Run:
        """With what `place` gave before a restart, by round."""
        run = replace(self, course=self._followed.restored(packed))
        if self.sums is None or not self.masked:
            return run
        digests = {number: str(place["digest"]) for number, place in packed.items()}
        return replace(run, sums=replace(self.sums, digests=digests | dict(self.sums.digests)))


def first_run(party: Party) -> Run:
    """Before anything was asked."""
    everybody = np.arange(party.whole.rows)
    return Run(study=party.agreed, table=party.whole, rows=everybody, linked=everybody)


def begun(party: Party, before: Run, refuter: str) -> Run:
    """A new run sees nothing that an earlier one left, but what holds for ever: once moments have left, linkage may
    not choose other rows. A refuter's follows the study's, on the rows that its linkage left."""
    run = replace(first_run(party), described=before.described)
    return replace(run, linked=before.linked) if refuter else run


def after_linkage(party: Party, run: Run, linked: np.ndarray) -> Run:
    """Only these rows of the whole table take part; the policy's minimum sizes hold for them too."""
    return with_rows(party, replace(run, linked=linked), restricted(party.agreed, party.whole, linked))


def with_rows(party: Party, run: Run, table: Table) -> Run:
    """The run on this table (of the linked rows), changed as its refuter says."""
    table, rows = refuting.changed(party.agreed, table, run.linked, run.refuter)
    return replace(run, table=table, rows=rows)


def reply_to(request: Message, sums: Mapping[str, Any], **notes: Any) -> Reply:
    arrays = {name: np.asarray(value) for name, value in sums.items()}
    return Reply(request.run, request.round, request.site, arrays, notes)


def required(site: str, part: Part | None, what: str) -> Part:
    if part is None:
        raise SiteError(f"site '{site}' was asked out of turn: it waits for {what} first")
    return part
