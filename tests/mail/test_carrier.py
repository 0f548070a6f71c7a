"""The engine over files: which of the files in a folder become answers, and that no other changes anything."""

import os
from dataclasses import replace

import pytest

from fedci.errors import MessageError, OutputError
from fedci.mail import carrier, letter
from fedci.mail.letter import ANSWER, REQUEST
from fedci.mail.post import post_of
from fedci.network import kit
from fedci.network.provision import COORDINATOR
from fedci.protocol.codec import decode, encode
from support.mailed import Mailed, plan


@pytest.fixture
def study(stage) -> Mailed:
    """Two of three sites have answered a step under masks; what oslo would say lies outside the folder."""
    study = stage("AskMeans")
    study.stands = study.next()
    for site in ("lyon", "turin"):
        study.answer(site, study.stands.requests[site])
    study.answer("oslo", study.stands.requests["oslo"], out=study.out / "oslo.fedci")
    study.oslo = (study.out / "oslo.fedci").read_bytes()
    return study


def post(study, party):
    return post_of(kit.read(study.kits[party]))


def opened(study, data, kind=ANSWER):
    return post(study, COORDINATOR if kind == ANSWER else "oslo").opened(data, kind)


def signed(study, header, message, party="oslo") -> bytes:
    """A letter as the holder of a kit could make it."""
    own = post(study, party)
    return letter.sealed(header, message, own.keys, own.peers[COORDINATOR])


def refused(study, data: bytes) -> str:
    """Why a file is not taken for oslo's answer; nothing has changed by it, and the requests are the same."""
    before, path = study.files(COORDINATOR), study.answers / "hostile.fedci"
    path.write_bytes(data)
    stands = study.next()
    path.unlink()
    assert (stands.missing, stands.step, stands.went_on) == (("oslo",), study.stands.step, False)
    assert study.files(COORDINATOR) == before
    return stands.refused["hostile.fedci"]


def test_the_answer_itself_is_taken_under_any_name(study):
    (study.answers / "whatever.fedci").write_bytes(study.oslo)
    assert study.next().step == study.stands.step + 1


def test_cut_flipped_and_foreign_files_are_refused_in_words(study, tmp_path):
    header, reply = opened(study, study.oslo)
    for data, words in (
            (study.oslo[:-1], "not its signature"), (study.oslo[:300], "header is cut short"),
            (study.oslo[:-200] + bytes([study.oslo[-200] ^ 1]) + study.oslo[-199:], "not its signature"),
            (b"", "no letter"), (b"PK\x03\x04" + bytes(1000), "no letter"), (encode(decode(reply)), "no letter"),
            (study.stands.requests["oslo"].read_bytes(), "it is a request"),
            (signed(study, replace(header, study="f" * 64), reply), "another study"),
            (signed(study, replace(header, run="other"), reply), "of an earlier run"),
            (signed(study, replace(header, receiver="lyon"), reply), "it is for 'lyon'"),
            (signed(study, replace(header, sender="bern"), reply), "whom this kit does not know"),
            (signed(study, replace(header, step=header.step + 1), reply), "which was not asked yet"),
            (signed(study, header, reply, party="lyon"), "bears the name of 'oslo' and not its signature"),
            (signed(study, replace(header, cohort=letter.cohort_of(("lyon", "oslo"))), reply), "another step, run or"),
            (signed(study, replace(header, answers="0" * 64), reply), "answers another request"),
            (signed(study, header, b"no message"), "not a message of this version")):
        assert words in refused(study, data), words
    foreign = Mailed(tmp_path / "foreign", plan())
    assert "not its signature" in refused(study, letter.sealed(header, reply, post(foreign, "oslo").keys,
                                                               post(study, "oslo").peers[COORDINATOR]))


