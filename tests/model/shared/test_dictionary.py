"""One matrix of products in place of a round's: exact at its point, for roots and noise everywhere, and near it to
second order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.shared import dictionary, evidence, pooled
from fedci.model.shared.dictionary import Point, Stage
from fedci.study.options import SharedOptions

D, SITES, N = 3, 2, 40
MODEL = model_of(SharedOptions(family="shared", directions=2, knots=4, landmarks=6), D, D, SITES)
PEOPLE = float(SITES * N)
LATER = [stage for stage in Stage if stage != Stage.FIRST]


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    sites = []
    for _ in range(SITES):
        x, w = rng.standard_normal((N, D)), (rng.random(N) < 0.5).astype(float)
        sites.append((x, w, np.sin(x[:, 0]) + w * x[:, 1] + 0.3 * rng.standard_normal(N)))
    return sites


def theta_of(seed: int, away: float = 0.3) -> np.ndarray:
    """Some θ of arms that have the same noise: one level is told."""
    mean, sd = MODEL.prior
    vector = mean + away * sd * np.random.default_rng(seed).standard_normal(MODEL.size)
    vector[MODEL.names().index("noise[1]")] = 0.0
    return vector


def without_directions(vector: np.ndarray) -> np.ndarray:
    """A = 0, as where nothing is known."""
    return np.where([name.startswith("direction") and "scale" not in name for name in MODEL.names()], 0.0, vector)


POINT = theta_of(2)
STRAIGHT = without_directions(POINT)


def exact(people, vector):
    """T, v, c, l of a round."""
    parts = [evidence.statistics(MODEL, vector[None], site, 0.0) for site in rows_of(people)]
    return [np.asarray(sum(part))[0] for part in zip(*parts, strict=True)]


def rows_of(people):
    return [MODEL.rows(x, w, y, np.zeros(4 * (D + 3)), k) for k, (x, w, y) in enumerate(people)]


def told_by(rows, point):
    """ΣG, as sites tell it."""
    by = dictionary.at(MODEL, point)
    parts = [evidence.statistics(by, jnp.asarray(point.packed)[None], site, 0.0) for site in rows]
    return dictionary.products(evidence.Statistics(*(sum(part) for part in zip(*parts, strict=True))))


def by_products(people, point, vector):
    found, _ = dictionary.statistics(MODEL, told_by(rows_of(people), point), dictionary.span(MODEL, point), point,
                                     jnp.asarray(vector), PEOPLE)
    return [np.asarray(part) for part in found]


def some_coefficients(point):
    beta = np.random.default_rng(4).standard_normal(MODEL.columns)
    return dictionary.coefficients(MODEL, MODEL.unravel(jnp.asarray(point)), jnp.asarray(beta))


POINTS = pytest.mark.parametrize("point", [Point(STRAIGHT), *(Point(POINT, some_coefficients(POINT), stage)
                                                             for stage in LATER)],
                                 ids=["nothing known", *(stage.name for stage in LATER)])


@POINTS
def test_at_its_point_the_statistics_are_those_of_a_round(people, point):
    """Hinges of neighbouring knots are alike to 1e-5, so that a fit of columns to columns keeps ten digits."""
    here = np.asarray(point.vector)
    for found, expected in zip(by_products(people, point, here), exact(people, here), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_so_they_are_for_all_roots(people):
    """Sizes of blocks, η and ρ move no column out of the span; the own function's ρ has one of its own."""
    vector, names = STRAIGHT.copy(), MODEL.names()
    for name, move in (("linear[0]", 0.4), ("hinges[0,1]", -0.5), ("hinges[1,0]", 0.3), ("effect", 0.2)):
        vector[names.index(name)] += move
    found = by_products(people, Point(STRAIGHT), vector)
    for part, expected in zip(found, exact(people, vector), strict=True):
        np.testing.assert_allclose(part, expected, rtol=0.02, atol=0.02 * np.abs(expected).max())


def test_noise_and_own_function_grow_together_without_a_new_exchange(people):
    """Φ is in units of the noise; what differs is the floor of the noise, 1e-4 of it here."""
    vector = STRAIGHT.copy()
    vector[MODEL.names().index("noise[0]")] += 0.5
    for part, expected in zip(by_products(people, Point(STRAIGHT), vector), exact(people, vector), strict=True):
        np.testing.assert_allclose(part, expected, rtol=5e-3, atol=5e-3 * np.abs(expected).max())


