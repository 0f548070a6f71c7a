"""Noise on sums: what is left of a person, how much of it there is, and what the model makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.shared import dictionary, evidence, home, sum_noise
from fedci.model.shared.dictionary import Point, Stage
from fedci.study.options import preset, with_noise

D = 4


def model(noise=0.5, masked=True, sites=3, columns=D):
    options = with_noise(preset("few", {"model": {"exact_rows": 10_000}}), noise, masked).model
    return model_of(options, columns, columns, sites)


def point(family):
    return Point(family.ravel(family.ridge))


def people(count=60, seed=0, heavy=True):
    """Of each arm; one at the corner of all clips, and one column with heavy tails."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((2 * count, D)), np.tile([0.0, 1.0], count)
    if heavy:
        x[:, 1] = rng.standard_t(2, 2 * count)
    y = 0.8 * x[:, 0] + w + 0.5 * rng.standard_normal(2 * count)
    x[0], y[0], x[1], y[1] = 3.0, 4.0, -3.0, -4.0
    return np.clip(x, -3, 3), w, np.clip(y, -4, 4)


def products(family, x, w, y):
    rows = family.rows(np.asarray(x), w, np.asarray(y), np.zeros(1), 0)
    return rows, dictionary.of(family, Stage.FIRST)


def scaled(family, x, w, y):
    """σ̂²·c·G·c, [D + 1, D + 1], as a function of x and y."""
    rows, by = products(family, np.zeros((len(w), D)), w, np.zeros(len(w)))
    at, c = point(family), np.append(sum_noise.scale_of(family, point(family)), 1.0)

    def of(x, y):
        moved = rows._replace(x=rows.x.at[:len(w)].set(x), y=rows.y.at[:len(w)].set(y))
        total = evidence.of_draw(by, jnp.asarray(at.packed), moved, family.options.jitter, ())
        half = dictionary.products(evidence.Statistics(*(part[None] for part in total)))
        both = jnp.block([[half.gram, half.cross[:, None]], [half.cross[None], half.square[None, None]]])
        return both * jnp.outer(c, c) * dictionary.noise_level(family.unravel(jnp.asarray(at.vector)))

    return of, jnp.asarray(x), jnp.asarray(y)


@pytest.mark.parametrize("noise", [0.25, 0.5])
def test_nobody_is_told_of_more_than_the_share_of_products(noise):
    """By autodiff of the package's own sums, of everybody, tails and corners included: ‖∂G‖²/(2τ²) ≤ share/s². At the
    smallest site that is let take part."""
    family = model(noise)
    of, x, y = scaled(family, *people(family.arm_needed))
    by_x, by_y = jax.jacrev(of, (0, 1))(x, y)
    told = np.concatenate([np.sum(np.asarray(by_x) ** 2, (0, 1)).ravel(), np.sum(np.asarray(by_y) ** 2, (0, 1))])
    information = told / (2.0 * sum_noise.noise_of(family) ** 2)
    most = sum_noise.SHARES["products"] / noise**2
    assert information.max() <= most
    assert information.max() >= 0.3 * most  # no more noise than is owed to the one at the corner, by much
    assert np.median(information) < 0.2 * most


def test_all_shares_are_one():
    assert sum(sum_noise.SHARES.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("masked", "sites", "part"), [(True, 3, 0.5**0.5), (True, 2, 1.0), (True, 5, 0.5),
                                                       ("auto", 2, 1.0), ("auto", 3, 0.5**0.5), (False, 5, 1.0)])
def test_without_one_site_the_noise_is_what_is_owed(masked, sites, part):
    family = model(masked=masked, sites=sites)
    assert sum_noise.part_of_site(family) == pytest.approx(part)
    assert sum_noise.in_total(family) == pytest.approx(sum_noise.noise_of(family) * part * sites**0.5)


