"""`fedci site answer`: one request that came as a file, answered with a file; the command ends after each.

Where the site stands between two of them is not kept as such: it is what comes of answering the requests of the run
again (`site.replay`), whose bytes must be those that left. Of a long fit the last few are enough, for the site keeps
where it stood there. A linkage draws keys, which follow from a seed that is kept while it goes on, and is deleted with
the requests of the linkage when it is over.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedci.errors import FedciError, HandshakeError, OutputError, SiteError, UsageError
from fedci.files import whole_file
from fedci.mail import letter
from fedci.mail.letter import MAGIC, REQUEST, SUFFIX, Header
from fedci.mail.post import Post, named, post_of
from fedci.network import party, processes
from fedci.network.kit import Kit
from fedci.network.operations import check_kit, check_way
from fedci.network.party import LINKAGE_SEED, SiteParty
from fedci.protocol.codec import decode
from fedci.protocol.messages import Hello, Message, OpenSum, Refusal
from fedci.protocol.refuting import behind, is_refuters
from fedci.protocol.requests import row_of
from fedci.site import ledger, replay, store
from fedci.site.door import Memory, left
from fedci.site.floors import floors_at
from fedci.site.ledger import NOTE, REFUSAL, Entry, Left, numbers, sha256
from fedci.table.source import absolute

LONG = 40
"""Answers of a fit from which on only its first and last ones are given again."""
LAST = 4
"""Steps at the end of a fit that are: what a step needs of those before it goes no further back."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What a command did, for the site's own screen."""

    site: str
    run: str
    step: int
    phase: str
    request: str
    out: Path
    leaves: str
    """In words: names, shapes and bytes of what left; of a refusal, what the coordinator is told."""
    refused: str
    """The reason in full, where the site did not answer; empty: it did."""
    people: str
    """The file of the site's own people's effects, once there are any."""


def answer(folder: str | Path, data: str, request: Path, out: Path | None = None,
           ask: Callable[[str], bool] | None = None, linkage_key: Path | None = None, policy: Path | None = None,
           keep: str | Path | None = None, apart: str = "") -> Answered:
    """Read the request, answer it through the site's door, and write the letter back.

    out            a file, or a folder for it; none: beside the request
    ask, linkage_key, policy, keep, apart   as in `network.operations.run_site`
    """
    own = check_kit(folder, "site")
    check_way(own, by_files=True)
    post = post_of(own)
    with processes.command(own):
        header, message, asked = _read(own, post, request)
        place = _place(request, out, header)
        floors = floors_at(own.folder, policy)
        party.write_run(own, {"data": absolute(data), "approve": ask is not None, "patience": 0.0,
                              "linkage_key": str(linkage_key.resolve()) if linkage_key else None,
                              "policy": str(floors.path.resolve()) if floors.path else None,
                              "store": str(store.place(keep)), "apart": apart})
        with _linking(own, asked), _site(own, ask) as site:
            rebuild(site, asked)
            if row_of(asked).phase == replay.LINKAGE:
                replay.keep(own.folder, asked, message)  # the door keeps all others
            back = site.answer(message)
        letter_back = post.answer(header, message, back)
    _write(place, letter_back)
    return _told(own, header, asked, back, site, place)


# --- the request

def _read(own: Kit, post: Post, path: Path) -> tuple[Header, bytes, Message]:
    """(header, message as bytes, message) of a request that is this site's to answer now; else an error in words, and
    nothing has changed."""
    entries = ledger.read(own.folder)
    try:
        header, message = post.opened(letter.read(path), REQUEST)
        asked = decode(message)
        if (asked.run, asked.round, asked.site) != (header.run, header.step, own.name):
            raise HandshakeError("its message is of another run, step or site than its header")
        _check_sequence(own, Memory.of(entries), asked, sha256(message))
        _check_cohort(own, entries, header, asked)
    except FedciError as problem:
        raise named(problem, path.name) from None
    return header, message, asked


def _check_sequence(own: Kit, memory: Memory, asked: Message, digest: str) -> None:
    """SiteError where it is not the next request, nor the last one again."""
    if memory.runs and asked.run == memory.runs[-1] and asked.round < max(memory.answered):
        raise SiteError(f"it is an old one: step {asked.round}, and this site has answered step "
                        f"{max(memory.answered)} of this run. An earlier step is not answered again; if the "
                        f"coordinator misses its answer, send the file that was written then")
    memory.check(asked, digest, own.study.runs)


def _check_cohort(own: Kit, entries: Sequence[Entry], header: Header, asked: Message) -> None:
    """HandshakeError where the letter is for another cohort than its run, as the handshake named it."""
    hello = asked if isinstance(asked, Hello) else _hello(own, entries, asked.run)
    if hello is not None and header.cohort != letter.cohort_of(hello.sites):
        raise HandshakeError("it is for another cohort than this run's")


def _hello(own: Kit, entries: Sequence[Entry], run: str) -> Hello | None:
    """The handshake of a run that this site answered; None where it was not kept, which `rebuild` then says."""
    for entry in entries:
        if entry["run"] == run and entry["request"] == Hello.__name__ and entry["reply"] != REFUSAL:
            with suppress(OSError, FedciError):
                hello = decode(letter.read(replay.kept(own.folder, run, entry["round"])))
                return hello if isinstance(hello, Hello) else None
    return None


# --- the site, as it stood

@contextmanager
def _site(own: Kit, ask: Callable[[str], bool] | None) -> Iterator[SiteParty]:
    """The site's party, whose effects are written and whose ledger is closed at the end."""
    site = SiteParty(own, ask=None if ask is None else lambda phase, description: ask(description))
    try:
        yield site
    finally:
        site.ended()


