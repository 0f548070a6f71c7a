"""Linkage between a coordinator and sites: everybody stays once, and the coordinator cannot read the key."""

from __future__ import annotations

import secrets
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci import FedCI, Result, Source
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.linkage import link
from fedci.coordinator.talk import Talk
from fedci.errors import HandshakeError, MessageError, StudyError
from fedci.privacy.agreement import Context, Credentials, unwrap
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import AskLinkKey, Exclude, TakeLinkKey, WrapLinkKey
from support.linked import KEY, OVERLAP, PLAN, SECRET, frames, linked, public, sites
from tests_support import study


def kept_people(local) -> list[int]:
    return [OVERLAP[name][row] for name, site in local.items() for row in site.run.rows]


@pytest.mark.parametrize("keep", [1, 2])
def test_every_person_is_kept_and_counted(keep):
    plan = study(ids=["pid"], linkage={"keep": keep})
    local = sites(plan)
    told, _ = linked(local, plan=plan)
    people = [person for cohort in OVERLAP.values() for person in cohort]
    expected = {person: min(people.count(person), keep) for person in people}
    stayed = kept_people(local)
    assert {person: stayed.count(person) for person in people} == expected
    assert told.excluded == {name: 40 - len(site.run.rows) for name, site in local.items()}
    for name, site in local.items():
        assert list(site.run.table.ids.pid) == [str(OVERLAP[name][row]) for row in site.run.rows]
        np.testing.assert_array_equal(site.run.table.y, frames()[name].y.to_numpy()[site.run.rows])


def test_keys_are_shared_between_sites_dropped_afterwards_and_never_seen(monkeypatch):
    made = []
    monkeypatch.setattr(secrets, "token_bytes", lambda n: made.append(bytes(range(n))) or made[-1])
    local, held = sites(), []

    def watch(message):
        if isinstance(message, Exclude):
            held.append(local[message.site].run.linkage.key)
        return message

    _, engine = linked(local, change=watch)
    assert held == [made[0]] * 3
    assert len(made) == 1
    assert not any(made[0].hex() in str(message) for message in engine.messages)
    for site in local.values():
        linkage = site.run.linkage
        assert (linkage.key, linkage.private, linkage.tokens, linkage.records) == (None,) * 4


def test_new_keys_make_new_tokens():
    sent = []
    for _ in range(2):
        _, engine = linked(sites())
        sent.append([m.tokens.tolist() for m in engine.messages if type(m).__name__ == "Tokens"])
    assert not {tuple(t) for part in sent[0] for t in part} & {tuple(t) for part in sent[1] for t in part}


def test_tokens_are_sent_in_their_own_order():
    _, engine = linked(sites())
    for message in engine.messages:
        if type(message).__name__ == "Tokens":
            assert all(a < b for a, b in pairwise(map(tuple, message.tokens.tolist())))


@pytest.mark.parametrize("part", [1, 7, 39, 40, 1000])
def test_the_size_of_the_parts_does_not_matter(part):
    credentials = dict.fromkeys(OVERLAP, Credentials(key=KEY))
    one, two = sites(credentials=credentials), sites(credentials=credentials)
    assert linked(one)[0] == linked(two, part=part)[0]
    assert [list(s.run.rows) for s in one.values()] == [list(s.run.rows) for s in two.values()]


def test_spellings_of_an_id_are_one_person():
    data = frames()
    data["b"] = frames(lambda i: f" {i}\u200b")["b"]
    data["c"] = frames(lambda i: "".join(chr(0xFF10 + int(d)) for d in str(i)))["c"]  # full-width digits
    local = sites(data=data)
    linked(local)
    assert sorted(kept_people(local)) == list(range(75))


def test_a_key_file_needs_no_exchange_and_must_be_the_same_everywhere():
    given = dict.fromkeys(OVERLAP, Credentials(key=KEY))
    _, engine = linked(sites(credentials=given))
    assert not [m for m in engine.messages if isinstance(m, WrapLinkKey | TakeLinkKey)]
    with pytest.raises(HandshakeError, match="key files of a, b, c differ"):
        linked(sites(credentials=given | {"b": Credentials(key=SECRET)}))
    with pytest.raises(HandshakeError, match="a, c brought a key file, b did not"):
        linked(sites(credentials=given | {"b": None}))


# ── a coordinator in the middle ─────────────────────────────────────────────────────────────────────────────
def with_identities(names=OVERLAP) -> dict[str, Credentials]:
    private = {name: Ed25519PrivateKey.generate() for name in names}
    known = {name: key.public_key() for name, key in private.items()}
    return {name: Credentials(identity=private[name], peers=known) for name in names}


def test_identities_change_nothing_for_an_honest_coordinator():
    local = sites(credentials=with_identities())
    linked(local)
    assert sorted(kept_people(local)) == list(range(75))


def swap_member(message, spy):
    if isinstance(message, WrapLinkKey):
        return replace(message, publics=message.publics | {"b": public(spy)})
    return message


def swap_lead(message, spy):
    """The spy wraps a key of its own in the lead's name."""
    if isinstance(message, TakeLinkKey):
        return replace(message, public=public(spy))
    return message


@pytest.mark.parametrize("swap, named", [(swap_member, "site 'b'"), (swap_lead, "site 'a'")])
def test_a_swapped_public_key_is_refused_with_identities(swap, named):
    spy = X25519PrivateKey.generate()
    with pytest.raises(HandshakeError, match=f"name of {named} is not signed"):
        linked(sites(credentials=with_identities()), change=lambda m: swap(m, spy))


