"""A fit from sums with noise: seeded, known to the model, the same under masks, and refused where it would drown."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from fedci import FedCI
from fedci.benchmark.cost.noise_cost import NONE, people, plan
from fedci.errors import DisclosureError, StudyError, UsageError
from fedci.model.families import model_of
from fedci.model.shared import noised_family
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.noised_family import BEND, WITHIN, NoisedFamily
from fedci.model.shared.shared import noise_sd
from fedci.site.noising import SumNoise, digest_of, sum_noise_of
from fedci.site.summing import _check_units
from fedci.study.options import preset, with_noise
from fedci.study.study import Study
from fedci.synthetic import datasets
from fedci.synthetic.datasets import Sizes
from fedci.table.source import Source

COVARIATES = [f"x{k}" for k in range(5)]


def sites(count, data="straight", number=3):
    rng = np.random.default_rng(3)
    drawn = [people(data, count, rng) for _ in range(number)]
    return [Source(f"s{k}", rows) for k, (rows, _) in enumerate(drawn)], np.concatenate([effect for _, effect in drawn])


def standard(**changes):
    return Study(**{"treatment": "w", "outcome": "y", "covariates": COVARIATES, "preset": "few", **changes})


@pytest.fixture(scope="module")
def under_standard():
    return FedCI(standard()).fit(sites(3000)[0])


def test_a_study_under_standard_finds_the_average_effect(under_standard):
    """And tells neither diagnostics nor a site's own, nor realised effects."""
    truth, found = sites(3000)[1].mean(), under_standard.ate()
    low, high = found.interval()
    assert low <= truth <= high
    assert found.sd < 0.02
    assert under_standard.diagnostics is None
    with pytest.raises(UsageError, match="realised effects are not told where effects have noise"):
        under_standard.ate(of="ite")
    with pytest.raises(UsageError, match="stay at the site"):
        under_standard.ate(site="s0")
    assert "Realised effects are not told" in str(under_standard.summary())
    assert "as wide as such bends may be" in " ".join(under_standard.warnings())


def test_slopes_of_the_effect_are_found(under_standard):
    new, effect = people("straight", 500, np.random.default_rng(4))
    found = under_standard.effect_posterior(new[COVARIATES])
    low, high = found.interval()
    assert np.mean((low <= effect) & (effect <= high)) > 0.9
    assert np.sqrt(np.mean((found.mean - effect) ** 2)) < 0.1 < effect.std()


def test_people_whose_effects_bend_are_in_their_intervals():
    """DATA-1 is far from any line: intervals of the straight effect alone hold a fifth of these people. With bends as
    the prior of `default` has them it would be 0.95 of its own draws; this bends more: 0.85 at the least."""
    splits = datasets.synthetic("DATA-1", 0, sizes=Sizes(5, train=400, test=100, validation=1))
    study = standard(covariates=splits[0].train.names,
                     policy={"name": "custom", "sum_noise": NONE, "outcome_noise": 0.0})
    result = FedCI(study).fit([Source(f"s{k}", split.train.frame()) for k, split in enumerate(splits)])
    found = [(split.test.cate, result.effect_posterior(split.test.frame(), f"s{k}")) for k, split in enumerate(splits)]
    inside = [(low <= truth) & (truth <= high) for truth, effect in found for low, high in [effect.interval()]]
    assert np.mean(inside) > 0.85
    assert result.ate().sd < 0.2 * np.median(np.concatenate([effect.sd for _, effect in found]))


def test_what_is_added_for_bends(under_standard):
    """BEND σ² max(q, ½) at every person, of each draw of θ; nothing where all was asked."""
    model = under_standard.outcome.layout.model
    rng = np.random.default_rng(1)
    thetas, x = rng.standard_normal((3, model.size)), 0.8 * rng.standard_normal((40, model.covariates))
    draws, q = SharedDraws(jnp.asarray(thetas), jnp.zeros((3, 1, model.columns))), np.mean(x**2, 1)
    assert q.min() < WITHIN < q.max()
    left = [np.mean(np.asarray(noise_sd(model.unravel(theta))) ** 2) for theta in thetas]
    wanted = np.multiply.outer(left, BEND * np.maximum(q, WITHIN))[:, None]
    np.testing.assert_allclose(model.unasked(draws, jnp.asarray(x)), wanted, rtol=1e-12)
    whole = model_of(preset("default").model, model.covariates, model.covariates, 3)
    assert whole.unasked(draws, jnp.asarray(x)) == 0.0


