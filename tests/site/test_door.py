"""The door of a site: what enters in sequence, what may leave, and that the ledger knows it first."""

import stat
from dataclasses import replace
from functools import cache
from itertools import takewhile

import numpy as np
import pytest

from fedci import Source
from fedci.coordinator.coordinator import handshake, run_study
from fedci.coordinator.linkage import link
from fedci.coordinator.talk import Talk
from fedci.errors import DataError, DisclosureError, OutputError, SiteError, SizeError
from fedci.protocol.codec import decode, encode
from fedci.protocol.course import Contract
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Hello, Refusal, Reply, Step
from fedci.protocol.requests import REQUESTS
from fedci.site.door import (
    RUN_ID,
    Door,
    Event,
    Memory,
    check_leaving,
    public_reason,
)
from fedci.site.ledger import Ledger, Verdict, read, sha256, verify
from fedci.site.site import Site
from fedci.version import __version__
from support.asked import asked_alone, greeting
from tests_support import frame, hospitals, small, study

NAME = "site-0"
QUICK = {"optimiser": {"rounds": 2}, "prediction": {"draws": 16}}


def make_site(rows: int = 40) -> Site:
    return Site(study(), Source(NAME, frame(rows, 0)).read(study()))


@pytest.fixture
def opened(tmp_path):
    """Makes doors on the folder; a new one ends the one before, as a restart does."""
    ledgers = []

    def make(site=None, **how) -> Door:
        for book in ledgers:
            book.close()
        ledgers.append(Ledger(tmp_path))
        return Door(site or make_site(), ledgers[-1], tmp_path, **how)

    yield make
    for book in ledgers:
        book.close()


def hello(run: str = "run-1", number: int = 1, site: str = NAME, version: str = __version__) -> bytes:
    return encode(greeting(study(), site, run, number=number, version=version))


@cache
def steps() -> dict[str, Step]:
    """Of the study up to its fit, as an honest coordinator asks them: round 2 and on."""
    site = make_site()
    site.answer(greeting(study(), NAME))
    honest = (request for request, _ in asked_alone(site))
    return {request.name: request for request in takewhile(lambda request: request.name != "Begin", honest)}


def columns(number: int = 2, run: str = "run-1", site: str = NAME) -> bytes:
    return encode(replace(steps()["AskColumns"], run=run, round=number, site=site))


def means(number: int = 3, run: str = "run-1", off: float = 0.0) -> bytes:
    """The step after it; `off`: told another sum of the one before."""
    step = steps()["AskMeans"]
    previous = {name: part + off for name, part in step.previous.items()}
    return encode(replace(step, run=run, round=number, previous=previous))


def whole(run: str = "run-1") -> list[bytes]:
    """All of the opening."""
    return [encode(replace(step, run=run)) for step in steps().values()]


def refusal(door: Door, data: bytes) -> Refusal:
    answer = decode(door.answer(data))
    assert isinstance(answer, Refusal)
    return answer


def state(site: Site) -> dict:
    """What a run holds, part by part: a run has arrays, which do not compare as one."""
    return dict(vars(site.run))


class _Doors:
    """An engine whose sites are behind doors."""

    def __init__(self, doors):
        self.doors, self.sites = doors, tuple(sorted(doors))

    def exchange(self, requests):
        return {name: decode(self.doors[name].answer(encode(request))) for name, request in requests.items()}


class _Once:
    """An engine that keeps each request's and each answer's bytes."""

    def __init__(self, engine):
        self.engine, self.sites, self.seen = engine, engine.sites, []

    def exchange(self, requests):
        replies = self.engine.exchange(requests)
        self.seen += [(name, encode(request), encode(replies[name])) for name, request in requests.items()]
        return replies


# --- the operator's command

class Gone(BaseException):
    """In place of a process that ends."""


