"""Mixtures of Gaussians, one per draw, as effects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedci.effect import (
    CORRELATIONS,
    POPULATIONS,
    Effect,
    EffectSums,
    Risks,
    average,
    draw_averages,
    effect_sums,
    person_weights,
    population_sizes,
)
from fedci.errors import UsageError
from fedci.protocol.requests import REQUESTS

RNG = np.random.default_rng(0)
SCALAR = Effect(RNG.normal(2.0, 1.5, 30), RNG.gamma(2.0, 0.5, 30))
PEOPLE = Effect(RNG.normal(0.0, 1.0, (30, 4)), RNG.gamma(2.0, 0.5, (30, 4)))
LEVELS = (0.001, 0.025, 0.3, 0.5, 0.9, 0.999)


def mixture_cdf(effect: Effect, q):
    return stats.norm.cdf(q, effect.means, np.sqrt(effect.variances)).mean(0)


@pytest.mark.parametrize("effect", [SCALAR, PEOPLE], ids=["one number", "one per person"])
def test_mean_and_sd_follow_the_law_of_total_variance(effect):
    """Second moment of the mixture minus the square of its mean: another route to the same variance."""
    second = (effect.variances + effect.means**2).mean(0)
    np.testing.assert_allclose(effect.mean, effect.means.mean(0), rtol=1e-15)
    np.testing.assert_allclose(effect.sd, np.sqrt(second - effect.means.mean(0) ** 2), rtol=1e-12)


@pytest.mark.parametrize("effect", [SCALAR, PEOPLE], ids=["one number", "one per person"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_quantile_has_its_level_below_it(effect, level):
    # To 1e-10 of the spread, and a density below 1 there.
    np.testing.assert_allclose(mixture_cdf(effect, effect.quantile(level)), level, atol=1e-9)


def test_sums_that_are_not_independent_have_sds_that_add():
    """Two averages over the same draws may move together: twice the same one has twice its sd."""
    one = Effect(np.array([1.0]), np.array([4.0]))
    assert average([one, one], 1, dependent=True).sd == pytest.approx(4.0, rel=1e-15)
    assert average([one, one], 1).sd == pytest.approx(np.sqrt(8.0), rel=1e-15)


@pytest.mark.parametrize("sd", [0.0, 1e-12])
def test_ends_of_skewed_draws_are_their_own_and_not_the_least_draw(sd):
    """A Gaussian's quantile, from which it is looked for, lies below every one of 400 ratios: each end is between the
    two draws that have the level between them, to 1e-10 of the spread."""
    draws = np.sort(np.exp(1.5 * np.random.default_rng(2).standard_normal(400)))
    near = 1e-10 * np.ptp(draws)
    ratio = Effect(draws, np.full(400, sd**2))
    for level in (0.025, 0.1, 0.9, 0.975):
        below = round(400 * level)
        assert draws[below - 1] - near <= ratio.quantile(level) <= draws[below] + near
    both = Effect(np.column_stack([draws, draws]), np.broadcast_to([0.0, 1.0], (400, 2)))
    assert draws[9] - near <= both.quantile(0.025)[0] <= draws[10] + near


def test_one_component_is_scipys_normal():
    one = Effect(np.array([1.3]), np.array([0.49]))
    normal = stats.norm(1.3, 0.7)
    assert (one.mean, one.sd) == (1.3, pytest.approx(0.7, rel=1e-15))
    np.testing.assert_allclose([one.quantile(level) for level in LEVELS], normal.ppf(LEVELS), rtol=1e-10)
    np.testing.assert_allclose(one.interval(0.1), normal.interval(0.9), rtol=1e-10)


def test_mean_sd_and_quantiles_of_a_big_sample():
    """1e5 draws; mean, variance and three quantiles each within 4 standard errors (5 checks: 3 in 1e4 seeds)."""
    n = 10**5
    draws = SCALAR.sample(n, seed=1)
    assert abs(draws.mean() - SCALAR.mean) < 4 * SCALAR.sd / np.sqrt(n)
    squares = (draws - SCALAR.mean) ** 2
    assert abs(squares.mean() - SCALAR.sd**2) < 4 * squares.std() / np.sqrt(n)
    for level in (0.025, 0.5, 0.975):
        below = (draws < SCALAR.quantile(level)).mean()
        assert abs(below - level) < 4 * np.sqrt(level * (1 - level) / n)


def test_samples_are_reproducible_and_shaped_like_the_effect():
    assert PEOPLE.sample(7, seed=3).shape == (7, 4)
    np.testing.assert_array_equal(PEOPLE.sample(7, seed=3), PEOPLE.sample(7, seed=3))
    assert (PEOPLE.sample(7, seed=3) != PEOPLE.sample(7, seed=4)).all()


def test_an_interval_is_central():
    low, high = SCALAR.interval(0.2)
    assert (low, high) == (SCALAR.quantile(0.1), SCALAR.quantile(0.9))
    assert isinstance(low, float)
    low, high = PEOPLE.interval()
    assert low.shape == high.shape == (4,)
    assert (low < PEOPLE.mean).all()
    assert (high > PEOPLE.mean).all()


def test_a_certain_effect_has_a_point_as_interval():
    certain = Effect(np.full(5, 2.5), np.zeros(5))
    assert (certain.mean, certain.sd, certain.interval()) == (2.5, 0.0, (2.5, 2.5))


def test_quantiles_of_certain_draws_are_those_of_the_means():
    """No variance within a draw: the mixture is the draws themselves."""
    spread = Effect(np.arange(101.0), np.zeros(101))
    # The distribution function jumps from 5/101 to 6/101 at 5; bisection stops within 1e-10 of the jump.
    np.testing.assert_allclose(spread.quantile(5.5 / 101), 5.0, atol=1e-9)


@pytest.mark.parametrize("factor", [2.5, -3.0])
def test_scaling_an_effect_scales_everything(factor):
    scaled = SCALAR.scaled(factor)
    np.testing.assert_allclose(scaled.mean, factor * SCALAR.mean, rtol=1e-14)
    np.testing.assert_allclose(scaled.sd, abs(factor) * SCALAR.sd, rtol=1e-14)
    ends = sorted(factor * np.array(SCALAR.interval(0.1)))
    np.testing.assert_allclose(scaled.interval(0.1), ends, rtol=1e-9)


def test_an_average_adds_means_and_variances_within_each_draw():
    """Sites are independent given a draw, so the average over n people has Σ means / n and Σ variances / n²."""
    sums = [Effect(RNG.normal(size=20), RNG.gamma(1.0, 1.0, 20)) for _ in range(3)]
    whole = average(iter(sums), people=12)
    np.testing.assert_allclose(whole.means, (sums[0].means + sums[1].means + sums[2].means) / 12, rtol=1e-14)
    np.testing.assert_allclose(whole.variances, sum(s.variances for s in sums) / 144, rtol=1e-14)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 5, float("nan")])
def test_alpha_must_be_an_error_rate(alpha):
    with pytest.raises(UsageError, match="alpha"):
        SCALAR.interval(alpha)


@pytest.mark.parametrize("spread", [1e-300, 1e-12, 1.0])
def test_a_quantile_of_draws_far_apart_lies_between_them(spread):
    """Newton's steps are of no use between narrow draws: the bracket's middle must find the one with the level."""
    effect = Effect(np.array([-3.0, 0.0, 1.0, 8.0]), np.full(4, spread))
    assert abs(effect.quantile(0.6) - 1.0) < 2.0
    assert effect.quantile(0.1) <= effect.quantile(0.4) <= effect.quantile(0.9)


# --- averages from sums


def sums_of(w: np.ndarray, draws: int = 7) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The named sums of a site's people who are independent given a draw; each one's means and variances [L, C, n]."""
    means = RNG.normal(size=(draws, len(CORRELATIONS), len(w)))
    variances = RNG.gamma(1.0, 1.0, size=means.shape)
    weights = person_weights(w, np.ones(len(w)))
    named = effect_sums(Effect(means[:, 0] @ weights.T, variances[:, 0] @ weights.T),
                        Effect(means @ weights.T, variances @ weights.T), np.sqrt(variances).sum(2).mean(0),
                        population_sizes((int((1 - w).sum()), int(w.sum()))))
    return named, means, variances


