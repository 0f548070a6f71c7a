"""`fedci site answer`: what a site answers, once, whatever happens between; what it refuses, with nothing changed."""

import shutil
from dataclasses import replace

import pytest

from fedci.errors import FedciError, OutputError, SiteError, UsageError
from fedci.mail import answering, letter
from fedci.mail.answering import file_name, shortened
from fedci.mail.letter import REQUEST
from fedci.mail.post import post_of
from fedci.network import kit, party
from fedci.network.kit import RUN
from fedci.network.party import LINKAGE_SEED
from fedci.network.provision import COORDINATOR
from fedci.protocol.codec import decode, encode
from fedci.site import ledger
from support.mailed import SITES, Mailed, plan


@pytest.fixture
def study(stage) -> Mailed:
    """A step under masks is open."""
    study = stage("AskMeans")
    study.stands = study.next()
    study.asked = study.stands.requests["lyon"]
    return study


def refused(study, data: bytes, **more) -> str:
    """Why lyon does not answer a file; its kit, ledger and store are as they were, and no answer is written."""
    before, path = study.files("lyon"), study.out / "hostile.fedci"
    path.write_bytes(data)
    with pytest.raises(FedciError) as problem:
        study.answer("lyon", path, out=study.out / "none.fedci", **more)
    assert study.files("lyon") == before
    assert not (study.out / "none.fedci").exists()
    return str(problem.value)


def from_coordinator(study, header, message) -> bytes:
    post = post_of(kit.read(study.kits[COORDINATOR]))
    return letter.sealed(header, message, post.keys, post.peers["lyon"])


# --- refused


def test_cut_flipped_swapped_and_foreign_requests_are_refused_in_words(study, tmp_path):
    data = study.asked.read_bytes()
    header, message = post_of(kit.read(study.kits["lyon"])).opened(data, REQUEST)
    foreign, other = Mailed(tmp_path / "foreign", plan()), Mailed(tmp_path / "other", plan(seed=1))
    for hostile, words in (
            (data[:-1], "not its signature"), (data[:100], "header is cut short"), (b"", "no letter"),
            (data[:-100] + bytes([data[-100] ^ 4]) + data[-99:], "not its signature"),
            (study.stands.requests["oslo"].read_bytes(), "it is for 'oslo', and this is the kit of 'lyon'"),
            (foreign.next(answers=None).requests["lyon"].read_bytes(), "not its signature"),
            (other.next(answers=None).requests["lyon"].read_bytes(), "it belongs to another study"),
            ((study.answers / "lyon-answer-1.fedci").read_bytes(), "it is an answer"),
            (from_coordinator(study, replace(header, step=header.step + 1), message), "another run, step or site"),
            (from_coordinator(study, replace(header, run="other"), message), "another run, step or site"),
            (from_coordinator(study, header, b"nonsense"), "not a message of this version"),
            (from_coordinator(study, header, encode(replace(decode(message), name="AskSpreads"))[:-1]), "damaged")):
        assert words in refused(study, hostile), words
        assert "Nothing was changed" in refused(study, hostile)


def test_an_old_request_is_not_answered_again_but_the_last_one_is_with_the_same_bytes(study):
    for step in (1, study.stands.step - 2):
        old = study.requests / "lyon" / f"request-{step}.fedci"
        assert f"an old one: step {step}, and this site has answered step {study.stands.step - 1}" in refused(
            study, old.read_bytes())
    last = study.requests / "lyon" / f"request-{study.stands.step - 1}.fedci"
    before = (study.answers / f"lyon-answer-{study.stands.step - 1}.fedci").read_bytes()
    again = study.answer("lyon", last, out=study.out / "again.fedci")
    assert again.out.read_bytes() == before


def test_another_request_for_a_step_that_was_answered_is_refused(study):
    """A coordinator that asks twice, or another that has its keys."""
    study.answer("lyon", study.asked)
    header, message = post_of(kit.read(study.kits["lyon"])).opened(study.asked.read_bytes(), REQUEST)
    twice = encode(replace(decode(message), previous={}))
    assert "answered to another request" in refused(study, from_coordinator(study, header, twice))