@pytest.mark.parametrize("looks, lines", [(0, 1), (1, 2)])
def test_once_the_operators_command_has_ended_nothing_leaves(opened, tmp_path, looks, lines):
    """Before an answer is recorded: the ledger knows nothing of it. After: it has the line, as after any crash, and a
    site that starts again gives that answer and no other. A refusal does not leave either."""
    left = [2]  # of the first answer

    def tied():
        left[0] -= 1
        if left[0] < 0:
            raise Gone

    door = opened(tied=tied)
    door.answer(hello())
    left[0] = looks
    for request in (columns(), b"no message"):
        with pytest.raises(Gone):
            door.answer(request)
    entries = read(tmp_path)
    assert len(entries) == lines
    door = opened()
    door.answer(hello())
    again = door.answer(columns())
    assert isinstance(decode(again), Reply)
    assert [entry["reply_sha256"] for entry in entries[1:]] == [sha256(again)] * (lines - 1)


# --- the same study, through doors


@pytest.mark.parametrize("preset", ["classic", "default", "few"])
def test_a_study_through_doors_is_the_study_in_process_bit_for_bit(tmp_path, preset):
    plan = study(preset=preset, options=QUICK if preset == "classic" else small(2))
    tables = [source.read(plan) for source in hospitals(40, 37)]
    inside = run_study(InProcessEngine({t.site: Site(plan, t) for t in tables}), plan)
    ledgers = {t.site: Ledger(tmp_path / t.site) for t in tables}
    behind = {t.site: Site(plan, t) for t in tables}
    doors = {name: Door(site, ledgers[name], tmp_path / name) for name, site in behind.items()}
    engine = _Once(_Doors(doors))
    outside = run_study(engine, plan)

    assert outside.fit.theta.tobytes() == inside.fit.theta.tobytes()
    for name in inside.layout.sites:
        mine, theirs = outside.effects.sums[name], inside.effects.sums[name]
        assert mine.keys() == theirs.keys()
        assert all(mine[key].tobytes() == theirs[key].tobytes() for key in mine)
        draws = plan.fit_options().prediction.draws
        assert behind[name].people.ite().means.shape == (draws, len(behind[name].run.table.y))
        _check_ledger(tmp_path / name, [seen for seen in engine.seen if seen[0] == name], outside)
    for book in ledgers.values():
        book.close()


def _check_ledger(folder, seen, outcome):
    """One line for each answer, of the bytes that the coordinator got; moments and effects number by number."""
    entries = read(folder)
    assert verify(folder) == Verdict(True)
    assert [e["request_sha256"] for e in entries] == [sha256(asked) for _, asked, _ in seen]
    assert [e["reply_sha256"] for e in entries] == [sha256(told) for _, _, told in seen]
    assert [e["bytes"] for e in entries] == [len(told) for _, _, told in seen]
    assert {e["run"] for e in entries} == {outcome.run}
    assert list(dict.fromkeys(e["phase"] for e in entries)) == ["handshake", "moments", "fit", "effects"]
    for entry, (name, _, told) in zip(entries, seen, strict=True):
        sums = decode(told).sums
        assert entry["sums"] == {key: list(array.shape) for key, array in sums.items()}
        assert ("values" in entry) == REQUESTS[entry["request"]].in_full
        if entry["phase"] == "effects":
            kept = outcome.effects.sums[name]
            assert all(np.array_equal(entry["values"][key], kept[key]) for key in kept)


class _Twice:
    """A network that loses each first answer: every request comes twice."""

    def __init__(self, engine):
        self.engine, self.sites = engine, engine.sites

    def exchange(self, requests):
        lost, found = self.engine.exchange(requests), self.engine.exchange(requests)
        assert {name: encode(reply) for name, reply in lost.items()} == {
            name: encode(reply) for name, reply in found.items()}
        return found


