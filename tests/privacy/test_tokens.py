"""Keyed tokens, and the keyed choice of who stays where."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest

from fedci.errors import MessageError, SiteError
from fedci.privacy.tokens import choose, find, sorting, tokens
from support.linked import KEY, SECRET, cohort


# ── tokens and the choice ───────────────────────────────────────────────────────────────────────────────────
def test_tokens_are_the_first_128_bits_of_an_hmac(monkeypatch):
    people = [f"{i:05}".encode() for i in range(25)]
    slow = [hmac.new(KEY, person, hashlib.sha256).digest()[:16] for person in people]
    slow = [[int.from_bytes(half, "big", signed=True) for half in (token[:8], token[8:])] for token in slow]
    assert tokens(people, KEY).tolist() == slow
    monkeypatch.setattr("fedci.privacy.tokens.CHUNK", 7)
    assert tokens(people, KEY).tolist() == slow
    assert tokens([], KEY).shape == (0, 2)


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
