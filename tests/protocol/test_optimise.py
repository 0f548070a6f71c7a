"""Ascent by messages: each rule finds the top, each verdict is reachable, and none is given without cause."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy import optimize

import fedci.model  # noqa: F401  (switches JAX to float64, as every coordinator does)
from fedci.model.family import Rules
from fedci.protocol import optimise
from fedci.protocol.optimise import CONVERGED, DIVERGED, STOPPED, init, step
from fedci.protocol.rounds import after
from fedci.study.options import OptimiserOptions

FIRST_ORDER = ("ascent", "adam", "adagrad")
RATES = (("ascent", 0.015), ("adam", 0.02), ("adagrad", 0.1))
"""Learning rates that suit the quadratic below."""


def run(function, start, sites: int = 1, **options):
    """(final state, every Θ that was asked for)."""
    state, asked = init(OptimiserOptions(**options), np.asarray(start, float), sites), []
    while state.verdict is None:
        asked.append(state.query.copy())
        state = step(state, *function(state.query))
    return state, asked


def quadratic(seed: int = 0, size: int = 8, condition: float = 100.0):
    """(function, its top): b'θ − ½θ'Aθ with the eigenvalues of A spread evenly in the logarithm."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
    a, b = turn @ np.diag(np.geomspace(1.0, condition, size)) @ turn.T, rng.standard_normal(size)
    return (lambda t: (b @ t - 0.5 * t @ a @ t, b - a @ t)), np.linalg.solve(a, b)


def rosenbrock(t):
    return -optimize.rosen(t), -optimize.rosen_der(t)


def barrier(t):
    """Σ log θ − θ, top at 1, a failed evaluation outside θ > 0."""
    if (t <= 0).any():
        return -np.inf, np.zeros_like(t)
    return np.sum(np.log(t) - t), 1 / t - 1


# ── quasi-Newton ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(4))
def test_lbfgs_finds_the_top_of_a_quadratic(seed):
    """Conjugate directions would need 8 exact line searches; a few inexact ones more are allowed."""
    function, top = quadratic(seed)
    state, asked = run(function, np.zeros(8), tolerance=1e-9, rounds=60)
    assert state.verdict == CONVERGED
    assert function(top)[0] - function(state.best)[0] < 1e-9
    np.testing.assert_allclose(state.best, top, atol=1e-4)


def test_lbfgs_finds_the_top_of_rosenbrocks_valley():
    state, asked = run(rosenbrock, [-1.2, 1.0], tolerance=1e-10, rounds=80)
    assert state.verdict == CONVERGED
    np.testing.assert_allclose(state.best, 1.0, atol=1e-5)


def test_lbfgs_climbs_in_four_dimensions_of_rosenbrock():
    state, _ = run(rosenbrock, [-1.2, 1.0, -0.5, 2.0], tolerance=1e-10, rounds=150)
    assert state.verdict == CONVERGED
    np.testing.assert_allclose(state.best, 1.0, atol=1e-5)


def test_lbfgs_never_accepts_a_loss():
    state, _ = run(rosenbrock, [-1.2, 1.0], tolerance=1e-10, rounds=80)
    assert (np.diff(state.objectives) > 0).all()


def test_a_failed_evaluation_is_a_rejected_step():
    """From 0.01 the gradient is 99: the first trials land outside, and the search steps back between them."""
    start = np.full(3, 0.01)
    state, asked = run(barrier, start, tolerance=1e-9, rounds=100)
    assert state.verdict == CONVERGED
    np.testing.assert_allclose(state.best, 1.0, atol=1e-4)
    assert np.isfinite(state.objectives).all()


def test_a_failed_evaluation_is_never_accepted():
    """A wall just beyond the top: the search must come back to what was finite."""
    def walled(t):
        return (-np.inf, np.zeros(1)) if t[0] > 1.0 else (t[0] - 0.5 * t[0] ** 2, 1 - t)

    state, asked = run(walled, [-3.0], tolerance=1e-8, rounds=100)
    assert state.best[0] <= 1.0
    assert walled(np.array([1.0]))[0] - walled(state.best)[0] < 1e-3


def test_lbfgs_reports_the_best_seen():
    def flat(t):
        return -1e-4 * (t[0] - 100) ** 2, -2e-4 * (t - 100)

    state, asked = run(flat, [0.0], rounds=4)
    assert state.verdict == STOPPED
    assert flat(state.best)[0] == max(flat(t)[0] for t in asked)