def test_linkage_goes_through_doors_though_each_answer_is_lost_once(tmp_path):
    """Its keys are random: an answer that is lost is sent again, not made again."""
    plan = study(ids=("id",))
    frames = [frame(n, s).assign(id=[f"p{30 * s + k}" for k in range(n)]) for s, n in enumerate((40, 37))]
    behind = {f"site-{s}": Site(plan, Source(f"site-{s}", rows).read(plan)) for s, rows in enumerate(frames)}
    ledgers = {name: Ledger(tmp_path / name) for name in behind}
    talk = Talk(_Twice(_Doors({name: Door(behind[name], ledgers[name], tmp_path / name) for name in behind})), "run-1")
    handshake(talk, Contract(plan, tuple(sorted(behind))))
    linked = link(talk, plan, bytes(32))
    assert sum(linked.excluded.values()) == 10
    assert {name: 40 - 3 * s - len(behind[name].run.table.y) for s, name in enumerate(behind)} == linked.excluded
    for name, book in ledgers.items():
        assert [e["phase"] for e in book.entries] == 2 * ["handshake"] + (len(book.entries) - 2) * ["linkage"]
        tokens = [e for e in book.entries if e["reply"] == "Tokens"]
        assert [e["sums"] for e in tokens] == 2 * [
            {"tokens": [len(behind[name].party.whole.y), 2], "witnesses": [len(behind[name].party.whole.y), 3]}]
        assert not any("values" in e for e in tokens)
        book.close()


def test_the_rows_of_linkage_stay_once_moments_have_left(opened):
    door = opened()
    for data in (hello(), columns(), hello("run-2")):
        door.answer(data)
    assert door.site.run.described


# --- sequence


def test_asked_again_a_site_gives_the_same_bytes(opened, tmp_path):
    door = opened()
    asked = [hello(), columns(), means()]
    first = [door.answer(data) for data in asked]
    assert [door.answer(data) for data in asked] == first
    entries = read(tmp_path)
    assert [e["reply_sha256"] for e in entries] == 2 * [sha256(data) for data in first]
    assert [e["round"] for e in entries] == [1, 2, 3, 1, 2, 3]


def test_an_answer_lost_on_its_way_is_sent_again_and_not_made_again(opened, monkeypatch):
    door = opened()
    door.answer(hello())
    first = door.answer(columns())
    monkeypatch.setattr(Site, "answered", lambda self, run, request: pytest.fail("made again"))
    assert door.answer(columns()) == first


def test_an_earlier_round_leads_the_site_back(opened, monkeypatch):
    """A round may lean on what the one before it left in the site: both are walked anew."""
    door, made, answered = opened(), [], Site.answered
    door.answer(hello())
    first = [door.answer(data) for data in whole()]
    ready = state(door.site)
    assert ready["prepared"] is not None
    monkeypatch.setattr(Site, "answered", lambda *asked: made.append(asked[-1].name) or answered(*asked))
    assert [door.answer(data) for data in whole()] == first
    assert made == list(steps())
    assert door.site.run.course == ready["course"]


def test_an_earlier_round_that_would_be_answered_otherwise_is_refused(opened):
    door = opened()
    for data in (hello(), *whole()):
        door.answer(data)
    door.site.run = replace(door.site.run, table=make_site(rows=41).run.table)
    before = state(door.site)
    assert "second, different release" in refusal(door, means()).reason
    assert state(door.site) == before


def test_another_request_in_an_answered_round_is_refused(opened, tmp_path):
    door = opened()
    for data in (hello(), columns(), means()):
        door.answer(data)
    before, entries = state(door.site), read(tmp_path)
    other = means(off=1.0)
    found = refusal(door, other)
    assert (found.code, found.run, found.round) == ("site", "run-1", 3)
    assert "round 3" in found.reason
    assert state(door.site) == before
    more = read(tmp_path)
    assert more[:-1] == entries
    assert (more[-1]["reply"], more[-1]["code"], more[-1]["reason"]) == ("Refusal", "site", found.reason)
    assert more[-1]["request_sha256"] == sha256(other)
    assert isinstance(decode(door.answer(means())), Reply)  # the refused one took no place