def test_sums_have_the_shapes_they_are_checked_by():
    named, *_ = sums_of(np.array([0, 1, 1]))
    sizes = {"draws": 7, "correlations": len(CORRELATIONS), "populations": len(POPULATIONS)}
    for name in ("AskEffects", "AskSharedEffects"):
        assert {name: part.shape for name, part in named.items()} == REQUESTS[name].shapes(sizes)


def test_what_is_told_of_effects_has_the_mean_and_the_variance_of_all_draws():
    """Of expected effects exactly; of realised ones the spread over draws is that of every fourth."""
    w = np.array([0, 1, 1])
    named, means, variances = sums_of(w, draws=64)
    both, weights = EffectSums((named,)), person_weights(w, np.ones(3))
    whole = Effect(means[:, 0] @ weights[0] / 3, variances[:, 0] @ weights[0] / 9)
    assert (both.expected().mean, both.expected().sd) == pytest.approx((whole.mean, whole.sd), rel=1e-12)
    some = Effect(means[::4, 1] @ weights[0] / 3, variances[:, 1] @ weights[0] / 9)
    assert both.realised(0.0).sd == pytest.approx(some.sd, rel=1e-12)


@pytest.mark.parametrize(("name", "chosen"), [("all", (0, 1)), ("treated", (1,)), ("control", (0,))])
def test_the_average_over_a_population_is_that_of_its_people(name, chosen):
    """Of two sites together, from the sites' sums and from the people; 1e-12: the order of additions."""
    arms = [np.array([0, 1, 1, 0, 1]), np.array([1, 0, 0])]
    sites = [sums_of(w) for w in arms]
    both, who = EffectSums(tuple(site[0] for site in sites)), np.isin(np.concatenate(arms), chosen)
    means, variances = (np.concatenate([site[k] for site in sites], axis=2)[..., who] for k in (1, 2))
    assert both.people(name) == who.sum()
    for c, correlation in enumerate(CORRELATIONS):
        effect = both.realised(correlation, name)
        np.testing.assert_allclose(effect.mean, means[:, c].mean(), rtol=1e-12)
        np.testing.assert_allclose(effect.variances, variances[:, c].sum(1).mean() / who.sum() ** 2, rtol=1e-12)
    np.testing.assert_allclose(both.expected(name).means, means[:, 0].mean(1), rtol=1e-12)