def test_a_request_of_an_earlier_run_is_refused_once_another_began(study):
    second = study.next(new_run=True)
    study.answer("lyon", second.requests["lyon"])
    header, _ = post_of(kit.read(study.kits["lyon"])).opened(second.requests["lyon"].read_bytes(), REQUEST)
    assert header.step == 1
    assert "belongs to an earlier run" in refused(study, study.asked.read_bytes())


def test_a_request_for_another_cohort_is_refused(study):
    header, message = post_of(kit.read(study.kits["lyon"])).opened(study.asked.read_bytes(), REQUEST)
    other = replace(header, cohort=letter.cohort_of(("lyon", "oslo")))
    assert "for another cohort" in refused(study, from_coordinator(study, other, message))


def test_other_data_than_those_of_the_answers_before_are_refused(study):
    changed = study.data["lyon"].assign(y=study.data["lyon"].y + 1.0, age=study.data["lyon"].age * 2.0)
    changed.to_csv(study.out / "changed.csv", index=False)
    before = study.files("lyon")
    study.answer("lyon", study.asked)
    study.go(1, study.next(answers=None))
    stands = study.next()
    assert stands.step == study.stands.step + 1
    with pytest.raises(SiteError, match=r"line \d+ of its ledger \(AskMeans\) does not come out of these data"):
        study.answer("lyon", stands.requests["lyon"], data=study.out / "changed.csv")
    assert study.files("lyon") != before


def test_a_changed_kit_and_a_kit_of_another_party_are_refused(study):
    with pytest.raises(OutputError, match="is that of the coordinator"):
        answering.answer(study.kits[COORDINATOR], "cohort.csv", study.asked)
    (study.kits["lyon"] / kit.MAIL).write_bytes((study.kits["oslo"] / kit.MAIL).read_bytes() + b" ")
    with pytest.raises(OutputError, match=r"mail.json was changed"):
        study.answer("lyon", study.asked)


def test_what_is_no_letter_is_not_replaced_nor_is_the_request(study):
    (study.out / "notes.fedci").write_text("mine")
    with pytest.raises(OutputError, match="is no letter: choose another --out"):
        study.answer("lyon", study.asked, out=study.out / "notes.fedci")
    with pytest.raises(UsageError, match=r"whose names end in \.fedci"):
        study.answer("lyon", study.asked, out=study.out / "answers.zip")
    with pytest.raises(OutputError, match="is no folder"):
        study.answer("lyon", study.asked, out=study.out / "none" / "answer.fedci")
    with pytest.raises(UsageError, match="would replace its request"):
        study.answer("lyon", study.asked, out=study.asked)
    assert (study.out / "notes.fedci").read_text() == "mine"


# --- killed, lost, gone on


def test_killed_before_the_answer_is_written_it_is_written_later_and_the_same(study, monkeypatch):
    whole = study.copied(study.out.with_name("whole"))
    expected = whole.answer("lyon", study.asked).out.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(answering, "whole_file", full)
        with pytest.raises(OutputError, match="has not left: choose another --out, and run the same command again"):
            study.answer("lyon", study.asked)
    assert study.answer("lyon", study.asked).out.read_bytes() == expected


