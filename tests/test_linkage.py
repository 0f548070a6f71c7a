"""Linkage: one spelling of a person, keyed tokens, a keyed choice, a key the coordinator cannot read."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fedci import FedCI, Result, Source
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.linkage import link
from fedci.coordinator.talk import Talk
from fedci.errors import DataError, HandshakeError, MessageError, SiteError, SizeError, StudyError, UsageError
from fedci.privacy.agreement import Context, Credentials, read_key, token_key, unwrap, wrap
from fedci.privacy.tokens import choose, find, sorting, tokens
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import AskLinkKey, AskMoments, AskTokens, Exclude, Refusal, TakeLinkKey, WrapLinkKey
from fedci.site.site import Site
from fedci.study.identity import RULE, TEXT, normalise, records
from fedci.study.study import Linkage
from tests_support import frame, study

HERE = Path(__file__).parent
VECTORS = json.loads((HERE / "vectors" / "linkage.json").read_text())
PAGE = (HERE.parent / "docs" / "linkage.md").read_text()
KEY, SECRET = bytes(range(32)), bytes(range(32, 64))


# ── the rule ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vector", VECTORS["records"], ids=lambda v: v["shows"])
def test_published_vectors(vector):
    record = normalise(vector["fields"], vector["kinds"])
    assert record.hex() == vector["record"]
    assert hmac.digest(bytes.fromhex(VECTORS["key"]), record, hashlib.sha256).hex()[:32] == vector["token"]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda v: v["shows"])
def test_published_refusals(vector):
    with pytest.raises(ValueError, match=vector["because"]) as problem:
        normalise(vector["fields"], vector["kinds"])
    assert all(field not in str(problem.value) for field in vector["fields"] if field)


def test_the_page_shows_the_vectors():
    assert VECTORS["rule"] == RULE
    for vector in VECTORS["records"]:
        cells = (vector["shows"], f"`{_shown(vector['fields'])}`", f"`{vector['record']}`", f"`{vector['token']}`")
        assert f"| {' | '.join(cells)} |" in PAGE
    for vector in VECTORS["refused"]:
        assert f"| {vector['shows']} | `{_shown(vector['fields'])}` | {vector['because']} |" in PAGE


def _shown(fields) -> str:
    return json.dumps(fields).replace("|", "\\|")


named = st.characters(exclude_categories=("Cs", "Cn"))


@given(st.text(named, max_size=8))
def test_the_rule_applied_twice_changes_nothing(text):
    try:
        once = normalise([text], [TEXT])
    except ValueError:
        return
    assert normalise([once[4:].decode()], [TEXT]) == once


@given(st.text(st.characters(max_codepoint=127), min_size=1, max_size=8))
def test_the_short_way_for_plain_ids_is_the_rule(text):
    plain = "".join(c for c in text.lower() if c > " " and c != "\x7f")
    try:
        assert normalise([text], [TEXT]) == len(plain).to_bytes(4, "big") + plain.encode()
    except ValueError:
        assert plain == ""


@given(st.lists(st.text(named, max_size=4), min_size=1, max_size=3),
       st.lists(st.text(named, max_size=4), min_size=1, max_size=3))
def test_fields_do_not_run_into_each_other(one, two):
    try:
        a, b = (normalise(fields, [TEXT] * len(fields)) for fields in (one, two))
    except ValueError:
        return
    apart = [[normalise([field], [TEXT]) for field in fields] for fields in (one, two)]
    assert (a == b) == (apart[0] == apart[1])


@given(st.dates(), st.sampled_from(["%d.%m.%Y", "%Y-%m-%d", "%m/%d/%Y", "%d %m %Y", "%Y年%m月%d日", "%d%m%Y"]))
def test_a_date_is_the_same_in_every_form(day, form):
    parts = {"%Y": f"{day.year:04}", "%m": f"{day.month:02}", "%d": f"{day.day:02}"}
    text = form
    for name, value in parts.items():
        text = text.replace(name, value)
    assert normalise([text], [form])[4:].decode() == day.isoformat()


@pytest.mark.parametrize("columns, dates, fragments", [
    ({"pid": ["a1", None, ""]}, {}, ["'pid'", "no id", "2 rows (first: row 2)"]),
    ({"pid": ["a1", "b2", float("nan")]}, {}, ["'pid'", "1 row (first: row 3)"]),
    ({"pid": ["a1", " ", "\u200b"]}, {}, ["no id", "2 rows (first: row 2)"]),
    ({"pid": ["a1", "b2", "A 1", "B2"]}, {}, ["2 rows repeat", "rows 1 and 3", "pid"]),
    ({"born": ["1.2.1990", "31.2.1990", "x"]}, {"born": "%d.%m.%Y"}, ["'born'", "%d.%m.%Y", "2 rows (first: row 2)"]),
    ({"born": ["01/02/1990", "12/11/2001"]}, {}, ["'born'", "day and month", "dates = { born ="]),
    ({"pid": ["a1", "\U0010fffe"]}, {}, ["'pid'", "Unicode", "row 2"]),
])
def test_what_is_wrong_with_ids_is_told_by_row(columns, dates, fragments):
    with pytest.raises(DataError) as problem:
        records(columns, dates)
    assert all(fragment in str(problem.value) for fragment in fragments), str(problem.value)
    assert not any(cell in str(problem.value) for values in columns.values() for cell in values
                   if isinstance(cell, str) and len(cell.strip()) > 1)


# ── tokens and the choice ───────────────────────────────────────────────────────────────────────────────────


def test_tokens_are_the_first_128_bits_of_an_hmac(monkeypatch):
    people = [f"{i:05}".encode() for i in range(25)]
    slow = [hmac.new(KEY, person, hashlib.sha256).digest()[:16] for person in people]
    slow = [[int.from_bytes(half, "big", signed=True) for half in (token[:8], token[8:])] for token in slow]
    assert tokens(people, KEY).tolist() == slow
    monkeypatch.setattr("fedci.privacy.tokens.CHUNK", 7)
    assert tokens(people, KEY).tolist() == slow
    assert tokens([], KEY).shape == (0, 2)


def cohort(*people: int) -> np.ndarray:
    return tokens([b"%d" % person for person in people], KEY)


def random_cohorts(rng) -> dict[str, np.ndarray]:
    return {f"s{s}": cohort(*rng.permutation(60)[:rng.integers(1, 50)]) for s in range(5)}


def slow_choice(by_site, keep, secret):
    """As `choose`, person by person."""
    where: dict[tuple, list] = {}
    for site, rows in by_site.items():
        for token in map(tuple, rows.tolist()):
            where.setdefault(token, []).append(site)
    leaves = {site: set() for site in by_site}
    for token, sites in where.items():
        data = b"".join(half.to_bytes(8, "big", signed=True) for half in token)
        sites.sort(key=lambda site, data=data: [
            int.from_bytes(part, "big", signed=True) for part in
            (lambda d: (d[:8], d[8:16]))(hmac.digest(secret, data + site.encode(), "sha256"))])
        for site in sites[keep:]:
            leaves[site].add(token)
    return leaves


@pytest.mark.parametrize("keep", [1, 2, 3, 5])
def test_every_person_stays_at_exactly_keep_of_their_sites(keep):
    for seed in range(5):
        by_site = random_cohorts(np.random.default_rng(seed))
        leaving = choose(by_site, keep, SECRET)
        assert {site: set(map(tuple, rows.tolist())) for site, rows in leaving.items()} == slow_choice(
            by_site, keep, SECRET)
        before, after = (_sites_per_person(part) for part in (by_site, _without(by_site, leaving)))
        assert after == {person: min(count, keep) for person, count in before.items()}


def _sites_per_person(by_site) -> dict:
    everyone = [token for rows in by_site.values() for token in map(tuple, rows.tolist())]
    return {token: everyone.count(token) for token in everyone}


def _without(by_site, leaving) -> dict:
    return {site: np.delete(rows, find(rows, leaving[site]), axis=0) for site, rows in by_site.items()}


def test_the_order_of_sites_and_rows_changes_nothing():
    rng = np.random.default_rng(1)
    by_site = random_cohorts(rng)
    shuffled = {site: rng.permutation(by_site[site]) for site in reversed(list(by_site))}
    one, two = choose(by_site, 2, SECRET), choose(shuffled, 2, SECRET)
    assert list(one) == list(two)
    for site in one:
        np.testing.assert_array_equal(one[site][sorting(one[site])], two[site][sorting(two[site])])


def test_the_secret_decides_and_no_site_is_preferred():
    """1000 people at three sites, binomial: a share of 1/3 is missed by 0.075 (5 sd) once in 10⁶ times."""
    everywhere = dict.fromkeys(("a", "b", "c"), cohort(*range(1000)))
    left = {site: len(rows) for site, rows in choose(everywhere, 1, SECRET).items()}
    assert sum(left.values()) == 2000
    assert all(abs(1 - rows / 1000 - 1 / 3) < 0.075 for rows in left.values())
    other = choose(everywhere, 1, KEY)
    assert not np.array_equal(other["a"], choose(everywhere, 1, SECRET)["a"])


def test_nobody_repeated_and_nobody_at_all():
    nothing = choose({"a": cohort(1, 2), "b": cohort(3), "c": cohort()}, 1, SECRET)
    assert {site: len(rows) for site, rows in nothing.items()} == {"a": 0, "b": 0, "c": 0}
    assert len(choose({"a": cohort(), "b": cohort()}, 1, SECRET)["a"]) == 0


def test_a_site_that_repeats_a_token_is_named():
    with pytest.raises(SiteError, match="'b'"):
        choose({"a": cohort(1), "b": cohort(2, 3, 2)}, 1, SECRET)


def test_a_site_finds_its_own_tokens_and_refuses_others():
    own = cohort(5, 3, 9, 1)
    assert own[find(own, cohort(9, 5))[np.argsort(find(own, cohort(9, 5)))]].tolist() == cohort(5, 9).tolist()
    for wrong in (cohort(2), cohort(5, 5), np.zeros((2, 3), np.int64), np.zeros((1, 2))):
        with pytest.raises(MessageError):
            find(own, wrong)


# ── the key ─────────────────────────────────────────────────────────────────────────────────────────────────

CONTEXT = Context("run", "hash")


def public(private) -> str:
    return private.public_key().public_bytes_raw().hex()


def test_only_its_site_run_and_study_open_a_wrapped_key():
    lead, site, other = (X25519PrivateKey.generate() for _ in range(3))
    closed = wrap(KEY, lead, public(site), CONTEXT, "a", "b")
    assert unwrap(closed, site, public(lead), CONTEXT, "a", "b") == KEY
    assert KEY.hex() not in closed
    changed = f"{int(closed[0], 16) ^ 1:x}{closed[1:]}"
    for wrong in ((closed, other, public(lead), CONTEXT, "a", "b"), (closed, site, public(other), CONTEXT, "a", "b"),
                  (closed, site, public(lead), Context("other", "hash"), "a", "b"),
                  (closed, site, public(lead), Context("run", "other"), "a", "b"),
                  (closed, site, public(lead), CONTEXT, "c", "b"), (closed, site, public(lead), CONTEXT, "a", "c"),
                  (changed, site, public(lead), CONTEXT, "a", "b"), ("zz", site, public(lead), CONTEXT, "a", "b"),
                  (closed, site, "00" * 32, CONTEXT, "a", "b"), (closed, site, "00", CONTEXT, "a", "b")):
        with pytest.raises(MessageError):
            unwrap(*wrong)


def test_another_study_has_other_tokens_even_with_the_same_file():
    assert token_key(KEY, "one") == token_key(KEY, "one")
    assert token_key(KEY, "one") != token_key(KEY, "two")


def test_a_key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY.hex() + "\n")
    assert read_key(path) == KEY
    for text, problem in ((KEY.hex()[:62], "248 bits, needs 256"), ("", "0 bits"), ("secret", "hexadecimal"),
                          ("é" * 64, "hexadecimal"), ("ab" * 32, "no random key")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=problem) as told:
            read_key(path)
        assert len(text) < 6 or text not in str(told.value)
    with pytest.raises(UsageError, match="cannot be read"):
        read_key(tmp_path / "nowhere")


# ── sites and coordinator ───────────────────────────────────────────────────────────────────────────────────

PLAN = study(ids=["pid"], options={"optimiser": {"rounds": 4}, "prediction": {"draws": 16}})
OVERLAP = {"a": range(0, 40), "b": range(25, 65), "c": range(35, 75)}
"""25 … 34 stand at a and b, 35 … 39 at all, 40 … 64 at b and c."""


def frames(spell=str) -> dict[str, pd.DataFrame]:
    return {name: frame(40, s).assign(pid=[spell(i) for i in people])
            for s, (name, people) in enumerate(OVERLAP.items())}


def sites(plan=PLAN, credentials=None, data=None) -> dict[str, Site]:
    tables = {name: Source(name, rows).read(plan) for name, rows in (data or frames()).items()}
    made = {name: Site(plan, table, (credentials or {}).get(name)) for name, table in tables.items()}
    for site in made.values():
        site.options = plan.fit_options()
    return made


class Recorder:
    """An engine that remembers every message, and may change what it passes on."""

    def __init__(self, local, change=lambda message: message):
        self.engine, self.messages, self.change = InProcessEngine(local), [], change
        self.sites = self.engine.sites

    def exchange(self, requests):
        requests = {name: self.change(request) for name, request in requests.items()}
        replies = {name: self.change(reply) for name, reply in self.engine.exchange(requests).items()}
        self.messages += [*requests.values(), *replies.values()]
        return replies


def linked(local, secret=SECRET, plan=PLAN, change=lambda message: message, **more):
    engine = Recorder(local, change)
    return link(Talk(engine, "run"), plan, secret, **more), engine


def kept_people(local) -> list[int]:
    return [OVERLAP[name][row] for name, site in local.items() for row in site.kept]


@pytest.mark.parametrize("keep", [1, 2])
def test_every_person_is_kept_and_counted(keep):
    plan = study(ids=["pid"], linkage={"keep": keep})
    local = sites(plan)
    told, _ = linked(local, plan=plan)
    people = [person for cohort in OVERLAP.values() for person in cohort]
    expected = {person: min(people.count(person), keep) for person in people}
    stayed = kept_people(local)
    assert {person: stayed.count(person) for person in people} == expected
    assert told.excluded == {name: 40 - len(site.kept) for name, site in local.items()}
    for name, site in local.items():
        assert list(site.table.ids.pid) == [str(OVERLAP[name][row]) for row in site.kept]
        np.testing.assert_array_equal(site.table.y, frames()[name].y.to_numpy()[site.kept])


def test_keys_are_shared_between_sites_dropped_afterwards_and_never_seen(monkeypatch):
    made = []
    monkeypatch.setattr(secrets, "token_bytes", lambda n: made.append(bytes(range(n))) or made[-1])
    local, held = sites(), []

    def watch(message):
        if isinstance(message, Exclude):
            held.append(local[message.site].linkage.key)
        return message

    _, engine = linked(local, change=watch)
    assert held == [made[0]] * 3
    assert len(made) == 1
    assert not any(made[0].hex() in str(message) for message in engine.messages)
    for site in local.values():
        assert (site.linkage.key, site.linkage.private, site.linkage.tokens, site.linkage.records) == (None,) * 4


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
    assert [list(s.kept) for s in one.values()] == [list(s.kept) for s in two.values()]


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
    assert opened == local["a"].linkage.key


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


def test_the_lead_notices_its_own_key_changed_and_wraps_once():
    local, spy = sites(), X25519PrivateKey.generate()
    with pytest.raises(HandshakeError, match="came back changed"):
        linked(local, change=lambda m: replace(m, publics=m.publics | {"a": public(spy)})
               if isinstance(m, WrapLinkKey) else m)
    offers = {name: site.answer(AskLinkKey("run", 1, name)).notes["public"] for name, site in local.items()}
    ask = WrapLinkKey("run", 2, "a", offers, {})
    first = local["a"].answer(ask)
    assert local["a"].answer(ask) == first
    again = local["a"].answer(replace(ask, publics=offers | {"b": public(spy)}))
    assert "out of turn" in again.reason
    assert "out of turn" in local["b"].answer(replace(ask, site="b")).reason


# ── a site's own rules ──────────────────────────────────────────────────────────────────────────────────────


def refused(site, message) -> str:
    answer = site.answer(message)
    assert isinstance(answer, Refusal), answer
    return answer.reason


def test_linkage_has_its_turn():
    site = sites(credentials={"a": Credentials(key=KEY)})["a"]
    assert "out of turn" in refused(site, AskTokens("run", 1, "a", 0, 1))
    site.answer(AskLinkKey("run", 1, "a"))
    assert "out of turn" in refused(site, Exclude("run", 2, "a", cohort(), 0, 1))
    assert "no part 1 of 1" in refused(site, AskTokens("run", 2, "a", 1, 1))
    assert "no part 0 of 0" in refused(site, AskTokens("run", 2, "a", 0, 0))
    assert "out of turn" in refused(site, AskTokens("other", 2, "a", 0, 1))
    site.answer(AskTokens("run", 2, "a", 0, 1))
    assert "tokens of this site" in refused(site, Exclude("run", 3, "a", cohort(1), 0, 1))
    site.answer(Exclude("run", 4, "a", cohort(), 0, 1))
    assert "out of turn" in refused(site, AskTokens("run", 5, "a", 0, 1))


def test_rows_are_fixed_once_moments_have_left():
    """Else the difference of two answers, with and without one person, would be that person."""
    site = sites()["a"]
    site.answer(AskMoments("run", 1, "a"))
    assert "before the moments" in refused(site, AskLinkKey("run", 2, "a"))
    plain = Site(study(), Source("a", frame(40, 0)).read(study()))
    plain.options = study().fit_options()
    assert "with ids" in refused(plain, AskLinkKey("run", 1, "a"))


def test_a_site_that_repeats_a_person_stops_before_it_sends_anything():
    data = frames()
    data["b"].loc[7, "pid"] = "025"[1:]
    with pytest.raises(DataError, match=r"site 'b': 1 row repeats the id \(pid\).*rows 1 and 8"):
        linked(sites(data=data))


@pytest.mark.parametrize("word", ["NA", " null ", "", None])
def test_a_word_for_missing_is_no_id(word):
    data = frames()
    data["c"].loc[3, "pid"] = word
    with pytest.raises(DataError, match=r"site 'c': column 'pid' has no id in 1 row \(first: row 4\)"):
        linked(sites(data=data))


def test_everyone_excluded_and_too_few_left_are_said_so():
    same = {name: frame(40, s).assign(pid=[str(i) for i in range(40)]) for s, name in enumerate("ab")}
    few = study(ids=["pid"], policy={"name": "simulation", "min_rows": 30})
    with pytest.raises(SizeError, match=r"after linkage: the table has \d+ rows, the policy 'simulation' needs 30"):
        linked(sites(few, data=same), plan=few)
    site = sites()["a"]
    with pytest.raises(SizeError, match="site 'a': after linkage: everyone is excluded"):
        site.restore_linkage(np.arange(0))
    arms = study(ids=["pid"])
    site = sites(arms)["a"]
    with pytest.raises(DataError, match="after linkage: column 'w' has only treated rows"):
        site.restore_linkage(np.flatnonzero(site.table.w))


def test_a_site_left_with_one_arm_warns_where_that_is_allowed():
    plan = study(ids=["pid"], policy={"name": "simulation", "allow_single_arm": True})
    site = sites(plan)["c"]
    keep = np.flatnonzero(site.table.w == 0)
    site.restore_linkage(keep)
    assert site.table.warnings == ("site 'c': after linkage all rows are untreated; effects here rest on the other "
                                   "sites",)


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
    outcome = run_study(InProcessEngine(local), PLAN, PLAN.fit_options(), 0)
    assert sorted(kept_people(local)) == list(range(75))
    assert outcome.excluded == {name: 40 - len(site.kept) for name, site in local.items()}
    assert {name: m.rows for name, m in outcome.layout.moments.items()} == {n: len(s.kept) for n, s in local.items()}


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
    np.testing.assert_array_equal(site.table.x, result.people["a"].table.x)
    np.testing.assert_array_equal(site.kept, result.people["a"].rows)


# ── the study file ──────────────────────────────────────────────────────────────────────────────────────────


def test_linkage_in_a_study_file():
    plan = study(ids=["pid", "birth date"], linkage={"keep": 2, "dates": {"birth date": "%d.%m.%Y"}})
    assert type(plan).from_toml(plan.to_toml()) == plan
    assert "[linkage]\nkeep = 2\ndates = { \"birth date\" = \"%d.%m.%Y\" }" in plan.to_toml()
    assert "[linkage]" not in study(ids=["pid"]).to_toml()
    hashes = {study(ids=["pid", "born"], linkage=linkage).hash() for linkage in (
        {}, {"keep": 2}, {"enabled": False}, {"dates": {"born": "%d.%m.%Y"}}, {"dates": {"born": "%m.%d.%Y"}})}
    assert len(hashes) == 5


@pytest.mark.parametrize("changes, fragments", [
    ({"ids": ["pid"], "linkage": {"kep": 2}}, ["linkage", "'kep'", "'keep'"]),
    ({"ids": ["pid"], "linkage": {"keep": 0}}, ["linkage", "keep"]),
    ({"ids": ["pid"], "linkage": {"enabled": 1}}, ["linkage", "enabled"]),
    ({"ids": ["pid"], "linkage": {"dates": {"pdi": "%d.%m.%Y"}}}, ["'pdi'", "'pid'"]),
    ({"ids": ["pid"], "linkage": {"dates": {"pid": "%d.%m.%y"}}}, ["linkage", "%Y, %m and %d"]),
    ({"ids": ["pid"], "linkage": {"dates": {"pid": "%d %b %Y"}}}, ["%Y, %m and %d"]),
    ({"ids": ["pid"], "linkage": {"dates": {"pid": "%d.%m.%Y 00"}}}, ["%Y, %m and %d"]),
    ({"linkage": {"keep": 2}}, ["linkage", "no ids"]),
])
def test_a_mistake_in_linkage_is_one_study_error(changes, fragments):
    with pytest.raises(StudyError) as problem:
        study(**changes)
    assert all(fragment in str(problem.value) for fragment in fragments), str(problem.value)


def test_the_page_of_the_study_names_every_key():
    page = (HERE.parent / "docs" / "study.md").read_text()
    assert all(f"`{key}`" in page for key in Linkage.model_fields)