def test_the_average_is_known_as_well_as_noise_on_outcomes_lets_it():
    """Its sd grows by √(1 + δ² Var y/σ²), also where σ² is far from the prior's; with sums all but exact. To what the
    prior of the sites' own levels makes of it: some per cent."""
    rng = np.random.default_rng(0)
    those = [Source(one.name, one.data.assign(y=one.data.y + 3.0 * rng.standard_normal(len(one.data))))
             for one in sites(3000)[0]]
    outcomes = np.concatenate([one.data.y for one in those])
    policies = [{"name": "custom", "sum_noise": NONE, "outcome_noise": delta} for delta in (0.0, 0.5)]
    quiet, loud = (FedCI(standard(policy=policy)).fit(those).ate() for policy in policies)
    assert loud.sd / quiet.sd == pytest.approx(np.sqrt(1.0 + 0.25 * outcomes.var() / 9.25), rel=0.03)


def test_a_small_study_is_refused_with_what_would_do():
    with pytest.raises(DisclosureError, match=r"of use from [\d,]+ people on.*Would be accepted: [\d,]+ people here"):
        FedCI(standard()).fit(sites(200)[0])


def test_default_is_refused_and_few_is_offered():
    with pytest.raises(DisclosureError, match=r"the preset 'few'"):
        FedCI(standard(preset="default")).fit(sites(3000)[0])


def test_a_site_far_from_the_others_is_refused():
    """The noise is measured for sites whose means are near."""
    those, _ = sites(3000)
    moved = those[0].data.assign(x0=those[0].data.x0 + 6.0)
    with pytest.raises(DisclosureError, match="whose means, in each arm, are within 1 sd of all"):
        FedCI(standard()).fit([Source("s0", moved), *those[1:]])


def test_a_site_that_spreads_wider_than_the_common_units_is_refused():
    """So a site that tells false squares cannot shrink the units, and with them the noise."""
    those, _ = sites(3000)
    narrow = [Source(one.name, one.data.assign(x0=one.data.x0 / 4)) for one in those[1:]]
    with pytest.raises(DisclosureError, match=r"spreads more than 1.5 times as wide"):
        FedCI(standard()).fit([those[0], *narrow])


def test_of_a_column_with_far_tails_units_are_no_smaller_than_its_own_squares_make_them():
    """Clipped it spreads little however small the units are; its own squares say that they are too small."""
    rng = np.random.default_rng(0)
    whole = np.column_stack([rng.standard_t(2, 1000), rng.standard_normal(1000)])
    whole /= np.clip(whole, *(4 * whole.std(0) * [[-1], [1]])).std(0)  # as squares are cut: the units of such sites
    for shrunk, refused in ((1.0, False), (1.7, False), (2.0, True)):
        clipped = np.clip(whole * [shrunk, 1.0], -3, 3)
        assert clipped.std(0).max() < 1.5  # so this alone would let it be
        try:
            _check_units("a", whole * [shrunk, 1.0], clipped, 3000)
        except DisclosureError:
            assert refused
        else:
            assert not refused


def test_masked_is_clear_but_for_the_noise():
    """With so little noise that one sees the rest: the same average effects, rounding apart."""
    from fedci.benchmark.cost.noise_cost import unrefused

    those, _ = sites(200)
    policies = [plan(NONE).policy.model_copy(update={"secure_sum": secure}) for secure in ("auto", False)]
    with unrefused():
        found = [FedCI(standard(policy=policy)).fit(those).ate() for policy in policies]
    assert found[0].mean == pytest.approx(found[1].mean, abs=2e-3)
    assert found[0].sd == pytest.approx(found[1].sd, rel=2e-2)


