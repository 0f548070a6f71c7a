"""A site that cannot start tells the coordinator why, in words that may leave, and its own log all of it."""

from fedci.errors import SizeError, SourceError
from fedci.network import kit
from fedci.network.party import failed_start, refusal
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Refusal, Step


def test_the_true_reason_reaches_the_coordinator_without_paths_or_counts(kits):
    own = kit.read(kits / "kits" / "lyon")
    failed = failed_start(own, SourceError("table '/srv/private/cohort.csv' cannot be read: permission denied"))
    answer = decode(refusal(failed, encode(Step("r1", 2, "lyon", "AskColumns"))))
    assert isinstance(answer, Refusal)
    assert (answer.run, answer.round, answer.site, answer.code) == ("r1", 2, "lyon", "source")
    assert "'cohort.csv' cannot be read: permission denied" in answer.reason
    assert "site.log" in answer.reason
    assert "/srv" not in answer.reason
    assert "/srv/private/cohort.csv" in (own.folder / "site.log").read_text()
    assert kit.events(own.run)[0][-1]["event"] == "broken"
    counted = failed_start(own, SizeError("site 'lyon': 7 rows, the policy needs 50"))
    assert "7" not in counted.reason


def test_an_error_nobody_foresaw_leaves_no_word_anywhere(kits):
    own = kit.read(kits / "kits" / "lyon")
    failed = failed_start(own, ValueError("could not convert '1931-04-05'"))
    assert "ValueError" in failed.reason
    assert "1931" not in failed.reason + (own.folder / "site.log").read_text()