@pytest.fixture
def products(opened):
    """(a door whose site told products once, the second question about them, its honest answer, the next question)."""
    agreed, greeted = study(preset="few", options=small(2)), greeting(study(preset="few", options=small(2)), NAME)
    site, behind = (Site(agreed, Source(NAME, frame(40, 0)).read(agreed)) for _ in range(2))
    site.answer(greeted)
    honest, replies = zip(*asked_alone(site), strict=True)
    last = max(number for number, request in enumerate(honest) if request.name == "AskProducts")
    door = opened(behind)
    for request in (greeted, *honest[:last]):
        assert isinstance(decode(door.answer(encode(request))), Reply)
    return door, honest[last], replies[last], honest[last + 1]


def test_products_are_told_at_the_foreseen_point_alone(products):
    """A question has no point: the site works it out from the sum before it. A point beside that sum moves nothing, and
    another sum, which would be another point, is refused where products at this one were told."""
    door, second, honest, _ = products
    beside = replace(second, previous=second.previous | {"point": np.full(3, 9.0)})
    told = decode(door.answer(encode(beside)))
    assert told.sums.keys() == honest.sums.keys()
    assert all(told.sums[name].tobytes() == honest.sums[name].tobytes() for name in told.sums)
    moved = {name: part * (1.0 + 1e-9) if name == "cross" else part for name, part in second.previous.items()}
    assert "answered to another request" in refusal(door, encode(replace(second, previous=moved))).reason


def test_no_more_products_than_foreseen(products):
    """After the last message come the effects."""
    door, second, _, after = products
    assert isinstance(decode(door.answer(encode(second))), Reply)
    assert after.name == "AskSharedEffects"
    assert "a AskProducts instead of a AskSharedEffects" in refusal(
        door, encode(replace(after, name="AskProducts"))).reason
    assert isinstance(decode(door.answer(encode(after))), Reply)


def test_a_round_that_has_passed_is_refused(opened):
    door = opened()
    door.answer(hello())
    door.answer(columns(5))
    assert "round 4 of this run has passed" in refusal(door, columns(4)).reason
    assert isinstance(decode(door.answer(means(6))), Reply)


def test_a_refused_round_may_be_asked_again(opened):
    """A refusal releases nothing: it binds no round."""
    door = opened()
    door.answer(hello())
    assert "another site" in refusal(door, columns(2, site="site-1")).reason
    assert isinstance(decode(door.answer(columns(2))), Reply)


def test_a_run_begins_with_a_handshake(opened):
    door = opened()
    assert "did not begin with a handshake" in refusal(door, columns()).reason
    door.answer(hello())
    assert "did not begin with a handshake" in refusal(door, columns(2, run="run-2")).reason


def test_once_a_later_run_has_begun_the_earlier_is_over(opened, tmp_path):
    door = opened()
    for data in (hello(), *whole()):
        door.answer(data)
    assert door.site.run.prepared is not None
    assert isinstance(decode(door.answer(hello("run-2"))), Reply)
    assert door.site.run.prepared is None  # nothing of run 1 is left in the site
    for data in (columns(4), columns(2), hello(), hello(number=9)):
        assert "an earlier run" in refusal(door, data).reason
    assert isinstance(decode(door.answer(columns(2, run="run-2"))), Reply)
    assert [e["run"] for e in read(tmp_path) if e["reply"] == "Reply"] == (1 + len(steps())) * ["run-1"] + 2 * ["run-2"]


def test_a_refused_handshake_leaves_the_current_run(opened):
    door = opened()
    door.answer(hello())
    door.answer(columns())
    before = state(door.site)
    found = refusal(door, hello("run-2", version="0.0"))
    assert (found.code, found.run) == ("handshake", "run-2")
    assert state(door.site) == before
    assert isinstance(decode(door.answer(means())), Reply)


def test_a_restart_remembers(opened):
    door = opened()
    asked = [hello("run-0"), hello(), columns(), means()]
    first = [door.answer(data) for data in asked]
    again = opened()
    assert again.memory == door.memory
    assert "to another request" in refusal(again, means(off=1.0)).reason
    assert "an earlier run" in refusal(again, hello("run-0")).reason
    assert [again.answer(data) for data in asked[1:]] == first[1:]
    assert sorted(again.site.run.course.places) == sorted(door.site.run.course.places) == [2, 3]
    assert "has passed" in refusal(again, columns(-1)).reason


