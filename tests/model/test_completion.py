"""What is missing given what is seen: against the dense Gaussian, and what of it hangs on nobody's place."""

import numpy as np
import pytest

from fedci.errors import NumericalError
from fedci.model import completion
from fedci.model.completion import Completion, Gaps, Law, Sums, keys_of, normals_of

D, K = 4, 6
LACKING = np.array([1, 3])


def gaps(binary=(), sites=3) -> Gaps:
    low, high = np.full(D, np.nan), np.full(D, np.nan)
    low[list(binary)], high[list(binary)] = -0.8, 1.2
    return Gaps(lacking=LACKING, low=low, high=high, group=np.arange(D), told=1, sites=sites)


def law(known: Gaps, seed=0) -> Law:
    rng = np.random.default_rng(seed)
    p, k = len(known.lacking), known.told
    slopes = np.zeros((K, D, p))
    slopes[:, known.others] = rng.normal(0.0, 0.5, (K, len(known.others), p))
    root = np.eye(p) + 0.3 * rng.standard_normal((K, p, p))
    outcome = np.zeros((K, 2, k, known.size))
    outcome[..., :D] = rng.normal(0.0, 0.5, (K, 2, k, D))
    return Law(slopes, rng.standard_normal((K, 2, p)), root @ np.swapaxes(root, 1, 2), outcome,
               rng.standard_normal((K, 2, k)), rng.uniform(0.3, 1.0, (K, 2, k)), rng.uniform(0.05, 0.2, (K, p + k)))


def people(rows=30, seed=1, share=0.3):
    rng = np.random.default_rng(seed)
    v, w = rng.standard_normal((rows, D + 1)), np.arange(rows) % 2
    v[:, LACKING] = np.where(rng.uniform(size=(rows, 2)) < share, np.nan, v[:, LACKING])
    return v, w


def test_keys_follow_people_and_not_their_places():
    v, _ = people()
    order = np.random.default_rng(0).permutation(len(v))
    np.testing.assert_array_equal(keys_of(v[order]), keys_of(v)[order])
    alike = keys_of(np.repeat(v[:1], 3, 0))
    assert len(set(alike)) == 3
    assert keys_of(np.array([[0.0], [-0.0]]))[0] == keys_of(np.array([[0.0]]))[0]


def test_normals_come_in_opposite_pairs_and_anew_in_each_step():
    keys = keys_of(people(2000)[0])
    z = normals_of(keys, 1, 2, K, 2)
    np.testing.assert_array_equal(z[:, ::2], -z[:, 1::2])
    assert not np.array_equal(z, normals_of(keys, 1, 3, K, 2))
    assert not np.array_equal(z, normals_of(keys, 2, 2, K, 2))
    drawn = z[:, ::2].ravel()  # 12,000 normals: four standard errors
    assert abs(drawn.mean()) < 4 / np.sqrt(drawn.size)
    assert abs(drawn.var() - 1.0) < 4 * np.sqrt(2 / drawn.size)


def test_laws_are_the_same_from_the_row_that_packs_them():
    known = gaps()
    one = law(known)
    for part, again in zip(one, known.unpacked(known.packed(one)), strict=True):
        np.testing.assert_array_equal(part, again)


def dense(known: Gaps, one: Law, k: int, arm: int, levels: np.ndarray, v: np.ndarray):
    """Mean and covariance of what is missing in one row, from the joint Gaussian of L and o given C."""
    p, others, own = len(known.lacking), known.others, np.append(known.lacking, D)
    b, beta = one.slopes[k][others], one.outcome[k, arm, 0]
    lines = np.vstack([np.eye(p), beta[known.lacking]])  # (x_L, o) = lines · x_L + what C gives o
    cov = lines @ one.spread[k] @ lines.T
    cov[-1, -1] += one.outcome_spread[k, arm, 0]
    r = v - levels
    mean = lines @ (one.start[k, arm] + r[others] @ b)
    mean[-1] += one.outcome_start[k, arm, 0] + beta[others] @ r[others]
    gone = np.isnan(v[own])
    weights = cov[np.ix_(gone, ~gone)] @ np.linalg.inv(cov[np.ix_(~gone, ~gone)])
    found = mean[gone] + weights @ (r[own][~gone] - mean[~gone]) + levels[own][gone]
    return found, cov[np.ix_(gone, gone)] - weights @ cov[np.ix_(~gone, gone)]