def test_killed_in_the_linkage_a_site_goes_on_with_the_same_keys_and_then_forgets_them(walked, stage, monkeypatch):
    """The crash comes between the ledger's line and the site's own record of which rows are left."""
    study = stage("Exclude")
    assert (study.kits["lyon"] / RUN / LINKAGE_SEED).exists()
    stands = study.next()
    with monkeypatch.context() as patch:
        patch.setattr(party.SiteParty, "_after", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            study.answer("lyon", stands.requests["lyon"])
    own = kit.read(study.kits["lyon"])
    assert party.kept_rows(own, stands.run) is None
    last = walked.mailed.answers / f"lyon-answer-{stands.step}.fedci"
    assert study.answer("lyon", stands.requests["lyon"]).out.read_bytes() == last.read_bytes()
    kept = party.kept_rows(kit.read(walked.mailed.kits["lyon"]), stands.run)
    assert list(party.kept_rows(own, stands.run)) == list(kept)
    assert not (own.run / LINKAGE_SEED).exists()
    linkage = [entry["round"] for entry in ledger.read(own.folder) if entry["phase"] == "linkage"]
    assert linkage
    assert not [number for number in linkage if (own.folder / "answered" / stands.run / f"{number}.msg").exists()]


@pytest.mark.parametrize("spoilt", [lambda path: path.unlink(), lambda path: path.write_bytes(b"PK damaged")])
def test_without_the_places_of_its_fit_a_site_answers_all_of_it_again(walked, stage, spoilt):
    study = stage("AskEffects")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "LONG", 4)
        patch.setattr(answering, "LAST", 1)
        places = list((study.kits["lyon"] / RUN).glob("place-*"))
        assert len(places) > 3
        for path in places:
            spoilt(path)
        stands = study.next()
        made = study.answer("lyon", stands.requests["lyon"]).out.read_bytes()
    assert made == (walked.mailed.answers / f"lyon-answer-{stands.step}.fedci").read_bytes()


def test_a_persons_no_is_told_the_coordinator_and_may_become_a_yes(stage):
    study = stage("AskColumns")
    asked = study.next().requests["lyon"]
    heard = []
    told = study.answer("lyon", asked, ask=lambda words: bool(heard.append(words)))
    assert "did not approve the phase 'moments'" in told.refused
    assert "phase 'moments'" in heard[0]
    assert ledger.read(study.kits["lyon"])[-1]["reply"] == "Refusal"
    assert not study.answer("lyon", asked, ask=lambda words: True).refused


# --- what it says and leaves


def test_every_answer_of_the_study_comes_out_of_the_data_again(walked):
    """`fedci ledger verify --data`."""
    own = kit.read(walked.mailed.kits["lyon"], "site")
    lines = list(party.audited(own, str(walked.mailed.out / "lyon" / "cohort.csv")))
    assert {line.verdict for line in lines} == {"same", "linkage"}
    assert len(lines) == len([entry for entry in ledger.read(own.folder) if entry["request"]])


def test_the_effects_of_its_own_people_are_the_sites(walked):
    for site in SITES:
        own = kit.read(walked.mailed.kits[site])
        run = walked.mailed.found().outcome.run
        text = (own.out / f"people-{run}.csv").read_text()
        assert len(text.splitlines()) == 1 + len(party.kept_rows(own, run))


def test_a_site_says_where_it_stands_and_what_leaves(study):
    told = study.answer("lyon", study.asked)
    assert (told.site, told.step, told.phase, told.request) == ("lyon", study.stands.step, "moments", "AskMeans")
    assert "own/people (2)" in told.leaves
    assert "masked (" in told.leaves
    assert told.out == study.answers / f"lyon-answer-{study.stands.step}.fedci"


def test_a_store_that_is_lost_stops_the_site(study):
    shutil.rmtree(study.out / "lyon" / "store")
    with pytest.raises(OutputError, match="fedci site store restore"):
        study.answer("lyon", study.asked)


def test_files_are_named_by_kind_refuter_and_step():
    assert file_name("request", "0123", 3) == "request-3.fedci"
    assert file_name("answer", "0123-negative-control", 12) == "answer-negative-control-12.fedci"


def test_of_a_long_fit_only_its_ends_are_answered_again():
    def entry(number, phase="fit", request="Evaluate"):
        return {"round": number, "phase": phase, "request": request}

    short = [entry(1, "handshake", "Hello"), entry(2), entry(3)]
    assert shortened(short) == short
    fit = [entry(2, request="Begin"), *(entry(n, request="OpenSum" if n % 2 else "Evaluate") for n in range(3, 60))]
    long = [short[0], *fit, entry(60, "effects", "AskEffects")]
    assert [one["round"] for one in shortened(long)] == [1, 2, *range(52, 61)]