def test_after_a_restart_with_other_rows_nothing_different_is_released(opened, tmp_path):
    door = opened()
    for data in (hello(), columns(), means()):
        door.answer(data)
    again = opened(make_site(rows=41))
    for data in (hello(), columns()):  # which columns must stay is the same of both
        again.answer(data)
    found = refusal(again, means())
    assert (found.code, "second, different release" in found.reason) == ("site", True)
    assert read(tmp_path)[-1]["reply"] == "Refusal"


def test_memory_is_the_same_live_and_from_the_ledger(opened, tmp_path):
    door = opened()
    for data in (hello(), columns(), b"junk", hello("run-2", version="0"), means(), hello("run-2"), columns()):
        door.answer(data)
    assert door.memory == Memory.of(read(tmp_path))
    assert door.memory.runs == ["run-1", "run-2"]


# --- what cannot be read, and what goes wrong


@pytest.mark.parametrize("data", [b"", b"FCI2", b"\x80\x04junk", hello()[:-1], hello() + b"\0"])
def test_what_is_no_message_is_refused_and_recorded(opened, tmp_path, data):
    found = refusal(opened(), data)
    assert (found.run, found.round, found.site, found.code) == ("", 0, NAME, "message")
    (entry,) = read(tmp_path)
    assert (entry["request"], entry["request_sha256"], entry["reply"]) == ("", sha256(data), "Refusal")


def test_every_flipped_byte_of_a_request_changes_nothing(opened):
    """Also one within the numbers: a message carries a check of all its bytes."""
    door = opened()
    door.answer(hello())
    door.answer(columns())
    before, memory, data = state(door.site), Memory.of(door.ledger.entries), means()
    for at in range(0, len(data), 29):
        found = refusal(door, data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1:])
        assert found.code == "message", at
        assert (state(door.site), door.memory) == (before, memory)
    assert isinstance(decode(door.answer(data)), Reply)


@pytest.mark.parametrize("run", ["", "a b", "../x", "\x1b[2J", "a" * 81])
def test_a_run_with_an_odd_name_is_refused(opened, run):
    assert not RUN_ID.fullmatch(run)
    assert (refusal(opened(), hello(run)).code) == "message"


@pytest.mark.parametrize("message", [Reply("run-1", 2, NAME), Refusal("run-1", 2, NAME, "x", "y")])
def test_an_answer_is_no_request(opened, message):
    door = opened()
    door.answer(hello())
    assert "does not answer a" in refusal(door, encode(message)).reason


def test_a_request_for_another_site_is_refused(opened):
    assert "another site" in refusal(opened(), hello(site="site-1")).reason


def test_a_site_that_fails_says_where_to_look_and_no_value(opened, tmp_path, monkeypatch):
    door, events = opened(), []
    door.listener = events.append
    door.answer(hello())
    before = state(door.site)

    def fails(site, run, request):
        raise ZeroDivisionError("the patient of 1931-04-05")

    monkeypatch.setattr(Site, "answered", fails)
    found = refusal(door, columns())
    assert found.code == "site"
    assert "site.log" in found.reason
    assert "1931" not in found.reason + events[-1].reason
    assert state(door.site) == before
    log = tmp_path / "site.log"
    assert "ZeroDivisionError" in log.read_text()
    assert "1931" not in log.read_text()  # logs hold no values: where it came from, and of which kind it is
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    monkeypatch.undo()
    assert isinstance(decode(door.answer(columns())), Reply)


def test_what_cannot_be_recorded_does_not_leave(opened, monkeypatch):
    door = opened()
    door.answer(hello())
    before, memory = state(door.site), Memory.of(door.ledger.entries)

    def full(left):
        raise OutputError("no space")

    monkeypatch.setattr(door.ledger, "append", full)
    with pytest.raises(OutputError):
        door.answer(columns())
    assert (state(door.site), door.memory) == (before, memory)