def test_the_noise_of_a_site_has_the_variance_that_is_promised():
    family = model()
    width = dictionary.of(family, Stage.FIRST).columns
    zeros = {"gram": np.zeros(width * (width + 1) // 2), "cross": np.zeros(width), "square": np.zeros(())}
    rng, c = np.random.default_rng(1), sum_noise.scale_of(family, point(family))
    unit = float(dictionary.noise_level(family.unravel(jnp.asarray(point(family).vector))))
    drawn = [sum_noise.on_products(family, point(family), zeros, rng.standard_normal) for _ in range(400)]
    tau = sum_noise.noise_of(family) * sum_noise.part_of_site(family)
    rows, columns = np.triu_indices(width)
    sds = np.std([one["gram"] for one in drawn], 0) * c[rows] * c[columns] * unit / tau
    np.testing.assert_allclose(sds, np.where(rows == columns, 2**0.5, 1.0), rtol=0.2)
    np.testing.assert_allclose(np.std([one["cross"] for one in drawn], 0) * c * unit / tau, 1.0, rtol=0.2)
    assert np.std([one["square"] for one in drawn]) * unit / tau == pytest.approx(2**0.5, rel=0.2)


def test_without_noise_the_products_stay_what_they_are():
    family, (x, w, y) = model(1e-9), people(heavy=False)
    rows, by = products(family, x, w, y)
    total = dictionary.products(evidence.statistics(by, point(family).packed[None], rows, family.options.jitter))
    found = sum_noise.known(family, total, point(family), float(len(y)))
    for one, other in zip(found, total, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * float(np.abs(other).max()))


def test_what_the_noise_drowns_stays_at_the_prior():
    """So few people, and so much noise, that no direction stands out of it: β̃ ~ N(0, I)."""
    family, (x, w, y) = model(4.0), people(10)
    rows, by = products(family, x, w, y)
    total = dictionary.products(evidence.statistics(by, point(family).packed[None], rows, family.options.jitter))
    found = sum_noise.known(family, total, point(family), float(len(y)))
    lines = dictionary.of(family, Stage.FIRST).layout.coefficients["lines"]
    kept, there = (np.abs(np.asarray(part.gram)[lines, lines]).max() for part in (found, total))
    assert kept < 0.05 * there


def test_with_noise_intervals_are_wider_and_hold():
    """Of 60 draws of the noise on the same sums: the slopes' errors have the sd that the law says. Their mean square is
    over 60 times as many slopes, and known to a tenth at least: 1.5 is five of these."""
    family = model(1.0, masked=False, sites=1)
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((6000, D)), np.tile([0.0, 1.0], 3000)
    y = 0.8 * x[:, 0] - 0.3 * x[:, 1] + 0.5 * w + 0.5 * rng.standard_normal(6000)
    rows = family.rows(np.clip(x, -3, 3), w, np.clip(y, -4, 4), np.zeros(1), 0)
    by, at = dictionary.of(family, Stage.FIRST), point(family)
    plain = {name: np.asarray(part)[0] for name, part in
             evidence.statistics(by, at.packed[None], rows, family.options.jitter)._asdict().items()}
    span = dictionary.span(family, at)

    def law(sums):
        total = dictionary.products(evidence.Statistics(*(jnp.asarray(sums[name])[None]
                                                          for name in evidence.Statistics._fields)))
        known = sum_noise.known(family, total, at, 6000.0)
        found = home.laws_at(family, jnp.asarray(at.vector)[None], known, span, at, 6000.0)
        spread = np.linalg.inv(np.asarray(found.root[0]))
        return np.asarray(found.mean[0]), np.diag(spread.T @ spread)

    mean, variance = law(plain)
    lines = family.layout.coefficients["lines"]
    found = [law(sum_noise.on_products(family, at, plain, rng.standard_normal)) for _ in range(60)]
    errors = np.array([one for one, _ in found])[:, lines] - mean[lines]
    claimed = np.mean([some for _, some in found], 0)[lines]
    assert (claimed > variance[lines]).all()
    assert np.mean(errors**2) < 1.5 * np.mean(claimed)


def test_more_columns_more_noise_and_stricter_policies_need_more_people():
    assert model(columns=12).people_needed > model().people_needed
    assert model(1.0).people_needed == pytest.approx(4 * model(0.5).people_needed, rel=1e-3)
    assert model_of(preset("few").model, D, D, 3).people_needed == 0


@pytest.mark.parametrize("size, kept", [(0.0, (0.0, 0.5)), (0.5, (0.0, 0.6)), (50.0, (0.999, 1.0))])
def test_products_of_one_arms_lines_with_the_others_are_shrunk_to_what_they_are_beyond_noise(size, kept):
    """With noise of sd τ on them. Of noise alone at most a half is kept (99 times of 100), of values of half of τ
    little (their squares are 1.25 τ² on average, with an sd of 0.4 over 16), of 50 τ all. What an arm has by itself
    stays."""
    family, tau, rng = model(), 2.0, np.random.default_rng(5)
    width = 2 * D + 2
    gram = rng.standard_normal((width, width))
    gram = 10.0 * (gram + gram.T)
    lines = dictionary.of(family, Stage.FIRST).layout.coefficients["lines"]
    first, second = np.split(np.arange(lines.start, lines.stop), 2)
    across = size * tau * rng.choice([-1.0, 1.0], (D, D)) + tau * rng.standard_normal((D, D))
    gram[np.ix_(first, second)], gram[np.ix_(second, first)] = across, across.T
    found = sum_noise._apart(family, gram, tau)
    there = np.zeros_like(gram, bool)
    there[np.ix_(first, second)] = there[np.ix_(second, first)] = True
    np.testing.assert_array_equal(found[~there], gram[~there])
    np.testing.assert_array_equal(found, found.T)
    ratio = found[np.ix_(first, second)] / across
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-12)
    assert kept[0] <= ratio[0, 0] <= kept[1]