def test_a_gradient_that_is_not_finite_is_a_rejected_step():
    def broken(t):
        return -(t @ t), -2 * t if (t == 1).all() else np.full(2, np.nan)

    state, asked = run(broken, np.ones(2), rounds=10)
    assert np.isfinite(asked).all()


# ── verdicts ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["lbfgs", *FIRST_ORDER])
def test_the_cap_stops_a_run_that_still_climbs(name):
    state, asked = run(rosenbrock, [-1.2, 1.0], name=name, rounds=7, learning_rate=1e-4)
    assert state.verdict == STOPPED
    assert state.round == len(asked) == 7


@pytest.mark.parametrize("name", ["lbfgs", *FIRST_ORDER])
@pytest.mark.parametrize("bad", [-np.inf, np.nan, np.inf])
def test_a_start_that_cannot_be_evaluated_diverges_at_once(name, bad):
    state, asked = run(lambda t: (bad, np.zeros(2)), np.ones(2), name=name)
    assert (state.verdict, len(asked), state.objectives) == (DIVERGED, 1, ())
    np.testing.assert_array_equal(state.best, 1.0)


def test_a_start_at_the_top_has_converged():
    function, top = quadratic()
    state, asked = run(lambda t: (function(t)[0], np.zeros(8)), top)
    assert (state.verdict, len(asked)) == (CONVERGED, 1)
    np.testing.assert_array_equal(state.best, top)


def test_a_start_at_the_top_to_rounding_has_converged():
    """The gradient is 1e-15 to 1e-7, not 0, and no step gains anything that rounding does not hide."""
    verdicts = []
    for seed in range(3):
        function, top = quadratic(seed)
        verdicts += [run(function, top + away, rounds=30)[0].verdict for away in (0.0, 1e-12, 1e-9)]
    assert verdicts == [CONVERGED] * 9


@pytest.mark.parametrize("function", [
    lambda t: (0.0, np.ones(3)) if (t == 0).all() else (-np.inf, np.zeros(3)),
    lambda t: (-(t @ t) - t.sum(), np.full(3, 5.0)),
], ids=["nothing finite but the start", "a gradient that points down"])
def test_a_search_that_finds_nothing_has_not_converged(function):
    state, _ = run(function, np.zeros(3), rounds=200)
    assert state.verdict != CONVERGED


def test_lbfgs_at_the_top_to_rounding_has_not_diverged():
    function, _ = quadratic()
    state, _ = run(function, np.zeros(8), tolerance=0.0, rounds=1000)
    assert state.verdict != DIVERGED


def test_convergence_is_judged_per_site():
    """The target is tolerance × sites: many sites, the same objective, no more rounds."""
    function, _ = quadratic(condition=1e4)
    rounds = [run(function, np.zeros(8), sites=sites, tolerance=1e-7)[0].round for sites in (1, 1000)]
    assert rounds[1] < rounds[0]


@pytest.mark.parametrize(("name", "rate"), RATES)
def test_a_run_that_has_settled_gains_less_than_its_target_per_window(name, rate):
    function, _ = quadratic()
    state, _ = run(function, np.zeros(8), name=name, learning_rate=rate, rounds=5000, tolerance=1e-5)
    assert state.verdict == CONVERGED
    last, before = np.mean(state.objectives[-50:]), np.mean(state.objectives[-100:-50])
    assert last - before < 1e-5
    assert len(state.objectives) % 50 == 0


def test_a_falling_objective_has_not_converged():
    """Ascent with too long a step swings away from the top, ever further."""
    function, _ = quadratic()
    state, _ = run(function, np.zeros(8), name="ascent", learning_rate=0.025, rounds=300)
    assert state.objectives[-1] < state.objectives[0] - 1e3
    assert state.verdict != CONVERGED


def test_tolerance_zero_runs_all_rounds():
    noise = np.random.default_rng(0)
    state, _ = run(lambda t: (noise.normal(), np.zeros(2)), np.zeros(2), name="adagrad", tolerance=0.0, rounds=400,
                   fresh_draws=True)
    assert (state.verdict, state.round) == (STOPPED, 400)


# ── first order ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "rate"), RATES)
def test_first_order_rules_find_the_top_of_a_quadratic(name, rate):
    function, top = quadratic()
    state, _ = run(function, np.zeros(8), name=name, learning_rate=rate, rounds=5000, tolerance=1e-8)
    assert state.verdict == CONVERGED
    assert function(top)[0] - function(state.best)[0] < 1e-5


