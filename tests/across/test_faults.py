"""Faults of messages, disks and clocks; what they cost is time, never a number. (Parties that die: tests/network and
tests/coordinator/test_masked_sums.py.)"""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fedci.coordinator.checkpoint import Mark, load
from fedci.coordinator.retry import Retrying
from fedci.coordinator.talk import Talk, check_numbers
from fedci.errors import AwayError, MessageError, OutputError
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Reply, Step
from fedci.site.ledger import LEDGER, Ledger, Left, verify

LINE = {"run": "r", "phase": "fit", "request": "Evaluate", "request_sha256": "0", "reply": "Reply", "reply_sha256": "1",
        "bytes": 9}
"""Of a ledger, but for its round."""

SITES = ("a", "b")
SUMS = {"square": np.arange(3.0), "y_square": np.array(4.0)}


class Wire:
    """Sites that answer at once; `spoil(bytes, number)` is what the wire does to the number-th answer."""

    sites = SITES

    def __init__(self, spoil=lambda data, number: data):
        self.spoil, self.asked, self.number = spoil, [], 0

    def exchange(self, requests):
        return {site: self._ask(site, request) for site, request in sorted(requests.items())}

    def _ask(self, site, request):
        self.number += 1
        self.asked.append(encode(request))
        data = self.spoil(encode(Reply(request.run, request.round, site, SUMS)), self.number)
        if data is None:
            raise AwayError(f"site '{site}' did not answer")
        try:
            return decode(data)
        except MessageError as problem:
            raise MessageError(f"site '{site}': {problem}") from None


def asked(engine):
    return Talk(engine, "run").ask_all(lambda base: Step(*base, "AskSpreads"))


def whole(replies):
    return {site: encode(reply) for site, reply in replies.items()}


WHOLE = whole(asked(Wire()))


# --- messages


def test_a_byte_flipped_anywhere_is_found_asked_again_and_costs_nothing():
    size = len(WHOLE["a"])
    for position in range(size):
        wire = Wire(lambda data, number, position=position: data if number != 1 else
                    data[:position] + bytes([data[position] ^ 1]) + data[position + 1:])
        assert whole(asked(Retrying(wire, sleep=lambda seconds: None))) == WHOLE, position
        assert wire.asked.count(wire.asked[0]) == 2  # the same request, to the byte


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data[:20], lambda data: b"",
                                   lambda data: data + b"\0", lambda data: None],
                         ids=["cut", "cut short", "empty", "longer", "lost"])
def test_a_cut_or_lost_message_is_asked_for_again(spoil):
    wire = Wire(lambda data, number: spoil(data) if number == 2 else data)
    assert whole(asked(Retrying(wire, sleep=lambda seconds: None))) == WHOLE


def test_retries_are_bounded_and_ever_slower_by_the_clock():
    waits = []
    wire = Wire(lambda data, number: None)
    with pytest.raises(AwayError, match="site 'a' did not answer"):
        asked(Retrying(wire, sleep=waits.append))
    assert waits == [1.0, 2.0, 4.0]
    assert len(wire.asked) == 1 + 3


def test_what_a_site_refuses_is_not_asked_again():
    """Only what a wire can do is mended by asking again."""
    class Refusing(Wire):
        def _ask(self, site, request):
            self.asked.append(request)
            raise OutputError("its disk is full")

    wire = Refusing()
    with pytest.raises(OutputError):
        asked(Retrying(wire, sleep=lambda seconds: pytest.fail("asked again")))


@pytest.mark.parametrize("change", [{"round": 0}, {"round": 2}, {"run": "another"}, {"site": "b"}],
                         ids=["late", "early", "foreign run", "another's"])
def test_late_reordered_and_foreign_answers_are_discarded(change):
    wire = Wire(lambda data, number: encode(replace(decode(data), **change)) if number == 1 else data)
    with pytest.raises(MessageError, match="site 'a' did not answer round 1"):
        asked(wire)


def test_answers_that_changed_places_are_refused():
    class Crossed(Wire):
        def exchange(self, requests):
            found = super().exchange(requests)
            return {"a": found["b"], "b": found["a"]}

    with pytest.raises(MessageError, match="site 'a' did not answer"):
        asked(Crossed())


# --- sites that lie or break, in the clear


