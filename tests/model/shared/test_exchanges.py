"""The model `shared` as a study: federated, reproducible, saved, refused where it would reveal rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci import FedCI, Result, Source, Study
from fedci.errors import DisclosureError, NumericalError
from fedci.model import covariance, kernels, predict
from fedci.model.rows import BetaLaw
from fedci.model.shared import evidence, exchanges
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.shared import noise_sd, own_root
from fedci.protocol.messages import Refusal, Step
from fedci.site.site import Site
from support.answered import over
from support.asked import came_to
from tests_support import COVARIATES, SMALL, fit, fit_sites, frame, hospitals, study


@pytest.fixture(scope="module")
def fitted():
    return fit_sites(hospitals(40, 37), options=SMALL, preset="default")


@pytest.fixture(scope="module")
def result(fitted):
    return fitted[0]


@pytest.fixture(scope="module")
def sites(fitted):
    return fitted[1]


@pytest.fixture(scope="module")
def rows(sites):
    return [sites[name].run.prepared.rows for name in sorted(sites)]


def test_the_objective_rises_and_the_effect_is_near(result):
    """frame() has effects of about 1 + sin(age/15) + sex/2; twelve rounds find their mean."""
    objectives = [r.objective for r in result.outcome.fit.rounds]
    assert objectives[-1] > objectives[0] + 10
    truth = np.mean([np.mean(1 + np.sin(f["age"] / 15) + 0.5 * f["sex"]) for f in (frame(40, 0), frame(37, 1))])
    assert abs(result.ate().mean - truth) < 4 * result.ate().sd


def test_the_gradient_is_the_derivative_of_the_objective(result, rows):
    """Central differences along three random lines in all that is learnt, relative 1e-5: the objective is smooth with
    common draws."""
    model, rng = result.outcome.layout.model, np.random.default_rng(0)
    normals = evidence.common_normals(0, 0, 4, model.size)
    q = came_to(exchanges.start(model, 77), over(model, rows))

    def at(vector):
        return came_to(exchanges.evaluate(model, vector, 77, normals), over(model, rows))

    _, gradient, _ = at(q)
    for _ in range(3):
        line = rng.standard_normal(q.size) * ~np.tile(model.held, 2)
        slope = (at(q + 1e-5 * line)[0] - at(q - 1e-5 * line)[0]) / 2e-5
        assert slope == pytest.approx(gradient @ line, rel=1e-5)


def test_one_site_with_all_rows_has_the_same_sums_without_the_sites_own_function(result, rows):
    """With Φ → 0 nothing is a site's own, and the sums of two sites are those of all rows together."""
    model = result.outcome.layout.model
    theta = model.unravel(jnp.asarray(model.prior[0]))
    vector = model.ravel(theta | {"phi": jnp.array([-30.0, -30.0, 0.0])})[None]
    apart = [evidence.statistics(model, vector, part, 1e-12) for part in rows]
    together = rows[0]._replace(**{name: jnp.concatenate([getattr(part, name) for part in rows])
                                   for name in ("x", "w", "y", "mask", "weight")})
    for one, name in zip(evidence.statistics(model, vector, together, 1e-12), evidence.Statistics._fields, strict=True):
        np.testing.assert_allclose(one, sum(getattr(part, name) for part in apart), rtol=1e-7, atol=1e-7)


def test_effects_of_a_draw_are_the_dense_conditionals(result):
    """τ(x) given (θ, β̃) at the site: m₁ − m₀ and f^s conditioned on y − m_w(x), by plain linear algebra."""
    people = result.people["site-0"]
    model, rows, draws = people.ready.model, people.ready.rows, people.q.draws
    one = SharedDraws(draws.theta[:1], draws.beta[:1, :2])
    x_new = rows.x[:3] + 0.1
    found = predict.cate_at(model, np.zeros(0), rows, one, x_new, 0.0)
    n, theta = 40, model.unravel(one.theta[0])
    x, w, y = rows.x[:n], np.asarray(rows.w[:n]), rows.y[:n]
    root = own_root(theta)
    phi = np.asarray(root @ root.T)

    def k(a, b):
        return np.asarray(kernels.cross(model.kernel, theta["kernel"], a, b))

    c = phi[w][:, w] * k(x, x) + np.diag(np.asarray(noise_sd(theta))[w] ** 2)
    across = (phi[1] - phi[0])[w] * k(x_new, x)
    z = np.asarray(model.layout.rows(theta, x, covariance.arms(jnp.asarray(w))))
    e = np.asarray(model.layout.rows(theta, x_new, jnp.tile(jnp.array([-1.0, 1.0]), (3, 1))))
    for b in range(2):
        beta = np.asarray(one.beta[0, b])
        np.testing.assert_allclose(found.mean[b], e @ beta + across @ np.linalg.solve(c, np.asarray(y) - z @ beta),
                                   rtol=1e-6, atol=1e-8)
    own = (phi[0, 0] + phi[1, 1] - 2 * phi[0, 1]) * np.diag(k(x_new, x_new))
    np.testing.assert_allclose(found.var[0], own - np.diag(across @ np.linalg.solve(c, across.T)), rtol=1e-6, atol=1e-9)