GRADIENTS = [np.array([0.5, -2.0, 3.0]), np.array([1.0, 1.0, -0.25]), np.array([-0.125, 4.0, 1.0])]


def told(name: str, rate: float = 0.1) -> list[np.ndarray]:
    """Θ after each of the three gradients above, from Θ = 0."""
    state, thetas = init(OptimiserOptions(name=name, learning_rate=rate), np.zeros(3), 1), []
    for value, gradient in enumerate(GRADIENTS):
        state = step(state, float(value), gradient)
        thetas.append(state.query)
    return thetas


def test_ascent_is_the_papers_update():
    """Θ ← Θ + learning_rate × ∇L."""
    np.testing.assert_allclose(told("ascent"), 0.1 * np.cumsum(GRADIENTS, 0), rtol=1e-15)


def test_adagrad_by_hand():
    """Θ ← Θ + rate · g / √Σg²: the first step is rate · sign(g), to the 1e-10 that keeps g = 0 finite."""
    squares = np.cumsum(np.square(GRADIENTS), 0)
    np.testing.assert_allclose(told("adagrad"), 0.1 * np.cumsum(GRADIENTS / np.sqrt(squares), 0), rtol=1e-8)
    np.testing.assert_allclose(told("adagrad")[0], [0.1, -0.1, 0.1], rtol=1e-8)