@pytest.mark.parametrize("value, words", [
    (np.full(3, np.nan), "not finite"), (np.full(3, np.inf), "not finite"), (np.full(3, 1e300), "beyond 1e\\+200"),
    (np.full(3, -1e300), "beyond"), (np.zeros(4), r"shape \(4,\)"), (np.zeros((3, 1)), "shape"),
    (np.zeros(3, bool), "type bool")], ids=["nan", "inf", "huge", "-huge", "longer", "2-d", "flags"])
def test_what_is_no_sum_is_refused_and_its_site_named(value, words):
    with pytest.raises(MessageError, match=rf"site 'oslo' answered with 'gradient'.*{words}"):
        check_numbers(Reply("run", 1, "oslo", {"gradient": value}), {"gradient": (3,)})


# --- disks


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from fedci.errors import OutputError
from fedci.coordinator.checkpoint import Mark, load
from fedci.site.ledger import Ledger, Left
import numpy as np
from pathlib import Path
folder = Path(sys.argv[1])
def left(number, size):
    return Left(**LINE, round=number, sums={"g": [3]}, notes={"pad": "x" * size})
book = Ledger(folder)
book.append(left(1, 10))
kept = load(folder / "c.npz", Mark("a", ("a", "b")), "run-1")
kept.write()
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
for what in (lambda: book.append(left(2, 20000)),
             lambda: (setattr(kept, "state", {"query": np.random.default_rng(0).normal(size=5000)}), kept.write())):
    try:
        what()
    except OutputError as problem:
        print(problem)
"""


def test_a_full_disk_leaves_the_ledger_and_the_checkpoint_before(tmp_path):
    """A limit on the size of files does what a full disk does: a part of the write goes through, the rest fails."""
    command = [sys.executable, "-c", f"LINE = {LINE!r}\n{LIMITED}", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    assert len(told) == 2, done.stderr
    assert "cannot be written" in told[0]
    assert "Nothing was sent" in told[0]
    assert "The one before it stands" in told[1]
    assert load(tmp_path / "c.npz", Mark("a", SITES), "run-2").run == "run-1"
    with Ledger(tmp_path) as book:  # the torn line is set aside, and noted
        assert [entry["n"] for entry in book.entries] == [1, 2]
        assert "cut short by a crash" in book.entries[1]["reason"]
        book.append(Left(**LINE, round=3))
    assert verify(tmp_path).ok


@pytest.fixture
def read_only(tmp_path):
    """A folder that nobody can write to, root neither: a file system mounted read-only where we may mount, else the
    folder's own immutable flag, else its mode."""
    place = tmp_path / "place"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(place)], capture_output=True,
                             check=False).returncode == 0
    if not mounted:
        place.chmod(0o500)
    try:
        (place / "probe").touch()
    except OSError:
        pass
    else:
        pytest.skip("this user writes to read-only folders, and may not mount one")
    yield place
    if mounted:
        subprocess.run(["umount", str(place)], check=True)
    else:
        place.chmod(0o700)


def test_a_read_only_folder_is_an_error_in_words(read_only):
    with pytest.raises(OutputError, match="cannot be written"):
        Ledger(read_only)
    with pytest.raises(OutputError, match="could not be written"):
        load(read_only / "c.npz", Mark("a", SITES), "run-1").write()


@pytest.mark.parametrize("spoil", [lambda data: data[:-30], lambda data: data[:100], lambda data: b"",
                                   lambda data: data[:200] + bytes([data[200] ^ 255]) + data[201:],
                                   lambda data: b"PK\x03\x04 nothing"],
                         ids=["cut", "cut short", "empty", "flipped", "no checkpoint"])
def test_a_damaged_checkpoint_is_named_and_never_half_used(tmp_path, spoil):
    path, mark = tmp_path / "c.npz", Mark("a", SITES)
    kept = load(path, mark, "run-1")
    kept.state, kept.previous = {"query": np.arange(9.0)}, {"gradient": np.arange(4.0)}
    kept.write()
    again = load(path, mark, "run-2")
    assert again.state["query"].tolist() == list(range(9))
    assert again.previous["gradient"].tolist() == list(range(4))
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(OutputError, match="is damaged. Remove it"):
        load(path, mark, "run-2")


def test_the_ledgers_file_is_never_half_a_line_for_a_reader(tmp_path):
    with Ledger(tmp_path) as book:
        for number in range(1, 4):
            book.append(Left(**LINE, round=number))
            assert (tmp_path / LEDGER).read_bytes().endswith(b"\n")
            assert verify(tmp_path).ok