def test_pairs_of_draws_have_the_dense_conditional_mean_and_spread():
    """The mean of two opposite draws is the law's; their half difference a root of its covariance times the normals."""
    known, (v, w) = gaps(), people()
    one = Law(*(np.repeat(part[::2], 2, 0) for part in law(known)))
    levels = np.repeat(0.3 * np.random.default_rng(3).standard_normal((K // 2, D + 1)), 2, 0)
    levels[:, known.others] = 0.0
    many = Completion(known, one, 0.5, 7)
    x = many.people(v, w, keys_of(v), levels)
    for i in np.flatnonzero(np.isnan(v).any(1)):
        lacks = known.lacking[np.isnan(v[i, known.lacking])]
        for k in range(0, K, 2):
            mean, cov = dense(known, one, k, w[i], levels[k], v[i])
            np.testing.assert_allclose(0.5 * (x[k, i] + x[k + 1, i])[lacks], mean, atol=1e-10)
            z = normals_of(keys_of(v), 7, completion.LAST, K, 2)[i, k][np.isin(known.lacking, lacks)]
            away = np.linalg.solve(np.linalg.cholesky(np.linalg.inv(cov)).T, z)
            np.testing.assert_allclose(0.5 * (x[k, i] - x[k + 1, i])[lacks], away, atol=1e-8)
    whole = ~np.isnan(v).any(1)
    np.testing.assert_array_equal(x[:, whole], np.repeat(v[None, whole, :D], K, 0))


def test_a_column_of_zero_and_one_is_drawn_as_one_of_its_values():
    known, (v, w) = gaps(binary=(1,)), people(400)
    x = Completion(known, law(known), 0.5, 7).people(v, w, keys_of(v), np.zeros((K, D + 1)))
    drawn = x[:, np.isnan(v[:, 1]), 1]
    assert set(np.unique(drawn)) == {-0.8, 1.2}
    of_others = Completion(known, law(known), 0.5, 7).others(v[:, :D], keys_of(v), np.zeros((K, D + 1)))
    assert set(np.unique(of_others[:, np.isnan(v[:, 1]), 1])) == {-0.8, 1.2}
    assert np.isfinite(of_others).all()


def test_a_zero_or_one_has_the_probability_that_its_outcome_leaves():
    """x is 1 of 0.3, o ~ N(1.5 x, 1): the shares drawn are Bayes' within four standard errors, at each o."""
    known = Gaps(lacking=np.array([0]), low=np.array([0.0]), high=np.array([1.0]), group=np.array([0]), told=1, sites=1)
    one = Law(np.zeros((K, 1, 1)), np.full((K, 2, 1), 0.3), np.full((K, 1, 1), 0.21),
              np.tile([1.5, 0.0], (K, 2, 1, 1)), np.zeros((K, 2, 1)), np.ones((K, 2, 1)), np.zeros((K, 2)))
    rows = 4000
    for o in (-1.0, 0.75, 2.0):
        v = np.column_stack([np.full(rows, np.nan), np.full(rows, o)])
        x = Completion(known, one, 0.5, 7).people(v, np.zeros(rows, int), keys_of(v), np.zeros((K, 2)))
        odds = 0.3 / 0.7 * np.exp(-0.5 * (o - 1.5) ** 2 + 0.5 * o**2)
        share = odds / (1.0 + odds)
        assert abs(x[::2].mean() - share) < 4 * np.sqrt(share * (1 - share) / (rows * K / 2))


def test_sums_of_two_sites_are_those_of_all_people_where_levels_are_none():
    known, (v, w) = gaps(), people(60)
    many, keys, none = Completion(known, law(known), 0.5, 7), keys_of(v), np.zeros((K, D + 1))
    x = many.people(v, w, keys, none)
    whole = completion.sums_of(known, x, v, w, none)
    parts = [completion.sums_of(known, x[:, at], v[at], w[at], none) for at in (slice(0, 25), slice(25, 60))]
    for total, one, other in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(total, one + other, atol=1e-10)


def test_one_site_has_no_level_of_its_own():
    known, (v, w) = gaps(sites=1), people()
    assert not Completion(known, law(known), 0.5, 7).levels_of("a", v, w).any()


def test_sums_that_are_nobodys_are_told_in_words():
    known = gaps()
    wrong = Sums(np.zeros((1, 2, D + 1)), np.full((1, 2, (D + 1) * (D + 2) // 2), -1.0), np.zeros((1, D + 1)))
    with pytest.raises(NumericalError, match="what is missing could not be drawn"):
        completion.drawn_laws(known, completion.first_law(known), wrong, np.array([9.0, 9.0]), 2, 0, 0)


def ascend(tables, known, seed=0, most=None):
    """The laws after all steps, over the sites."""
    keys = [keys_of(np.column_stack([v, w])) for v, w in tables]
    count = np.array([sum((w == arm).sum() for _, w in tables) for arm in (0, 1)], float)
    now, first = completion.first_law(known), completion.steps(0.4)
    for step in range(first + completion.MIXING):
        many, total = Completion(known, now, 0.5, seed), None
        for number, (v, w) in enumerate(tables):
            levels = many.levels_of(f"s{number}", v, w, step)
            own = completion.sums_of(known, many.people(v, w, keys[number], levels, step), v, w, levels)
            total = own if total is None else Sums(*(a + b for a, b in zip(total, own, strict=True)))
        now = completion.drawn_laws(known, now, total, count, 1 if step < first - 1 else 32, seed, step)
    return now


def test_the_law_is_found_where_values_are_missing_by_what_is_seen():
    """Slopes of a column that is missing more often where another is large, three sites of 400: within four sds of
    what they are, and the mean of what is drawn without the bias of the mean."""
    rng, tables, truth = np.random.default_rng(5), [], []
    for _ in range(3):
        c, w = rng.standard_normal((400, 2)), rng.integers(0, 2, 400)
        own = 0.8 * c[:, 0] - 0.5 * c[:, 1] + 0.4 * w + 0.5 * rng.standard_normal(400)
        last = 0.3 * c[:, 0] + rng.standard_normal(400)
        o = 0.7 * own + c[:, 1] + 0.5 * w + 0.5 * rng.standard_normal(400)
        truth.append(own.copy())
        own[rng.uniform(size=400) < 1 / (1 + np.exp(-2.0 * c[:, 0]))] = np.nan
        last[rng.uniform(size=400) < 0.2] = np.nan
        tables.append((np.column_stack([c[:, 0], own, c[:, 1], last, o]), w))
    known = gaps(sites=3)
    found = ascend(tables, known)
    for at, value in ((0, 0.8), (2, -0.5)):
        slopes = found.slopes[:, at, 0]
        assert abs(slopes.mean() - value) < 4 * max(slopes.std(), 0.02)
    many, everyone = Completion(known, found, 0.5, 0), []
    for number, (v, w) in enumerate(tables):
        everyone.append(many.people(v, w, keys_of(v), many.levels_of(f"s{number}", v, w))[:, :, 1].mean(1))
    drawn, seen = np.mean(everyone), np.mean([np.nanmean(v[:, 1]) for v, _ in tables])
    assert abs(drawn - np.mean(truth)) < 0.05 < abs(seen - np.mean(truth))  # 1,200 people, sd 1: four errors are 0.1