def test_draws_of_beta_have_the_posterior_mean_and_spread():
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(4, 4))) + 3 * np.eye(4)
    found = BetaLaw(np.ones((500, 4)), np.broadcast_to(root, (500, 4, 4)))
    betas = exchanges.draw_betas(found, 0)
    np.testing.assert_allclose(betas.mean(1), 1.0, atol=1e-12)  # antithetic
    away = (betas - 1.0).reshape(-1, 4)
    expected = np.linalg.inv(root @ root.T)
    np.testing.assert_allclose(away.T @ away / len(away), expected, atol=4 * np.abs(expected).max() / np.sqrt(2000))


def test_the_same_seed_gives_the_same_bits_in_any_order(result):
    again = fit(hospitals(40, 37)[::-1], options=SMALL, preset="default")
    assert again.ate().mean == result.ate().mean
    np.testing.assert_array_equal(again.outcome.fit.theta, result.outcome.fit.theta)


def test_saved_and_loaded(result, tmp_path):
    result.save(tmp_path / "r")
    back = Result.load(tmp_path / "r")
    x = frame(9, 5)
    for site in ("site-1", None):
        np.testing.assert_array_equal(back.effect(x, site), result.effect(x, site))
        np.testing.assert_array_equal(back.effect_interval(x, site, outcome_noise=True),
                                      result.effect_interval(x, site, outcome_noise=True))


def test_people_elsewhere_are_less_certain(result):
    x = frame(30, 6)
    inside, outside = result.effect_posterior(x, "site-0").sd, result.effect_posterior(x).sd
    assert outside.mean() > inside.mean()


def test_realised_effects_use_the_persons_outcome(result):
    """Var of the realised effect of people in the study holds the noise of one outcome, not of two."""
    people = result.ite("site-0")
    blind = result.effect_posterior(frame(40, 0), "site-0", outcome_noise=True).sd
    assert (people["ite_sd"] < blind).mean() > 0.9


def test_a_trait_nobody_has_keeps_its_uncertainty():
    """A 0/1 column constant in the study is no error, and who has the trait gets a wider interval."""
    def with_trait(rows, seed, value):
        return frame(rows, seed).assign(trait=value)

    covariates = {"age": {}, "bmi": {}, "trait": {"type": "binary"}}
    plan = Study(treatment="w", outcome="y", covariates=covariates, policy="simulation", options=SMALL,
                 diagnostics={"enabled": False})
    found = FedCI(plan).fit([Source("a", with_trait(40, 0, 0)), Source("b", with_trait(37, 1, 0))])
    without, having = (found.effect_posterior(with_trait(20, 7, value), "a").sd for value in (0, 1))
    assert having.mean() > 1.5 * without.mean()


def test_a_small_site_refuses_its_sums_under_the_standard_policy():
    clear = {"name": "custom", "secure_sum": "auto"}
    with pytest.raises(DisclosureError, match="columns per person in the clear"):
        fit(hospitals(60, 60), policy=clear, preset="default")
    with pytest.raises(DisclosureError, match="at least 3 sites, got 2"):
        fit(hospitals(200, 200), policy="standard", preset="default")


@pytest.mark.parametrize("name", ["Evaluate", "AskEffects", "AskStatistics", "PullBack"])
def test_a_site_answers_no_step_of_another_model_nor_one_that_is_not_the_next(sites, name):
    """In the last exchange, of the effects, and after it: nothing else is answered, and nothing at the site changes."""
    site = sites["site-0"]
    run = site.run
    last = max(run.course.places)
    there, beyond = (site.answer(Step(run.name, number, "site-0", name)) for number in (last, last + 1))
    assert isinstance(there, Refusal)
    assert f"(a {name} instead of a AskSharedEffects)" in there.reason
    assert isinstance(beyond, Refusal)
    assert f"the sum of round {last} is not told" in beyond.reason
    assert site.run is run


def test_a_site_that_cannot_factor_counts_itself_as_failed(result, rows):
    model = result.outcome.layout.model
    arrays = {"thetas": np.full((1, model.size), 1e200), "few": np.array(0.0)}
    told = model.answer("AskStatistics", arrays, rows[0], None).sums
    assert told["failed"] == 1
    assert not any(np.any(part) for name, part in told.items() if name != "failed")