def test_a_noise_correlation_is_one_of_those_that_were_summed():
    named, *_ = sums_of(np.array([0, 1]))
    sums = EffectSums((named,))
    np.testing.assert_array_equal(sums.realised(None).means, sums.realised(np.nan).means)
    assert sums.person_sd(0.5) == named["ite_sd"][2] / 2
    with pytest.raises(UsageError, match="gathered at noise correlations 0, 0.5, 0.9; got 0.3"):
        sums.realised(0.3)


def test_rows_of_padding_weigh_nothing():
    np.testing.assert_array_equal(person_weights(np.array([1, 0, 0]), np.array([1.0, 1.0, 0.0])),
                                  [[1, 1, 0], [1, 0, 0], [0, 1, 0]])


# ── risks ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_made_of_two_risks_is_made_draw_by_draw():
    risks = Risks(np.array([0.2, 0.4]), np.array([0.1, 0.3]))
    np.testing.assert_allclose(risks.difference.means, [-0.1, -0.1])
    np.testing.assert_allclose(risks.ratio.means, [0.5, 0.75])
    np.testing.assert_allclose(risks.odds_ratio.means, [(0.1 * 0.8) / (0.9 * 0.2), (0.3 * 0.6) / (0.7 * 0.4)])
    assert risks.of_untreated.mean == pytest.approx(0.3)
    assert risks.difference.sd == pytest.approx(0.0, abs=1e-15)


def test_a_number_needed_to_treat_is_told_where_there_is_a_difference():
    rng = np.random.default_rng(0)
    untreated = np.full(2000, 0.5)
    clear, unclear = (Risks(untreated, untreated - shift + 0.02 * rng.standard_normal(2000)) for shift in (0.1, 0.01))
    needed, low, high = clear.number_needed()
    ends = clear.difference.interval()
    assert (needed, low, high) == (1 / -clear.difference.mean, 1 / -ends[0], 1 / -ends[1])
    assert low < needed < high
    assert unclear.number_needed() is None


def test_risks_add_over_sites_and_stay_risks():
    rng = np.random.default_rng(1)
    people = np.array([[30, 10, 20], [20, 5, 15]])
    parts = tuple({"risks": rng.uniform(0.2, 0.6, (7, 2, 1)) * people[s], "people": people[s]} for s in (0, 1))
    both = EffectSums(parts)
    assert both.of_risks
    expected = (parts[0]["risks"][:, 1, 0] + parts[1]["risks"][:, 1, 0]) / 50
    np.testing.assert_allclose(both.risks().treated, expected)
    np.testing.assert_allclose(both.expected("treated").means, both.risks("treated").difference.means)


def test_the_averages_of_a_site_give_its_risks_again():
    """Means and covariances over the draws: the same to a hundredth of an sd where risks are away from 0 and 1."""
    rng = np.random.default_rng(2)
    normals = rng.standard_normal((4000, 2))
    drawn = np.stack([0.4 + 0.02 * normals[:, 0], 0.5 + 0.02 * (0.6 * normals[:, 0] + 0.8 * normals[:, 1])], 1)
    people = np.array([100, 40, 60])
    mean, cov = draw_averages(drawn[..., None] * people)
    assert (mean.shape, cov.shape) == ((1, 2, 3), (1, 2, 2, 3))
    told = EffectSums(({"risks": mean, "risks_cov": cov, "people": people},)).risks()
    assert told.difference.mean == pytest.approx(drawn[:, 1].mean() - drawn[:, 0].mean(), abs=2e-4)
    assert told.difference.sd == pytest.approx((drawn[:, 1] - drawn[:, 0]).std(), rel=0.01)
    rare = EffectSums(({"risks": 1e-3 * mean, "risks_cov": cov, "people": people},)).risks()
    assert ((rare.untreated >= 0) & (rare.treated <= 1)).all()