def missed_of(span, beta, vector):
    """[2, R] of ωᵀβ at another θ."""
    there = dictionary.omega(MODEL.layout, MODEL.unravel(jnp.asarray(vector)), jnp.asarray(pooled.landmarks(
        dictionary.REFERENCE, D)))
    seen = sum(fit @ there @ own for fit, own in zip(span.fit, beta, strict=True))
    return np.stack([there @ own - columns @ seen for columns, own in zip(span.columns, beta, strict=True)])


def test_what_is_missed_is_reckoned_of_the_points_coefficients():
    """By the statistics themselves, at another θ."""
    told = some_coefficients(POINT)
    for stage in LATER:
        point = Point(POINT, told, stage)
        span = dictionary.span(MODEL, point)
        width = span.fit[0].shape[0]
        total = dictionary.Products(jnp.zeros((width, width)), jnp.zeros(width), jnp.zeros(()), jnp.zeros(()))
        _, missed = dictionary.statistics(MODEL, total, span, point, jnp.asarray(theta_of(3)), PEOPLE)
        np.testing.assert_allclose(missed, missed_of(span, told, theta_of(3)), rtol=1e-6, atol=1e-9)


def test_with_tangents_the_fitted_function_is_right_to_second_order():
    """Half the step along all that bends the pooled part leaves a quarter of what is missed of ωᵀβ̂, and far less than
    without them."""
    told, names = some_coefficients(POINT), MODEL.names()
    moved = np.array([name.split("[")[0] in (*dictionary.BENT, "steepness") for name in names])
    away = np.where(moved, MODEL.prior[1] * np.random.default_rng(5).standard_normal(MODEL.size), 0.0)

    def missed(point, step):
        span = dictionary.span(MODEL, point)
        return np.sqrt(np.mean(missed_of(span, told, POINT + step * away) ** 2))

    at = Point(POINT, told, Stage.SHAPED)
    whole, half = missed(at, 0.02), missed(at, 0.01)
    assert 3.5 < whole / half < 4.5
    assert whole < 0.2 * missed(Point(POINT, np.zeros_like(told), Stage.SHAPED), 0.02)


def test_a_direction_that_turns_stays_near_the_span_whatever_the_function_along_it():
    """x·s(2t) and x: of hinges along a direction that turned by a tenth, little is missed, β̂ or none."""
    turned, names = POINT.copy(), MODEL.names()
    for place, name in enumerate(names):
        if name.startswith("directions"):
            turned[place] += 0.1 * (-1) ** place
    still = dictionary.omega(MODEL.layout, MODEL.unravel(jnp.asarray(POINT)), jnp.asarray(pooled.landmarks(400, D)))
    gone = dictionary.omega(MODEL.layout, MODEL.unravel(jnp.asarray(turned)), jnp.asarray(pooled.landmarks(400, D)))
    hinges = MODEL.layout.columns["direction 1"]
    point = Point(POINT, np.zeros((2, MODEL.layout.width)), Stage.SHAPED)
    span = dictionary.span(MODEL, point)
    missed = gone - span.columns[1] @ (span.fit[1] @ gone)
    assert np.linalg.norm(missed[:, hinges]) < 0.2 * np.linalg.norm((gone - still)[:, hinges])


def test_tangents_of_directions_leave_a_quarter_at_half_the_step():
    """Of ωᵀβ̂, in both arms; the columns x·s(2t) that stand there before leave half of what they miss."""
    told, names = some_coefficients(POINT), MODEL.names()
    away = np.where([name.startswith("direction") for name in names], 0.02 * np.random.default_rng(5).standard_normal(
        MODEL.size), 0.0)

    def missed(stage, step):
        span = dictionary.span(MODEL, Point(POINT, told, stage))
        return np.linalg.norm(missed_of(span, told, POINT + step * away), axis=1)

    for stage in dictionary.TURNS:
        whole, half = missed(stage, 1.0), missed(stage, 0.5)
        np.testing.assert_array_less(3.5, whole / half)
        np.testing.assert_array_less(whole / half, 4.5)
        np.testing.assert_array_less(whole, 0.5 * missed(Stage.SHAPED, 1.0))
    np.testing.assert_array_less(missed(Stage.SHAPED, 1.0) / missed(Stage.SHAPED, 0.5), 2.5)


