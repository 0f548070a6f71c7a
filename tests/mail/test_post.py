"""A party's post: whom it writes to, and which letters are its own."""

import json
from dataclasses import replace

import pytest

from fedci.errors import HandshakeError, MessageError, OutputError
from fedci.mail.letter import ANSWER, REQUEST, header_of
from fedci.mail.post import Post, digest, post_of
from fedci.network import kit
from fedci.network.provision import COORDINATOR, new_by_files
from support.mailed import SITES, plan


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    return new_by_files(plan(), (), tmp_path_factory.mktemp("post") / "kits")


@pytest.fixture
def posts(kits) -> dict[str, Post]:
    return {party: post_of(kit.read(folder)) for party, folder in kits.items()}


def asked(posts, site="lyon") -> bytes:
    return posts[COORDINATOR].request(b"request", site, "0123", 3, SITES)


def test_a_request_and_its_answer_come_through(posts):
    header, message = posts["lyon"].opened(asked(posts), REQUEST)
    assert (header.step, header.run, message) == (3, "0123", b"request")
    back, reply = posts[COORDINATOR].opened(posts["lyon"].answer(header, message, b"reply"), ANSWER)
    assert reply == b"reply"
    assert (back.sender, back.receiver, back.answers) == ("lyon", COORDINATOR, digest(b"request"))
    assert (back.study, back.run, back.step, back.cohort) == (header.study, header.run, header.step, header.cohort)


def test_letters_that_belong_elsewhere_are_named_in_words(posts):
    request = asked(posts)
    with pytest.raises(HandshakeError, match=r"it is for 'lyon', and this is the kit of 'oslo'\. Send it on unopened"):
        posts["oslo"].opened(request, REQUEST)
    with pytest.raises(HandshakeError, match="it is a request, and this command reads an answer"):
        posts["lyon"].opened(request, ANSWER)
    other = replace(posts["lyon"], own=replace(posts["lyon"].own, study_hash="f" * 64))
    with pytest.raises(HandshakeError, match="it belongs to another study"):
        other.opened(request, REQUEST)
    with pytest.raises(HandshakeError, match="from 'coordinator', whom this kit does not know"):
        replace(posts["lyon"], peers={}).check(header_of(request), REQUEST)


def test_a_letter_of_other_kits_of_the_same_study_is_refused(posts, tmp_path):
    """The study, the names and the hash are the same, the keys are not."""
    others = new_by_files(plan(), (), tmp_path / "kits")
    foreign = {party: post_of(kit.read(folder)) for party, folder in others.items()}
    with pytest.raises(MessageError, match="not its signature"):
        posts["lyon"].opened(asked(foreign), REQUEST)


def test_private_keys_stand_in_one_kit_each_and_a_site_knows_the_coordinator_alone(kits, posts):
    keys = [path.read_text() for folder in kits.values() for path in folder.glob("*.key")]
    assert len(keys) == len(set(keys)) == 2 * 4
    known = {party: set(post.peers) for party, post in posts.items()}
    assert known == {COORDINATOR: set(SITES)} | {site: {COORDINATOR} for site in SITES}
    for folder in kits.values():
        assert all(not path.stat().st_mode & 0o077 for path in [folder, *folder.rglob("*")])


@pytest.mark.parametrize("name", [kit.IDENTITY, kit.MAILBOX, kit.MAIL])
def test_a_damaged_kit_is_named(kits, tmp_path, name):
    import shutil

    shutil.copytree(kits["lyon"], tmp_path / "lyon")
    (tmp_path / "lyon" / name).write_text("[" * 50)
    with pytest.raises(OutputError, match="its keys cannot be read. Ask for a new one"):
        post_of(kit.read(tmp_path / "lyon"))
    (tmp_path / "lyon" / name).write_text(json.dumps({}))
    with pytest.raises(OutputError, match="is damaged"):
        post_of(kit.read(tmp_path / "lyon"))