def test_adam_by_hand():
    """Kingma & Ba: m, v with rates 0.9 and 0.999, both unbiased, eps 1e-8 beside √v."""
    m, v, theta, expected = np.zeros(3), np.zeros(3), np.zeros(3), []
    for t, g in enumerate(GRADIENTS, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta = theta + 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        expected.append(theta)
    np.testing.assert_allclose(told("adam"), expected, rtol=1e-12)


def test_first_order_rules_are_float64_on_their_own():
    code = ("import numpy as np; from fedci.protocol.optimise import init, step;"
            "from fedci.study.options import OptimiserOptions;"
            "state = init(OptimiserOptions(name='adam', learning_rate=0.1), np.zeros(1), 1);"
            "print(abs(step(state, 0.0, np.array([0.3])).query[0] - 0.1 * 0.3 / (0.3 + 1e-8)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1e-15


@pytest.mark.parametrize("name", FIRST_ORDER)
@pytest.mark.parametrize("bad", [(-np.inf, 0.0), (np.nan, 0.0), (1.0, np.nan), (1.0, np.inf)])
def test_a_failure_halves_the_step_three_times_and_then_gives_up(name, bad):
    """Back to the last good Θ, with the rule's memory of that time, so that the step is half of what failed."""
    start, gradient = np.array([1.0, -2.0]), np.array([0.5, 3.0])

    def only_the_start(t):
        return (7.0, gradient) if (t == start).all() else (bad[0], np.full(2, bad[1]))

    state, asked = run(only_the_start, start, name=name, learning_rate=0.25, rounds=100)
    assert state.verdict == DIVERGED
    np.testing.assert_array_equal(state.best, start)
    np.testing.assert_array_equal(asked[::2], np.tile(start, (4, 1)))
    moves = np.array(asked[1::2]) - start
    np.testing.assert_allclose(moves, moves[0] * np.array([1, 0.5, 0.25, 0.125])[:, None], rtol=1e-12)


def test_a_run_goes_on_after_a_halved_step():
    """A wall that the full step hits and the half step does not."""
    def walled(t):
        return (-np.inf, np.zeros(1)) if t[0] > 1.5 else (-0.5 * (t[0] - 1) ** 2, 1 - t)

    state, asked = run(walled, [-3.0], name="ascent", learning_rate=1.2, rounds=400, tolerance=1e-12)
    assert state.verdict == CONVERGED
    np.testing.assert_allclose(state.best, 1.0, atol=1e-6)
    assert sum(t[0] > 1.5 for t in asked) == 1


# ── the state ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["lbfgs", *FIRST_ORDER])
def test_the_same_inputs_give_the_same_bits(name):
    one, two = (run(rosenbrock, [-1.2, 1.0], name=name, rounds=40, learning_rate=1e-3) for _ in range(2))
    np.testing.assert_array_equal(one[1], two[1])
    assert one[0].objectives == two[0].objectives


@pytest.mark.parametrize("name", ["lbfgs", *FIRST_ORDER])
def test_a_step_leaves_its_state_untouched(name):
    """Pure functions: a checkpoint taken before a step can be stepped again."""
    state = init(OptimiserOptions(name=name), np.array([-1.2, 1.0]), 1)
    for _ in range(5):
        state = step(state, *rosenbrock(state.query))
    before = state.query.copy()
    one, two = (step(state, *rosenbrock(state.query)) for _ in range(2))
    np.testing.assert_array_equal(state.query, before)
    np.testing.assert_array_equal(one.query, two.query)
    assert state.round + 1 == one.round == two.round


def test_the_start_is_not_changed_in_place():
    start = np.array([-1.2, 1.0])
    run(rosenbrock, start, rounds=20)
    np.testing.assert_array_equal(start, [-1.2, 1.0])


def test_lbfgs_refuses_a_noisy_objective():
    with pytest.raises(ValueError, match="common random numbers"):
        OptimiserOptions(name="lbfgs", fresh_draws=True)


@pytest.mark.parametrize(("name", "natural"), [("lbfgs", np.inf), ("lbfgs", 4), ("ascent", np.inf), ("adam", np.inf),
                                               ("adagrad", np.inf)])
def test_a_state_packed_and_unpacked_goes_on_bit_for_bit(name, natural):
    """At every round of a run: what follows is what would have followed."""
    options = OptimiserOptions(name=name, rounds=12, learning_rate=0.01)
    target = np.linspace(-1, 1, 6)

    def told(state):
        away = state.query - target
        return optimise.step(state, -float(np.sum(away**4 + away**2)), -(4 * away**3 + 2 * away))

    state, plain = optimise.init(options, np.zeros(6), 3, natural), []
    for _ in range(10):
        plain.append(state)
        state = told(state)
    for before in plain:
        again = optimise.unpack(options, 3, optimise.pack(before))
        for _ in range(3):
            before, again = told(before), told(again)
        for one, other in zip(jax.tree.leaves(before[2:7]), jax.tree.leaves(again[2:7]), strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(jax.tree.leaves(before.rule), jax.tree.leaves(again.rule), strict=True):
            np.testing.assert_array_equal(one, other)


# --- stages with more and more people


def of_people(n, query, told=np.geomspace(0.3, 30.0, 5), centre=np.linspace(-1, 1, 5)):
    """(L, ∇L) of q = N(m, s²) for n people who tell of each entry, correlated, and a standard normal prior."""
    m, log_s = np.split(query, 2)
    curve = np.diag(told) + 0.2 * np.sqrt(np.outer(told, told))
    s2, away = np.exp(2 * log_s), m - centre
    value = -0.5 * n * (away @ curve @ away + np.diag(curve) @ s2) - 0.5 * (m @ m + s2.sum()) + log_s.sum()
    return value, np.concatenate([-n * curve @ away - m, 1.0 - s2 * (1.0 + n * np.diag(curve))])


def queries(natural, rounds):
    """[rounds, 10] what is asked of 1000 people."""
    options, asked = OptimiserOptions(name="lbfgs", rounds=rounds, tolerance=0.0), []
    state = optimise.init(options, np.zeros(10), 1, natural)
    while state.verdict is None:
        asked.append(state.query)
        state = optimise.step(state, *of_people(1000, state.query))
    return np.array(asked)


def test_natural_steps_begin_at_their_round():
    never, later, always = (queries(natural, 12) for natural in (np.inf, 6, 0))
    np.testing.assert_array_equal(later[:6], never[:6])
    assert not np.allclose(later[6:8], never[6:8])
    assert not np.allclose(always[1], never[1])


def rounds_to_top(forget, few=100, many=10_000):
    """Rounds that the second stage takes to come within 0.01 nat of its top, after a first one with few people."""
    options = OptimiserOptions(name="lbfgs", rounds=200, tolerance=1e-6)
    state = optimise.init(options, np.concatenate([np.zeros(5), np.full(5, np.log(0.1))]), 1, natural=0, ahead=1)
    while state.verdict is None:
        state = optimise.step(state, *of_people(few, state.query))
    sd = np.exp(np.split(state.best, 2)[1])
    state = optimise.with_more(state, np.sqrt((1 / sd**2) / (1 + many / few * (1 / sd**2 - 1))))
    assert (state.ahead, state.since, state.verdict) == (0, state.round, None)
    if forget:
        state = state._replace(rule=state.rule._replace(moves=(), changes=()))
    found = []
    while state.verdict is None:
        value, gradient = of_people(many, state.query)
        found.append(value)
        state = optimise.step(state, value, gradient)
    assert state.verdict == optimise.CONVERGED
    return int(np.argmax(np.array(found) > state.best_objective - 0.01))


def test_what_few_people_told_of_the_curvature_serves_many():
    assert rounds_to_top(forget=False) <= 3
    assert rounds_to_top(forget=False) < rounds_to_top(forget=True)


def test_a_stage_before_the_last_ends_after_half_the_rounds_that_are_left():
    options = OptimiserOptions(name="lbfgs", rounds=20, tolerance=0.0)
    state, ends = optimise.init(options, np.concatenate([np.zeros(5), np.zeros(5)]), 1, 0, 2), []
    while True:
        state = optimise.step(state, *of_people(10, state.query))
        if state.verdict is None:
            continue
        ends.append(state.round)
        if not state.ahead:
            break
        kept = optimise.unpack(options, 1, optimise.pack(optimise.with_more(state, np.ones(5))))
        assert (kept.ahead, kept.since) == (state.ahead - 1, state.round)
        state = kept
    assert ends == [10, 15, 20]


# ── a bound that is moved ───────────────────────────────────────────────────────────────────────────────────


def climbed(raise_by, patience=3, rounds=60):
    """A quadratic that each move of the anchor raises: (the state at the end, moves, evaluations)."""
    function, _ = quadratic()
    rules = Rules(model=SimpleNamespace(fits_at_home=False), options=None, seed=0, u=np.zeros((1, 1)), people=1)
    options = OptimiserOptions(patience=patience, rounds=rounds, tolerance=1e-6)
    state, moves, evaluations = init(options, np.zeros(8), 1), 0, 0
    while state.verdict is None:
        before = state.anchor
        objective, gradient = function(state.query)
        anchor = np.array([moves + 1.0])
        state = after(rules, state, objective + raise_by(moves), gradient, anchor)
        moves, evaluations = moves + (state.anchor is not before), evaluations + 1
    return state, moves, evaluations


def test_a_fit_at_home_takes_the_next_vector_itself_as_often_as_agreed():
    options = OptimiserOptions(rounds=2)
    rules = Rules(model=SimpleNamespace(fits_at_home=True), options=None, seed=0, u=np.zeros((1, 1)), people=1)
    state = optimise.init(options, np.zeros(2), 1)
    once = after(rules, state, -3.0, np.ones(2), np.arange(3.0))
    assert (once.round, once.verdict, once.best_objective) == (1, None, -3.0)
    np.testing.assert_array_equal([*once.query, *once.anchor], [1, 1, 0, 1, 2])
    twice = after(rules, once, -2.0, 2 * np.ones(2), np.zeros(3))
    assert (twice.verdict, twice.objectives) == (optimise.CONVERGED, (-3.0, -2.0))
    assert after(rules, once, -np.inf, np.zeros(2), np.zeros(3)).verdict == optimise.DIVERGED


def test_the_first_anchor_is_left_at_once_and_later_ones_after_patience():
    function, top = quadratic()
    state, moves, evaluations = climbed(lambda moves: 1.0 - 0.5**moves)
    assert state.verdict == CONVERGED
    assert 3 <= moves <= evaluations / 2
    assert function(top)[0] - function(state.best)[0] < 1e-6
    assert state.best_objective >= state.before


def test_a_fit_goes_on_while_moving_the_anchor_gains():
    """The quadratic is at its top after twenty evaluations, but each move raises it by more than the tolerance."""
    state, moves, evaluations = climbed(lambda moves: 0.1 * moves)
    assert state.verdict == STOPPED
    assert evaluations == 60
    assert moves > 5


def test_a_moved_state_keeps_what_was_learnt_of_the_curvature_and_is_asked_at_its_best():
    function, _ = quadratic()
    state = init(OptimiserOptions(rounds=60), np.zeros(8), 1)
    for _ in range(6):
        state = step(state, *function(state.query))
    state = state._replace(latest=np.ones(2))
    moved = optimise.moved(state)
    assert (moved.query == state.best).all()
    assert moved.rule.moves == state.rule.moves
    assert moved.anchor.tolist() == [1.0, 1.0]
    assert (moved.before, moved.best_objective, moved.objectives) == (state.best_objective, -np.inf, ())
    assert optimise.moved(state._replace(before=state.best_objective)).verdict == CONVERGED


def test_without_an_anchor_nothing_is_moved():
    function, _ = quadratic()
    state = init(OptimiserOptions(rounds=60), np.zeros(8), 1)
    for _ in range(12):
        state = step(state, *function(state.query))
        assert not optimise.is_to_move(state, 0)