def test_a_screen_that_fails_loses_no_answer(opened, tmp_path):
    door = opened(listener=lambda event: 1 / 0)
    assert isinstance(decode(door.answer(hello())), Reply)
    assert "ZeroDivisionError" in (tmp_path / "site.log").read_text()


def test_each_answer_is_told(opened):
    events = []
    door = opened(listener=events.append)
    asked = [hello(), columns(), columns(7, run="other")]
    told = [door.answer(data) for data in asked]
    assert all(event.seconds > 0 for event in events)
    assert [replace(event, seconds=0.0) for event in events] == [
        Event(phase="handshake", request="Hello", run="run-1", round=1, reply="Reply", bytes_in=len(asked[0]),
              bytes_out=len(told[0]), seconds=0.0),
        Event(phase="moments", request="AskColumns", run="run-1", round=2, reply="Reply", bytes_in=len(asked[1]),
              bytes_out=len(told[1]), seconds=0.0),
        Event(phase="moments", request="AskColumns", run="other", round=7, reply="Refusal", bytes_in=len(asked[2]),
              bytes_out=len(told[2]), seconds=0.0, reason=decode(told[2]).reason)]


# --- a person's approval


def test_a_person_is_asked_once_for_each_phase(opened):
    asked = []
    door = opened(approve=lambda phase, what: asked.append((phase, what)) or True)
    for data in (hello(), *whole(), whole()[-1]):
        assert isinstance(decode(door.answer(data)), Reply)
    assert [phase for phase, _ in asked] == ["handshake", "moments"]
    assert f"12 numbers, {len(door.answer(columns()))} bytes" in asked[1][1]
    assert "withheld (3), varies (3), incomplete (3), gaps_withheld (3)" in asked[1][1]
    assert "Later answers of the phase hold nothing but: censored, count, counts, events" in asked[1][1]
    assert "run run-1" in asked[1][1]
    door.answer(hello("run-2"))
    assert [phase for phase, _ in asked] == ["handshake", "moments", "handshake"]


def test_a_restart_does_not_ask_again(opened):
    door = opened(approve=lambda phase, what: True)
    door.answer(hello())
    again = opened(approve=lambda phase, what: pytest.fail("asked"))
    assert isinstance(decode(again.answer(hello())), Reply)


def test_what_a_person_does_not_approve_stays(opened, tmp_path):
    asked = []
    door = opened(approve=lambda phase, what: asked.append(phase) or phase != "moments")
    door.answer(hello())
    before = state(door.site)
    for data in (columns(), columns(), columns(3)):
        found = refusal(door, data)
        assert (found.code, found.reason) == (
            "disclosure", f"the site's operator did not approve the phase 'moments' at site '{NAME}'")
    assert asked == ["handshake", "moments"]
    assert state(door.site) == before
    assert [e["reply"] for e in read(tmp_path)] == ["Reply", "Refusal", "Refusal", "Refusal"]


def test_an_interrupted_question_changes_nothing(opened, tmp_path):
    def interrupted(phase, what):
        raise KeyboardInterrupt

    door = opened(approve=interrupted)
    before = state(door.site)
    with pytest.raises(KeyboardInterrupt):
        door.answer(hello())
    assert state(door.site) == before
    assert read(tmp_path) == []


# --- what may leave


class _Leaky(Site):
    """A site whose answer to AskColumns holds something else."""

    def answered(self, run, request):
        run, reply = super().answered(run, request)
        return run, replace(reply, notes=self.hello_notes) if isinstance(request, Hello) else self.leak(reply)

    hello_notes = {}