def test_what_leaves_is_as_large_as_documented(result):
    """docs/model.md: q(q + 1)/2 + q + 2 numbers a draw, with q = 2(2 + d + KJ + M) + 1."""
    model = result.outcome.layout.model
    assert model.columns == 2 * (2 + len(COVARIATES) + 2 * 3 + model.options.landmarks) + 1
    shapes = evidence.shapes(model, 16)
    numbers = sum(int(np.prod(shape)) for shape in shapes.values())
    assert numbers == 16 * (model.columns * (model.columns + 1) // 2 + model.columns + 2)
    assert model.size == (model.covariates + 5) * 2 + 16 + 3 * model.covariates + 9
    rows = result.people["site-0"].ready.rows
    leaves = jax.tree.leaves(evidence.statistics(model, np.zeros((16, model.size)), rows, 1e-8))
    assert [leaf.shape for leaf in leaves] == list(shapes.values())


def test_the_sites_ask_no_more_than_the_policy_allows():
    assert Site(study(), Source("a", frame(40, 0)).read(study())).run.study.policy.statistics_per_row > 1e6


@pytest.mark.parametrize(("change", "gone"), [
    ({"common": False}, "common"), *(pytest.param(change, None, marks=pytest.mark.slow)  # the benchmark fits them all
                                     for change in ({"directions": 0}, {"tails": None}, {"binary_sd": None}))])
def test_every_ingredient_can_be_left_out(change, gone):
    """The ablations of docs/benchmarks.md: each fits, and the objective rises."""
    found = fit(hospitals(40, 37), options=SMALL | {"model": {"knots": 3} | change}, preset="default")
    objectives = [r.objective for r in found.outcome.fit.rounds]
    assert objectives[-1] > objectives[0]
    assert not any(name.startswith(f"{gone}[") for name in found.outcome.layout.model.names())


def test_a_point_posterior_stays_a_point_and_is_surer(result):
    """Same data and rounds: leaving out the uncertainty of θ must narrow the intervals."""
    options = SMALL | {"model": SMALL["model"] | {"posterior": "point"}}
    found = fit(hospitals(40, 37), options=options, preset="default")
    _, log_sd = np.split(np.asarray(found.outcome.fit.theta), 2)
    np.testing.assert_allclose(np.exp(log_sd), exchanges.POINT_SD)
    assert found.ate().sd < result.ate().sd


def test_what_drives_the_outcome_is_reported(result):
    """Shares are of a whole; the words name as many directions as carry at least a twentieth."""
    table = result.drivers()
    assert list(table.part) == ["lines", "direction 1", "direction 2", "products and thresholds", "sites' own"]
    np.testing.assert_allclose(table[["outcome", "effect"]].sum(), 1.0)
    carrying = (table.iloc[1:3][["outcome", "effect"]].max(axis=1) >= 0.05).sum()
    assert ("No direction carries", "One direction carries", "Two directions carry")[carrying] in result.summary()
    assert any(name in table.covariates[1] for name in COVARIATES)


def test_a_fit_leaves_the_slope_between_the_arms_where_the_start_set_it(result, rows):
    """It has no gradient, so nothing about it is told; it does not vary over draws."""
    model = result.outcome.layout.model
    normals = evidence.common_normals(0, 0, 4, model.size)
    q = came_to(exchanges.start(model, 77), over(model, rows))
    assert model.held.sum() == model.covariates
    np.testing.assert_array_equal(np.split(np.asarray(result.outcome.fit.theta), 2)[0][model.held],
                                  np.split(q, 2)[0][model.held])
    assert np.abs(np.split(q, 2)[0][model.held]).max() > 0.1
    _, gradient, _ = came_to(exchanges.evaluate(model, q, 77, normals), over(model, rows))
    assert not gradient[np.tile(model.held, 2)].any()
    assert gradient[~np.tile(model.held, 2)].any()


def test_draws_whose_sums_no_site_could_tell_are_drawn_anew(result):
    """A site that could not tell says zeros, and that it failed: β would be drawn from its prior, unnoticed."""
    model, q = result.outcome.layout.model, np.asarray(result.outcome.fit.theta)
    steps = exchanges.gather(model, q, 77, 16, 0, np.zeros(1))
    shapes = evidence.shapes(model, 1)
    asked = [next(steps)]
    zeros = {name: np.zeros(shape) for name, shape in shapes.items()}
    for _ in range(2):
        asked.append(steps.send(zeros | {"failed": np.array(1.0)}))
    assert {ask.name for ask in asked} == {exchanges.STATISTICS}
    assert not np.array_equal(asked[0].arrays["thetas"], asked[1].arrays["thetas"])
    assert not np.array_equal(asked[1].arrays["thetas"], asked[2].arrays["thetas"])


def test_a_fit_none_of_whose_draws_can_be_told_says_so(result):
    model, q = result.outcome.layout.model, np.asarray(result.outcome.fit.theta)
    steps = exchanges.gather(model, q, 77, 16, 0, np.zeros(1))
    zeros = {name: np.zeros(shape) for name, shape in evidence.shapes(model, 1).items()} | {"failed": np.array(1.0)}
    next(steps)
    for _ in range(exchanges.TRIES - 1):
        steps.send(zeros)
    with pytest.raises(NumericalError, match="could not tell its statistics"):
        steps.send(zeros)