def test_without_identities_a_swapped_key_opens_the_studys():
    """Why identities exist: the control of the test above."""
    spy, seen = X25519PrivateKey.generate(), {}

    def watch(message):
        message = swap_member(message, spy)
        if isinstance(message, WrapLinkKey):
            seen["lead"] = message.publics["a"]
        seen["wrapped"] = getattr(message, "notes", {}).get("wrapped", seen.get("wrapped"))
        return message

    local = sites()
    with pytest.raises(MessageError, match="site 'b' cannot open"):
        linked(local, change=watch)
    opened = unwrap(seen["wrapped"]["b"], spy, seen["lead"], Context("run", PLAN.hash()), "a", "b")
    assert opened == local["a"].run.linkage.key


def test_a_signature_of_another_run_or_site_is_refused():
    credentials = with_identities()
    earlier = sites(credentials=credentials)
    old = earlier["b"].answer(AskLinkKey("earlier", 1, "b")).notes

    def replay(message):
        if isinstance(message, WrapLinkKey):
            return replace(message, publics=message.publics | {"b": old["public"]},
                           signatures=message.signatures | {"b": old["signature"]})
        return message

    def exchange_names(message):
        if isinstance(message, WrapLinkKey):
            return replace(message, publics=message.publics | {"b": message.publics["c"]},
                           signatures=message.signatures | {"b": message.signatures["c"]})
        return message

    for change in (replay, exchange_names):
        with pytest.raises(HandshakeError, match="site 'b'"):
            linked(sites(credentials=credentials), change=change)


def test_a_stranger_gets_no_key():
    stranger = X25519PrivateKey.generate()

    def invite(message):
        if isinstance(message, WrapLinkKey):
            return replace(message, publics=message.publics | {"spy": public(stranger)})
        return message

    with pytest.raises(HandshakeError, match="'spy' has no identity"):
        linked(sites(credentials=with_identities()), change=invite)
    plan = study(ids=["pid"], sites=list(OVERLAP))
    with pytest.raises(StudyError, match="'spy' is not in the study"):
        linked(sites(plan), plan=plan, change=invite)


# ── the whole study ─────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def result():
    return FedCI(PLAN, seed=3).fit([Source(name, rows) for name, rows in frames().items()])


def test_the_study_is_the_study_on_deduplicated_tables(result):
    """Bit for bit: nothing but the rows that take part differs."""
    kept = {name: rows.iloc[result.people[name].rows] for name, rows in frames().items()}
    assert sum(map(len, kept.values())) == 75
    plain = study(options=PLAN.options)
    other = FedCI(plain, seed=3).fit([Source(name, rows.drop(columns="pid")) for name, rows in kept.items()])
    assert result.outcome.fit.theta.tobytes() == other.outcome.fit.theta.tobytes()
    assert result.outcome.fit.objective == other.outcome.fit.objective
    for site in result.sites:
        assert result.ate(site).mean == other.ate(site).mean
        assert result.ite(site).to_numpy().tobytes() == other.ite(site).to_numpy().tobytes()


def test_the_same_seed_links_the_same_and_another_does_not(result):
    again = FedCI(PLAN, seed=3).fit([Source(name, rows) for name, rows in reversed(frames().items())])
    assert [list(again.people[s].rows) for s in OVERLAP] == [list(result.people[s].rows) for s in OVERLAP]
    assert again.outcome.fit.theta.tobytes() == result.outcome.fit.theta.tobytes()
    other = FedCI(PLAN, seed=4).fit([Source(name, rows) for name, rows in frames().items()])
    assert [list(other.people[s].rows) for s in OVERLAP] != [list(result.people[s].rows) for s in OVERLAP]


def test_sites_that_agree_on_a_key_run_the_same_protocol():
    local = sites()
    outcome = run_study(InProcessEngine(local), PLAN)
    assert sorted(kept_people(local)) == list(range(75))
    assert outcome.excluded == {name: 40 - len(site.run.rows) for name, site in local.items()}
    assert {name: site.rows for name, site in outcome.layout.people.items()} == {
        name: len(site.run.rows) for name, site in local.items()}


def test_rows_keep_their_numbers_and_counts_are_told(result, tmp_path):
    result.save(tmp_path / "out")
    back = Result.load(tmp_path / "out")
    assert back.outcome.excluded == result.outcome.excluded
    assert back.summary() == result.summary()
    left = ", ".join(f"{n} at {site}" for site, n in result.outcome.excluded.items() if n)
    assert f"Linkage keeps a person at 1 site; left out: {left}." in result.summary()
    for site in result.sites:
        kept = list(result.people[site].rows)
        people = pd.read_csv(tmp_path / "out" / "sites" / site / "people.csv")
        assert list(people.row) == list(result.ite(site).index) == list(back.ite(site).index) == kept
    halved = [site for site, n in result.outcome.excluded.items() if n > 20]
    for site in result.sites:
        assert any(f"site '{site}': linkage left out" in text for text in result.warnings()) == (site in halved)


def test_more_than_half_left_out_is_a_warning(result):
    changed = replace(result.outcome, excluded={"a": 10_000, "b": 0, "c": 0})
    noted = replace(result, outcome=changed).warnings()
    assert any("site 'a': linkage left out 10000 of" in text for text in noted)


def test_no_linkage_without_need():
    for plan, local in ((study(), ["a", "b"]), (study(ids=["pid"], linkage={"enabled": False}), ["a", "b"]),
                        (study(ids=["pid"]), ["a"])):
        engine = InProcessEngine({name: sites(plan)[name] for name in local})
        assert link(Talk(engine, "run"), plan, SECRET).excluded == {}
        assert engine.traffic == {}


def test_a_restarted_site_takes_its_rows_again(result):
    site = sites()["a"]
    site.restore_linkage(result.people["a"].rows)
    np.testing.assert_array_equal(site.run.table.x, result.people["a"].table.x)
    np.testing.assert_array_equal(site.run.rows, result.people["a"].rows)