def test_asked_again_the_noise_is_the_same_and_another_site_s_is_not():
    study, table = standard(), sites(100)[0][0].read(standard())
    one = SumNoise(study=study, secret=b"a" * 32, people=digest_of(table), part=1.0)
    same = sum_noise_of(study, True, (), table, b"a" * 32)
    np.testing.assert_array_equal(one.drawn("products", "x")(8), same.drawn("products", "x")(8))
    for other in (replace(one, secret=b"b" * 32), replace(one, people="others"), replace(one, study=standard(seed=1))):
        assert not np.array_equal(one.drawn("products", "x")(8), other.drawn("products", "x")(8))
    assert not np.array_equal(one.drawn("products", "x")(8), one.drawn("products", "y")(8))
    assert sum_noise_of(study, False, (), table, b"a" * 32) is None
    three, four = (sum_noise_of(study, True, sites, table, b"a" * 32) for sites in ("abc", "abcd"))
    assert three.part != four.part
    assert not np.array_equal(three.drawn("products")(8), four.drawn("products")(8))  # two parts of one would cancel


def test_means_and_squares_tell_their_share():
    """Noise on Σx of s/√share sds of the column; Σx² is cut where its slope would be more than the noise is for."""
    from fedci.model.shared.sum_noise import SHARES

    study = standard()
    noise = [SumNoise(study=study, secret=bytes([k]) * 32, people="people", part=1.0) for k in range(256)]
    sd = np.array([2.0, 0.5])
    drawn = np.array([one.means(np.zeros(2), sd) for one in noise])
    np.testing.assert_allclose(drawn.std(0), 0.5 / np.sqrt(SHARES["means"]) * sd, rtol=0.15)
    far = np.array([[100.0, 0.1], [0.0, np.nan]])
    squares = np.array([one.squares(far, np.zeros(2), sd) for one in noise])
    np.testing.assert_allclose(squares.std(0), 0.5 / np.sqrt(SHARES["squares"]) * 8 * sd**2, rtol=0.15)
    np.testing.assert_allclose(squares.mean(0), [64.0, 0.01], atol=4 * (squares.std(0) / 16).max())
    moved = noise[0].squares(far, np.array([0.0, 1e-9]), sd)
    assert abs(moved[0] - squares[0, 0]) > 1e-3  # about another centre, other noise: it does not cancel


def test_effects_of_a_site_are_those_of_its_rows_where_there_is_no_noise():
    """By the exact covariance of all rows: own levels learnt from the sums of each arm are learnt from the rows."""
    family = model_of(with_noise(preset("few"), 1e-9, False).model, 3, 3, 1)
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((80, 3)), (np.arange(80) % 3 == 0).astype(float)
    y = x[:, 0] + w + 0.5 * rng.standard_normal(80)
    thetas = np.asarray(family.prior[0])[None] + 0.1 * rng.standard_normal((2, family.size))
    betas = rng.standard_normal((2, 16, family.columns))
    arrays = {"thetas": thetas, "betas": betas}
    found = family.noised_effects(arrays, x, w, y, np.zeros)
    rows = family.rows(x, w, y, np.zeros(1), 0, 0.01)
    vector, draws = family.received(arrays, 0)
    exact = rows.effects(family, vector, draws, np.array([0.0]), family.options.jitter).cate
    np.testing.assert_allclose(found["cate_mean"], np.asarray(exact.mean), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found["cate_var"][0], np.asarray(exact.var).mean(0), rtol=1e-6)


def test_its_options_are_derived_from_the_policy_alone():
    options = standard().fit_options()
    assert (options.model.sum_noise, options.optimiser.rounds, options.model.directions) == (0.5, 1, 0)
    assert standard(policy="simulation").fit_options() == preset("few")
    assert standard(preset="default").fit_options() == preset("default")
    with pytest.raises(StudyError, match="is the policy's to say"):
        standard(policy="simulation", options={"model": {"sum_noise": 1.0}})
    assert isinstance(model_of(options.model, 5, 5, 3), NoisedFamily)
    for wide in (0.01, "none"):  # 0 and 1 a hundred units apart would be told apart through any noise
        assert standard(options={"model": {"binary_sd": wide}}).fit_options().model.binary_sd == 0.5
    assert noised_family.STEPS > 0


def test_the_hash_binds_the_noise_where_there_is_some_and_only_there():
    stricter = {"sum_noise": 0.6}
    assert standard(policy=stricter).hash() != standard().hash()
    assert standard(policy=stricter, preset="default").hash() == standard(preset="default").hash()


def test_a_refuter_is_refused():
    from fedci.protocol.refuting import check_wanted

    with pytest.raises(DisclosureError, match="none is run"):
        check_wanted(standard(diagnostics={"refute": ["placebo"]}), "s0", "placebo")