def rebuild(site: SiteParty, asked: Message) -> None:
    """As it stood before this request; SiteError where what left does not come out again."""
    own, entries = site.kit, ledger.read(site.kit.folder)
    if is_refuters(asked.run) and (rows := party.kept_rows(own, behind(asked.run))) is not None:
        site.site.restore_linkage(rows)
    before = [entry for entry in entries if entry["run"] == asked.run and entry["round"] < asked.round
              and (entry["reply"] not in (NOTE, REFUSAL) or replay.passed(entry))]
    if not before:
        return
    start, linked = site.site.run, partial(party.kept_rows, own)
    needed = shortened(before)
    wrong = replay.resumed(own.folder, needed, site.site, linked, party.places(own.run, asked.run))
    if wrong is not None and len(needed) < len(before):  # a place is damaged or lost
        site.site.run = start
        wrong = replay.resumed(own.folder, before, site.site, linked, {})
    if wrong is not None:
        raise SiteError(f"site '{own.name}': line {wrong.number} of its ledger ({wrong.request}) does not come out of "
                        f"these data: {wrong.verdict}. Give the data, the store, the policy, the linkage key and the "
                        f"version of fedci with which the site answered before. Nothing was answered")
    site.keep_linked()  # a crash may have come between the ledger's line and this


def shortened(entries: Sequence[Entry]) -> list[Entry]:
    """All; of a long fit its first step and the last ones."""
    fit = [entry for entry in entries if entry["phase"] == "fit"]
    steps = sorted({entry["round"] for entry in fit if entry["request"] != OpenSum.__name__})
    if len(fit) <= LONG or len(steps) <= LAST:
        return list(entries)
    left_out = range(steps[0] + 1, steps[-LAST])
    return [entry for entry in entries if entry["phase"] != "fit" or entry["round"] not in left_out]


@contextmanager
def _linking(own: Kit, asked: Message) -> Iterator[None]:
    """While a run's linkage goes on there is a seed for its keys; when it is over, neither seed nor requests."""
    seed = own.run / LINKAGE_SEED
    if own.study.links and not is_refuters(asked.run) and isinstance(asked, Hello) and not seed.exists():
        with whole_file(seed) as file:
            file.write(secrets.token_bytes(32).hex().encode())
    yield
    if party.kept_place(own, behind(asked.run)).exists() or row_of(asked).phase not in ("handshake", replay.LINKAGE):
        seed.unlink(missing_ok=True)
        _forget_linkage(own, asked.run)


def _forget_linkage(own: Kit, run: str) -> None:
    for entry in ledger.read(own.folder):
        if entry["run"] == run and entry["phase"] == replay.LINKAGE:
            replay.kept(own.folder, run, entry["round"]).unlink(missing_ok=True)


# --- the answer

def file_name(kind: str, run: str, step: int) -> str:
    """Such as request-3.fedci; of a refuter's run request-placebo-3.fedci."""
    refuter = run.removeprefix(behind(run))
    return f"{kind}{refuter}-{step}{SUFFIX}"


def _place(request: Path, out: Path | None, header: Header) -> Path:
    """Where the answer goes; what is there and is no letter is not replaced."""
    name = f"{header.receiver}-{file_name(letter.ANSWER, header.run, header.step)}"
    place = request.parent / name if out is None else out / name if out.is_dir() else out
    if place.suffix != SUFFIX:
        raise UsageError(f"--out {place.name}: the coordinator looks for files whose names end in {SUFFIX}. Give the "
                         f"answer such a name, or name a folder that is there")
    if not place.parent.is_dir():
        raise OutputError(f"'{place.parent}' is no folder: make it, or choose another --out")
    if place.is_symlink() or (place.exists() and (not place.is_file() or _begins(place) != MAGIC)):
        raise OutputError(f"'{place}' is there already, and is no letter: choose another --out")
    if place.exists() and place.samefile(request):
        raise UsageError("the answer would replace its request: choose another --out")
    return place


def _begins(place: Path) -> bytes:
    with place.open("rb") as file:
        return file.read(len(MAGIC))


def _write(place: Path, data: bytes) -> None:
    try:
        with whole_file(place) as file:
            file.write(data)
    except OSError as problem:
        raise OutputError(f"'{place}' cannot be written: {(problem.strerror or 'unknown').lower()}. The answer is in "
                          f"the ledger and has not left: choose another --out, and run the same command again; it "
                          f"makes the same file") from None


def _leaves(line: Left) -> str:
    """Names, shapes and size, as the ledger has them."""
    parts = [f"{name} ({' × '.join(map(str, shape)) or 'a number'})" for name, shape in line.sums.items()]
    parts += [f"{name} (in words)" for name in line.notes or {}]
    return (f"{', '.join(parts) or 'no numbers, only that it agrees'}; {numbers({'sums': line.sums}):,} numbers, "
            f"{line.bytes:,} bytes")


def _told(own: Kit, header: Header, asked: Message, back: bytes, site: SiteParty, place: Path) -> Answered:
    event, reply = site.heard[-1], decode(back)
    leaves = reply.reason if isinstance(reply, Refusal) else _leaves(left(asked, "", reply, back))
    sealed = "sealed-" if own.study.diagnostics.blinded else ""
    people = own.out / f"{sealed}people-{behind(header.run)}.csv"
    return Answered(site=own.name, run=header.run, step=header.step, phase=event.phase, request=event.request,
                    out=place, leaves=leaves, refused=event.reason, people=str(people) if people.exists() else "")