@pytest.mark.parametrize("leak", [
    lambda reply: replace(reply, sums=reply.sums | {"patient 1931": np.zeros(3)}),
    lambda reply: replace(reply, sums={"gradient": np.zeros(3)}),
    lambda reply: replace(reply, notes={"names": "Anna 1931"}),
    lambda reply: replace(reply, notes={"warnings": ["a note of another request"]}),
    lambda reply: replace(reply, round=reply.round + 1),
    lambda reply: replace(reply, site="site-1"),
    lambda reply: Step(reply.run, reply.round, reply.site, "AskColumns"),
    lambda reply: replace(reply, sums={"withheld": np.zeros(2**21 + 1)}),
])
def test_what_is_not_among_the_answers_does_not_leave(opened, tmp_path, leak):
    site = _Leaky(study(), make_site().run.table)
    site.leak = leak
    door = opened(site)
    door.answer(hello())
    found = refusal(door, columns())
    assert found.code == "disclosure"
    assert "1931" not in found.reason
    assert [e["reply"] for e in read(tmp_path)] == ["Reply", "Refusal"]


def test_numbers_that_the_other_side_could_not_read_do_not_leave(opened, tmp_path):
    site = _Leaky(study(), make_site().run.table)
    site.leak = lambda reply: replace(reply, sums={"withheld": np.array([np.nan])})
    door = opened(site)
    door.answer(hello())
    assert refusal(door, columns()).code == "message"
    assert verify(tmp_path) == Verdict(True)


def test_notes_that_the_other_side_could_not_read_do_not_leave(opened, tmp_path):
    site = _Leaky(study(), make_site().run.table)
    site.hello_notes = {"warnings": [float("inf")]}
    assert refusal(opened(site), hello()).code == "message"
    assert verify(tmp_path) == Verdict(True)


def test_the_foreign_name_stands_in_the_sites_own_log(opened, tmp_path):
    site = _Leaky(study(), make_site().run.table)
    site.leak = lambda reply: replace(reply, sums={"ages": np.zeros(3)})
    door = opened(site)
    door.answer(hello())
    assert "ages" not in refusal(door, columns()).reason
    assert "such as 'ages'" in (tmp_path / "site.log").read_text()


def test_each_name_leaves_only_in_answer_to_its_request():
    ask = Step("r", 1, NAME, "Evaluate")
    for name in {array.name for row in REQUESTS.values() for array in row.answer}:
        reply = Reply("r", 1, NAME, {name: np.zeros(2)})
        if name in REQUESTS["Evaluate"].leaves(secure=False):
            check_leaving(ask, reply)
        else:
            with pytest.raises(DisclosureError):
                check_leaving(ask, reply)


# --- reasons without counts


@pytest.mark.parametrize("error, hidden", [(SizeError, "7 treated"), (DataError, "rows 3 and 9"),
                                           (DisclosureError, "of 47 people")])
def test_counts_stay_at_the_site(opened, tmp_path, monkeypatch, error, hidden):
    door, events = opened(), []
    door.listener = events.append

    def refuses(self, run, request):
        raise error(f"site '{NAME}': {hidden} rows, the policy needs more")

    monkeypatch.setattr(Site, "answered", refuses)
    found = refusal(door, hello())
    assert found.code == error.code
    assert found.reason.startswith(f"site '{NAME}': ")
    assert not any(sign.isdigit() for sign in found.reason.replace(NAME, ""))
    assert read(tmp_path)[0]["reason"] == found.reason
    assert hidden in events[0].reason
    assert hidden in (tmp_path / "site.log").read_text()


@pytest.mark.parametrize("code, reason", [
    ("data", f"site '{NAME}': column 'age' is constant"), ("handshake", "the version differs: 0.1 here, 0.2 there"),
    ("site", "round 3 has passed")])
def test_reasons_without_counts_travel_as_they_are(code, reason):
    assert public_reason(NAME, code, reason) == reason


@pytest.mark.parametrize("count", ["7", "٧", "½", "²", "1,234"])
def test_every_way_to_write_a_number_counts(count):
    assert count not in public_reason(NAME, SizeError.code, f"site '{NAME}': {count} rows")


def test_site_errors_keep_their_class_on_the_way(opened):
    door = opened()
    door.answer(hello())
    found = refusal(door, encode(Step("run-1", 2, NAME, "Evaluate")))
    assert (found.code, "a Evaluate instead of a AskColumns" in found.reason) == (SiteError.code, True)