def test_tangents_of_the_two_arms_functions_stand_in_the_same_columns():
    """What θ_f moves in both at once; those of e in one arm alone. Levels, lines, hinges, landmarks and shapes are each
    arm's own."""
    for stage, turns in ((Stage.SHAPED, 0), (Stage.BOTH, 2 * D), (Stage.TURNED, 2 * D)):
        by, told = dictionary.of(MODEL, stage), some_coefficients(POINT)
        span = dictionary.span(MODEL, Point(POINT, told, stage))
        seen = [np.any(np.asarray(columns) != 0.0, 0) for columns in span.columns]
        own = 1 + D + 2 * 4 + 6 + (2 * D if stage in dictionary.SHAPES else 0)
        both = turns + D + 2
        assert by.columns == 2 * own + 6 + both + 3
        assert [int(part.sum()) for part in seen] == [own + both, own + 6 + both + 3]
        assert int((seen[0] & seen[1]).sum()) == both


def test_where_nothing_is_known_hinges_are_levels_and_not_told():
    columns = dictionary.of(MODEL, Stage.FIRST).layout.columns
    assert list(columns) == ["levels", "lines", "pooled outcome", "pooled effect"]
    omega = dictionary.omega(MODEL.layout, MODEL.unravel(jnp.asarray(STRAIGHT)), jnp.asarray(pooled.landmarks(50, D)))
    for k in (1, 2):
        hinges = np.asarray(omega[:, MODEL.layout.columns[f"direction {k}"]])
        np.testing.assert_array_equal(hinges, np.broadcast_to(hinges[:1], hinges.shape))


@pytest.mark.parametrize("landmarks", [6, 12], ids=["all of the effect's landmarks", "few of them"])
@pytest.mark.parametrize("stage", LATER)
def test_what_is_left_out_of_the_tangents_is_a_sum_of_what_is_told(landmarks, stage):
    """Of the functions of both arms together, along the steepness and every scale: what the columns miss of them is
    rounding, 1e-16 over how alike columns are. And no column is a sum of others, so none could be left out besides: but
    e's, where all its landmarks are told."""
    model = model_of(MODEL.options.model_copy(update={"landmarks": landmarks}), D, D, SITES)
    here = model.prior[0] + 0.3 * model.prior[1] * np.random.default_rng(1).standard_normal(model.size)
    theta = model.unravel(jnp.asarray(here))
    beta = jnp.asarray(np.random.default_rng(4).standard_normal(model.columns))
    point = Point(here, dictionary.coefficients(model, theta, beta), stage)
    span, people = dictionary.span(model, point), jnp.asarray(pooled.landmarks(dictionary.REFERENCE, D))
    columns = np.concatenate(span.columns)
    columns = columns / np.linalg.norm(columns, axis=0)
    assert landmarks == 6 or np.linalg.svd(columns, compute_uv=False)[-1] > 1e-8
    for part in ("steepness", "pooled"):
        bent = [jax.jacfwd(lambda value, own=own, part=part: dictionary.omega(
            model.layout, theta | {part: value}, people) @ own)(theta[part]) for own in point.coefficients]
        for tangent in np.concatenate([np.asarray(arm).reshape(len(people), -1) for arm in bent]).T:
            missed = tangent - columns @ np.linalg.lstsq(columns, tangent, rcond=None)[0]
            assert np.linalg.norm(missed) < 1e-9 * np.linalg.norm(tangent)


def test_a_large_site_tells_the_same_products(people):
    """In blocks, where all rows induce: to the jitter of their covariance."""
    blocks = model_of(MODEL.options.model_copy(update={"exact_rows": 10, "inducing": 200}), D, D, SITES)
    point = Point(POINT, some_coefficients(POINT), Stage.BOTH)
    rows = [blocks.rows(x, w, y, np.zeros(4 * (D + 3)), k) for k, (x, w, y) in enumerate(people)]
    assert type(rows[0]) is not type(rows_of(people)[0])
    for found, expected in zip(told_by(rows, point), told_by(rows_of(people), point), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(np.asarray(expected)).max())