def test_an_answer_of_another_site_does_not_stand_for_one(study):
    """Swapped: lyon's file twice, and once under oslo's name."""
    lyon = next(path for path in study.answers.iterdir() if path.name.startswith("lyon-") and str(study.stands.step)
                in path.name)
    (study.answers / "oslo-answer.fedci").write_bytes(lyon.read_bytes())
    stands = study.next()
    assert (stands.missing, stands.refused) == (("oslo",), {})


def test_an_answer_to_an_earlier_step_does_not_stand_for_this_one(study):
    """Stale: it lies in the folder anyway, and is only counted; with the number of this step on it, it is refused."""
    old = next(path for path in study.answers.iterdir() if path.name == f"oslo-answer-{study.stands.step - 2}.fedci")
    assert study.next().old > 3
    header, reply = opened(study, old.read_bytes())
    assert "answers another request" in refused(study, signed(study, replace(header, step=study.stands.step), reply))
    asked = opened(study, study.oslo)[0]
    (study.answers / "stale.fedci").write_bytes(signed(study, asked, reply))
    before = study.files(COORDINATOR)
    with pytest.raises(MessageError, match=r"site 'oslo' did not answer round \d+ of this run"):
        study.next()
    assert study.files(COORDINATOR) == before


def test_two_different_answers_of_one_site_are_not_chosen_from(study):
    header, reply = opened(study, study.oslo)
    message = decode(reply)
    for name, sums in (("one", {}), ("two", {"masked": message.sums["masked"][:-1]})):
        (study.answers / f"{name}.fedci").write_bytes(signed(study, header, encode(replace(message, sums=sums))))
    before = study.files(COORDINATOR)
    with pytest.raises(MessageError, match="2 different answers of 'oslo'"):
        study.next()
    assert study.files(COORDINATOR) == before


def test_what_the_course_does_not_take_is_not_kept(study):
    """A site that lies is named, as on a network; it may send another answer."""
    header, reply = opened(study, study.oslo)
    message, path = decode(reply), study.answers / "lie.fedci"
    path.write_bytes(signed(study, header, encode(replace(message, sums={"masked": message.sums["masked"][:-1]}))))
    before = study.files(COORDINATOR)
    with pytest.raises(MessageError, match="site 'oslo' answered with"):
        study.next()
    assert study.files(COORDINATOR) == before
    path.write_bytes(study.oslo)
    assert study.next().step == study.stands.step + 1


def test_pipes_folders_and_other_files_in_the_folder_harm_nobody(study, tmp_path, monkeypatch):
    os.mkfifo(study.answers / "pipe.fedci")
    (study.answers / "folder.fedci").mkdir()
    (study.answers / "link.fedci").symlink_to("/dev/zero")
    (study.answers / "notes.txt").write_text("not looked at")
    with (study.answers / "huge.fedci").open("wb") as file:
        file.truncate(2**40)
    stands = study.next()
    assert set(stands.refused) == {"pipe.fedci", "folder.fedci", "link.fedci", "huge.fedci"}
    assert stands.missing == ("oslo",)
    monkeypatch.setattr(carrier, "MOST_FILES", 3)
    with pytest.raises(OutputError, match="holds more than 3 letters"):
        study.next()
    with pytest.raises(OutputError, match="cannot be read: no such file"):
        study.next(answers=tmp_path / "none")


def test_a_record_that_answers_other_requests_is_named(study):
    """A coordinator whose machine computes otherwise: it would ask again what was answered."""
    place = next((study.kits[COORDINATOR] / "run" / "mail").glob("*/1-oslo.fedci"))
    header, reply = opened(study, place.read_bytes())
    place.write_bytes(signed(study, replace(header, answers="0" * 64), reply))
    with pytest.raises(OutputError, match="comes out otherwise than when 'oslo' answered it"):
        study.next()


def test_a_request_is_for_one_site_and_names_its_step(study):
    header = letter.header_of(study.stands.requests["oslo"].read_bytes())
    assert (header.kind, header.receiver, header.step) == (REQUEST, "oslo", study.stands.step)
    assert study.stands.requests["oslo"].name == f"request-{study.stands.step}.fedci"
