"""Keyed tokens, and the keyed choice of who stays where."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest

from fedci.errors import MessageError, SiteError
from fedci.privacy.tokens import are_elsewhere, choose, find, sorting, tokens, witnesses
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


def left_out(by_site, keep, secret) -> dict[str, np.ndarray]:
    """Site → the tokens it leaves out."""
    return {site: by_site[site][mine] for site, (mine, _) in choose(by_site, keep, secret).items()}


@pytest.mark.parametrize("keep", [1, 2, 3, 5])
def test_every_person_stays_at_exactly_keep_of_their_sites(keep):
    for seed in range(5):
        by_site = random_cohorts(np.random.default_rng(seed))
        leaving = left_out(by_site, keep, SECRET)
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
    one, two = left_out(by_site, 2, SECRET), left_out(shuffled, 2, SECRET)
    assert list(one) == list(two)
    for site in one:
        np.testing.assert_array_equal(one[site][sorting(one[site])], two[site][sorting(two[site])])


def test_the_secret_decides_and_no_site_is_preferred():
    """1000 people at three sites, binomial: a share of 1/3 is missed by 0.075 (5 sd) once in 10⁶ times."""
    everywhere = dict.fromkeys(("a", "b", "c"), cohort(*range(1000)))
    left = {site: len(rows) for site, rows in left_out(everywhere, 1, SECRET).items()}
    assert sum(left.values()) == 2000
    assert all(abs(1 - rows / 1000 - 1 / 3) < 0.075 for rows in left.values())
    assert not np.array_equal(*(left_out(everywhere, 1, secret)["a"] for secret in (KEY, SECRET)))


def test_nobody_repeated_and_nobody_at_all():
    nothing = left_out({"a": cohort(1, 2), "b": cohort(3), "c": cohort()}, 1, SECRET)
    assert {site: len(rows) for site, rows in nothing.items()} == {"a": 0, "b": 0, "c": 0}
    assert len(left_out({"a": cohort(), "b": cohort()}, 1, SECRET)["a"]) == 0


@pytest.mark.parametrize("keep", [1, 2])
def test_who_is_left_out_has_the_witnesses_of_where_they_stay_and_no_others(keep):
    """What a site accepts: as many other sites' proofs as the person stays at, each of the very token."""
    by_site = random_cohorts(np.random.default_rng(3))
    proofs = {site: witnesses(rows, KEY, site.encode()) for site, rows in by_site.items()}
    everywhere = np.concatenate([proofs[site] for site in sorted(by_site)])
    for site, (mine, elsewhere) in choose(by_site, keep, SECRET).items():
        rows, own, given = by_site[site][mine], proofs[site][mine], everywhere[elsewhere].reshape(len(mine), -1)
        assert are_elsewhere(rows, given, own, keep, KEY)
        assert not are_elsewhere(rows, given, own, keep, SECRET)
        assert not are_elsewhere(rows, np.hstack([own] * keep), own, keep, KEY)
        assert not are_elsewhere(rows, np.roll(given, 1, 0), own, keep, KEY)
        assert not are_elsewhere(rows, given + (np.arange(3 * keep) == 1), own, keep, KEY)
        if keep > 1:
            assert not are_elsewhere(rows, np.hstack([given[:, :3]] * keep), own, keep, KEY)


def test_a_site_that_repeats_a_token_is_named():
    with pytest.raises(SiteError, match="'b'"):
        choose({"a": cohort(1), "b": cohort(2, 3, 2)}, 1, SECRET)


def test_a_site_finds_its_own_tokens_and_refuses_others():
    own = cohort(5, 3, 9, 1)
    assert own[find(own, cohort(9, 5))[np.argsort(find(own, cohort(9, 5)))]].tolist() == cohort(5, 9).tolist()
    for wrong in (cohort(2), cohort(5, 5), np.zeros((2, 3), np.int64), np.zeros((1, 2))):
        with pytest.raises(MessageError):
            find(own, wrong)
