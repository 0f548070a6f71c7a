"""What left a site, recomputed: the requests that it answered are kept, and an auditor answers them again.

    answered/RUN/ROUND.msg     the request's bytes, whose digest the ledger's line has, on disk before the answer leaves

With the same data, the same secrets and the same version the same bytes come out, line by line; or the first line that
differs is named. Linkage is not answered again, for its keys are destroyed: which rows it left is the site's record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedci.errors import FedciError, OutputError
from fedci.files import whole_file
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Hello, Message
from fedci.protocol.refuting import study_run
from fedci.protocol.requests import REQUESTS
from fedci.site.ledger import NOTE, REFUSAL, Entry, sha256
from fedci.site.site import Site

ANSWERED = "answered"
LINKAGE, SAME = "linkage", "same"
Linked = Callable[[str], np.ndarray | None]
"""Run of the study → the rows that its linkage left; None: there was none, or it goes on."""


def kept(folder: Path, run: str, number: int) -> Path:
    """Where the request of a round stands."""
    return folder / ANSWERED / run / f"{number}.msg"


def keep(folder: Path, request: Message, data: bytes) -> None:
    """A request that is about to be answered; asked again, it is the same."""
    place = kept(folder, request.run, request.round)
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_file(place) as file:
            file.write(data)
    except OSError as problem:
        raise OutputError(f"the request could not be kept in '{place.parent}': {problem.strerror}. Nothing was sent; "
                          f"free some space and start the same command again") from None


class Line(NamedTuple):
    """A line of the ledger, and what became of it."""

    number: int
    request: str
    verdict: str
    """'same', 'linkage', or why it differs."""

    @property
    def ok(self) -> bool:
        return self.verdict in (SAME, LINKAGE)


def replayed(folder: Path, entries: Sequence[Entry], site: Site,
             linked: Linked) -> Iterator[Line]:
    """Each answer of the ledger again, in order, up to the first that differs.

    What was refused is not answered again: nothing left. A line that says the same as one before it (a reply lost on
    its way) is compared with that.
    """
    said: dict[str, str] = {}
    for entry in entries:
        if entry["reply"] in (NOTE, REFUSAL):
            _pass(folder, entry, site)
            continue
        line = Line(entry["n"], entry["request"], _verdict(folder, entry, site, linked, said))
        yield line
        if not line.ok:
            return


def resumed(folder: Path, entries: Sequence[Entry], site: Site, linked: Linked,
            places: Mapping[int, Mapping[str, np.ndarray]]) -> Line | None:
    """The site as it stood after these answers of one run, whose requests it answers again; None, or the first that
    differs. A linkage under way is answered again as well, by the seed of its keys; `places`: where the fit stood, so
    that `entries` may leave rounds out."""
    said: dict[str, str] = {}
    for entry in entries:
        if passed(entry) or _is_linkage(entry) and linked(entry["run"]) is not None:
            _pass(folder, entry, site)
            continue
        verdict = _recomputed(folder, entry, site, linked, said)
        if verdict != SAME:
            return Line(entry["n"], entry["request"], verdict)
        if entry["request"] == Hello.__name__ and not (site.run.course and site.run.course.places):
            site.restore_places(places)
    return None


def passed(entry: Entry) -> bool:
    """Whether it is a refusal that a study goes on from: the site's course went on too, by the request that is kept."""
    row = REQUESTS.get(entry["request"])
    return entry["reply"] == REFUSAL and row is not None and row.optional


def _pass(folder: Path, entry: Entry, site: Site) -> None:
    """As it did then; what is not kept, or followed no more, shows at the next answer."""
    if not passed(entry):
        return
    with suppress(OSError, FedciError):
        data = kept(folder, entry["run"], entry["round"]).read_bytes()
        if sha256(data) == entry["request_sha256"]:
            site.run = site.passed(decode(data))


def _is_linkage(entry: Entry) -> bool:
    """By its request, whatever the line calls its phase."""
    row = REQUESTS.get(entry["request"])
    return row is not None and row.phase == LINKAGE


def _verdict(folder: Path, entry: Entry, site: Site, linked: Linked, said: dict[str, str]) -> str:
    return LINKAGE if _is_linkage(entry) else _recomputed(folder, entry, site, linked, said)


def _recomputed(folder: Path, entry: Entry, site: Site, linked: Linked, said: dict[str, str]) -> str:
    try:
        data = kept(folder, entry["run"], entry["round"]).read_bytes()
    except OSError:
        return "its request was not kept"
    if sha256(data) != entry["request_sha256"]:
        return "the request that was kept is another"
    if entry["request_sha256"] not in said:
        try:
            said[entry["request_sha256"]] = sha256(_answered(site, decode(data), linked))
        except FedciError as problem:
            return f"the site would refuse it now: {problem}"
    return SAME if said[entry["request_sha256"]] == entry["reply_sha256"] else "other bytes than those that left"


def _answered(site: Site, request: Message, linked: Linked) -> bytes:
    """As the door answers: a new run begins with what linkage left of the rows."""
    begins = isinstance(request, Hello) and request.run != site.run.name
    run = site.begun(request.refuter) if begins and isinstance(request, Hello) else site.run
    site.run, reply = site.answered(run, request)
    if isinstance(request, Hello) and not request.refuter:
        rows = linked(study_run(request.run, request.refuter))
        if rows is not None:
            site.restore_linkage(rows)
    return encode(reply)

