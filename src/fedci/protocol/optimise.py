"""Server-side ascent on the summed gradient: pure functions over a named state, one evaluation per round.

    state = init(options, Θ, sites)
    while state.verdict is None:
        objective, gradient = <one round of the federation at state.query>
        state = step(state, objective, gradient)

First-order rules come from optax. The quasi-Newton rule is written here in this ask-and-tell form because a library's
line search calls the objective itself, and ours is an exchange of messages that may be checkpointed in between.
A failed evaluation is reported as objective −inf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from fedci.model.family import NO_ANCHOR
from fedci.study.options import OptimiserOptions

CONVERGED, STOPPED, DIVERGED = "converged", "stopped at the cap", "diverged"
HISTORY = 20
"""Pairs of steps and gradient changes the quasi-Newton rule remembers."""
SUFFICIENT, CURVATURE = 1e-4, 0.9
"""Weak Wolfe conditions: gain at least SUFFICIENT of the linear forecast, slope down to CURVATURE of its start."""
HALVINGS = 3
"""How often a diverging first-order run halves its step before it gives up."""
FIRST = 10.0
"""Times the tolerance, while the rounds look at few people: the others will move the top by more."""
WINDOW = 50
"""Rounds a noisy objective is averaged over before its gain is judged."""


class State(NamedTuple):
    """All of an optimiser between two rounds: nested tuples of arrays and numbers, and the options."""

    options: OptimiserOptions
    sites: int
    query: np.ndarray
    """Θ to evaluate next."""
    best: np.ndarray
    """Θ to report: the best seen (quasi-Newton) or the latest good one (noisy objectives)."""
    best_objective: float
    round: int
    """Evaluations told so far."""
    objectives: tuple[float, ...]
    """One per accepted step."""
    verdict: str | None
    rule: _Lbfgs | _FirstOrder
    """The rule's own memory."""
    natural: float = np.inf
    """The round from which on steps are measured by q (`_metric`): Θ holds the means and the log sds of a Gaussian q.
    Inf: never."""
    ahead: int = 0
    """Stages that follow with more people (`with_more`): until the last one, a stage ends when the objective gains
    little, or after half the rounds that are left."""
    since: int = 0
    """Round at which the stage began."""
    anchor: np.ndarray = NO_ANCHOR
    """Where a bound of the likelihood touches (`model.rows.Anchor`): a part of what the objective is, until it is
    moved (`moved`)."""
    latest: np.ndarray = NO_ANCHOR
    """The one that the sums at `best` make."""
    before: float = -np.inf
    """The best objective with the anchor before this one."""


def init(options: OptimiserOptions, theta: np.ndarray, sites: int, natural: float = np.inf,
         ahead: int = 0) -> State:
    theta = np.asarray(theta, float)
    rule: _Lbfgs | _FirstOrder = (_Lbfgs.start(theta) if options.name == "lbfgs"
                                  else _FirstOrder.start(options, theta))
    return State(options=options, sites=sites, query=theta, best=theta, best_objective=-np.inf, round=0, objectives=(),
                 verdict=None, rule=rule, natural=natural, ahead=ahead)


def step(state: State, objective: float, gradient: np.ndarray) -> State:
    """The state after one evaluation at `state.query`."""
    state, rule = state._replace(round=state.round + 1), state.rule
    gradient = np.asarray(gradient, float)
    failed = not (np.isfinite(objective) and np.isfinite(gradient).all())
    value = -np.inf if failed else float(objective)
    state = (_lbfgs_step(state, rule, value, gradient) if isinstance(rule, _Lbfgs)
             else _first_order_step(state, rule, value, gradient))
    if state.verdict is None and state.round >= _cap(state):
        return state._replace(verdict=STOPPED)
    return state


def _cap(state: State) -> int:
    """The round that ends the stage."""
    most = state.options.rounds
    return state.since + (most - state.since) // 2 if state.ahead else most


def with_more(state: State, narrower: np.ndarray) -> State:
    """Θ = (means, log sds) goes on with more people, whose q is `narrower` by these factors.

    About its top the objective of many looks like that of few with the means' distances multiplied by 1/narrower: the
    remembered moves shrink, the changes of the gradient grow, and what was learnt of the curvature stays true.
    """
    rule: _Lbfgs | _FirstOrder = state.rule
    both = np.concatenate([narrower, np.ones_like(narrower)])
    query = state.best + np.concatenate([np.zeros_like(narrower), np.log(narrower)])
    if isinstance(rule, _Lbfgs):
        rule = _Lbfgs.start(query)._replace(moves=tuple(both * move for move in rule.moves),
                                            changes=tuple(change / both for change in rule.changes))
    else:
        rule = _FirstOrder.start(state.options, query)
    return state._replace(query=query, best=query, best_objective=-np.inf, objectives=(), verdict=None, rule=rule,
                          ahead=state.ahead - 1, since=state.round, before=-np.inf)


def moved(state: State) -> State:
    """The bound touches anew where the best sums say, which raises it: the top is looked for again from there, with
    what was learnt of the curvature. Converged where all steps since the last time, and that, gained little."""
    if state.best_objective - state.before < _target(state):
        return state._replace(verdict=CONVERGED)
    if state.round >= _cap(state):
        return state._replace(verdict=STOPPED)
    rule: _Lbfgs | _FirstOrder = state.rule
    if isinstance(rule, _Lbfgs):
        rule = _Lbfgs.start(state.best)._replace(moves=rule.moves, changes=rule.changes)
    else:
        rule = _FirstOrder.start(state.options, state.best)
    return state._replace(query=state.best, anchor=state.latest, before=state.best_objective, best_objective=-np.inf,
                          objectives=(), verdict=None, rule=rule)


def told(state: State, objective: float, theta: np.ndarray, anchor: np.ndarray) -> State:
    """After a round of a fit at home, which came to the next Θ itself: as many rounds as agreed, and each is better."""
    count = state.round + 1
    if not np.isfinite(objective):
        return state._replace(round=count, verdict=DIVERGED)
    return state._replace(query=theta, best=theta, best_objective=objective, round=count, anchor=anchor, latest=anchor,
                          objectives=(*state.objectives, objective),
                          verdict=CONVERGED if count >= state.options.rounds else None)


def is_to_move(state: State, accepted: int) -> bool:
    """After `patience` steps with one anchor, or when no more is to gain with it; the first, of nothing, is left at
    once. `accepted`: steps before this evaluation."""
    if not (state.latest.size and np.isfinite(state.best_objective)) or state.verdict in (STOPPED, DIVERGED):
        return False
    new, first = len(state.objectives) > accepted, not np.isfinite(state.before)
    return state.verdict == CONVERGED or (new and (first or len(state.objectives) > state.options.patience))


def pack(state: State) -> dict[str, np.ndarray]:
    """The state as named arrays, bit for bit, for a checkpoint; a verdict has no use for one."""
    rule, plain = state.rule, {name: np.asarray(getattr(state, name), float)
                               for name in ("query", "best", "best_objective", "objectives", "anchor", "latest",
                                            "before")}
    packed = {f"rule/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(rule))}
    remembered = len(rule.moves) if isinstance(rule, _Lbfgs) else 0
    return plain | packed | {"round": np.asarray(state.round), "remembered": np.asarray(remembered),
                             "natural": np.asarray(state.natural), "ahead": np.asarray(state.ahead),
                             "since": np.asarray(state.since)}


def unpack(options: OptimiserOptions, sites: int, packed: Mapping[str, np.ndarray]) -> State:
    """The state that `pack` was given."""
    begin = init(options, packed["query"], sites, float(packed["natural"]), int(packed["ahead"]))
    form = begin.rule
    if isinstance(form, _Lbfgs):
        pairs = (packed["query"],) * int(packed["remembered"])
        form = form._replace(moves=pairs, changes=pairs)
    leaves, tree = jax.tree.flatten(form)
    stored = [_like(leaf, packed[f"rule/{i}"]) for i, leaf in enumerate(leaves)]
    return begin._replace(
        best=packed["best"], best_objective=float(packed["best_objective"]), round=int(packed["round"]),
        since=int(packed["since"]), anchor=packed["anchor"], latest=packed["latest"],
        before=float(packed["before"]), objectives=tuple(map(float, packed["objectives"])),
        rule=jax.tree.unflatten(tree, stored))


def _like(leaf: Any, value: np.ndarray) -> Any:
    """A Python number where there was one."""
    return type(leaf)(value) if isinstance(leaf, float | int) else value


def _target(state: State) -> float:
    """The gain in nats that is no longer worth a round."""
    return (FIRST if state.ahead else 1.0) * state.options.tolerance * state.sites


# --- quasi-Newton: two-loop L-BFGS with a bisecting weak-Wolfe search ------------------------------------------------


class _Lbfgs(NamedTuple):
    theta: np.ndarray
    objective: float
    gradient: np.ndarray
    direction: np.ndarray
    length: float
    low: float
    high: float
    moves: tuple[np.ndarray, ...]
    changes: tuple[np.ndarray, ...]
    forecast: float
    """½ ∇LᵀH∇L at the last launch with curvature: the gain a whole quasi-Newton step promised. Without curvature, at
    most what the slope promises of the first trial."""

    @staticmethod
    def start(theta: np.ndarray) -> _Lbfgs:
        zero = np.zeros_like(theta)
        return _Lbfgs(theta=theta, objective=-np.inf, gradient=zero, direction=zero, length=0.0, low=0.0, high=np.inf,
                      moves=(), changes=(), forecast=np.inf)


def _lbfgs_step(state: State, rule: _Lbfgs, objective: float, gradient: np.ndarray) -> State:
    if objective > state.best_objective:
        state = state._replace(best=state.query, best_objective=objective)
    if not np.isfinite(rule.objective):
        return _accept(state, rule, objective, gradient) if np.isfinite(objective) else state._replace(verdict=DIVERGED)
    slope = rule.gradient @ rule.direction
    enough = np.isfinite(objective) and objective >= rule.objective + SUFFICIENT * rule.length * slope
    if not enough:
        return _search(state, rule._replace(high=rule.length), _shorter(rule, objective, slope))
    if gradient @ rule.direction > CURVATURE * slope:
        rule = rule._replace(low=rule.length)
        return _search(state, rule, 2.0 * rule.length if np.isinf(rule.high) else 0.5 * (rule.low + rule.high))
    return _accept(state, rule, objective, gradient)


def _shorter(rule: _Lbfgs, objective: float, slope: float) -> float:
    """The next trial below a step that gained too little: the parabola's top, kept within the bracket's middle part."""
    low, high = rule.low, rule.length
    bend = rule.objective + slope * high - objective
    top = 0.5 * slope * high**2 / max(bend, 1e-300) if np.isfinite(objective) else 0.0
    return float(np.clip(top, low + 0.1 * (high - low), low + 0.6 * (high - low)))


def _search(state: State, rule: _Lbfgs, length: float) -> State:
    unseen = length * (rule.gradient @ rule.direction) <= _rounding(rule.objective)
    stuck = rule.high - rule.low < 1e-10 * max(rule.high, 1e-300) or length < 1e-14 or unseen
    if stuck and rule.moves:  # forget the curvature and start again along the gradient
        return _launch(state, rule._replace(moves=(), changes=()))
    if stuck:  # no step gains even along the gradient: at the top to rounding, or the gradient is wrong
        rounding = 1e-9 * (1.0 + abs(rule.objective))
        return state._replace(verdict=CONVERGED if rule.forecast < max(_target(state), rounding) else DIVERGED)
    rule = rule._replace(length=length)
    return state._replace(query=rule.theta + length * rule.direction, rule=rule)


def _accept(state: State, rule: _Lbfgs, objective: float, gradient: np.ndarray) -> State:
    theta = state.query
    move, change = theta - rule.theta, rule.gradient - gradient
    if move @ change > 1e-12 * np.sqrt((move @ move) * (change @ change)):
        rule = rule._replace(moves=(*rule.moves, move)[-HISTORY:], changes=(*rule.changes, change)[-HISTORY:])
    rule = rule._replace(theta=theta, objective=objective, gradient=gradient)
    state = state._replace(objectives=(*state.objectives, objective))
    if _settled(state) or _flat(objective, gradient):
        return state._replace(verdict=CONVERGED, rule=rule)
    return _launch(state, rule)


def _flat(objective: float, gradient: np.ndarray) -> bool:
    """At the top to rounding: no step along the gradient could change the objective's last digits."""
    norm = np.linalg.norm(gradient)
    return bool(min(norm, norm**2) <= _rounding(objective))


def _rounding(objective: float) -> float:
    """A gain that the objective's last digits hide."""
    return 4.0 * float(np.finfo(float).eps) * (1.0 + abs(objective))


def _settled(state: State) -> bool:
    done, patience = state.objectives, state.options.patience
    return len(done) > patience and done[-1] - done[-1 - patience] < _target(state)


def _launch(state: State, rule: _Lbfgs) -> State:
    """A new direction H∇L from the remembered pairs, and its first trial step."""
    metric = _metric(state, rule.theta)
    direction = _two_loop(rule.gradient, rule.moves, rule.changes, metric)
    length = 1.0 if rule.moves else min(1.0, 1.0 / float(np.linalg.norm(np.sqrt(metric) * rule.gradient)))
    slope = float(rule.gradient @ direction)
    forecast = 0.5 * slope if rule.moves else min(rule.forecast, length * slope)
    rule = rule._replace(direction=direction, length=length, low=0.0, high=np.inf, forecast=forecast)
    return state._replace(query=rule.theta + length * direction, rule=rule)


def _metric(state: State, theta: np.ndarray) -> np.ndarray:
    """The diagonal that H starts from: 1, or the inverse Fisher information of q = N(mean, sd²) in (mean, log sd), that
    is (sd², ½): a step then is so many standard deviations, whatever the number of people."""
    if state.round < state.natural:
        return np.ones_like(theta)
    _, log_sd = np.split(theta, 2)
    return np.concatenate([np.exp(2.0 * log_sd), np.full(log_sd.size, 0.5)])


def _two_loop(gradient: np.ndarray, moves: Sequence[np.ndarray], changes: Sequence[np.ndarray],
              metric: np.ndarray) -> np.ndarray:
    """H∇L, H the inverse curvature that the remembered pairs imply, from a multiple of the metric."""
    q, weights = gradient.copy(), []
    for s, y in zip(reversed(moves), reversed(changes), strict=True):
        weights.append((s @ q) / (s @ y))
        q -= weights[-1] * y
    q *= metric
    if moves:
        q *= (moves[-1] @ changes[-1]) / (changes[-1] @ (metric * changes[-1]))
    for s, y, a in zip(moves, changes, reversed(weights), strict=True):
        q += (a - (y @ q) / (s @ y)) * s
    return q


# --- first order: gradient ascent as printed, Adam, Adagrad ----------------------------------------------------------


class _FirstOrder(NamedTuple):
    memory: Any
    """optax's own state."""
    rate: float
    halvings: int
    good: tuple[np.ndarray, Any]
    """Θ and memory of the last finite evaluation."""

    @staticmethod
    def start(options: OptimiserOptions, theta: np.ndarray) -> _FirstOrder:
        memory = _transform(options).init(theta)
        return _FirstOrder(memory, options.learning_rate, 0, (theta, memory))


def _transform(options: OptimiserOptions) -> optax.GradientTransformation:
    """The rule with unit rate; the rate itself is ours, so that it can be halved."""
    return {"ascent": lambda: optax.identity(),
            "adam": lambda: optax.scale_by_adam(),
            "adagrad": lambda: optax.scale_by_rss(initial_accumulator_value=0.0, eps=1e-10)}[options.name]()


def _first_order_step(state: State, rule: _FirstOrder, objective: float, gradient: np.ndarray) -> State:
    if not np.isfinite(objective):
        return _retreat(state, rule)
    move, memory = _transform(state.options).update(gradient, rule.memory)
    objectives = (*state.objectives, objective)
    query = state.query + rule.rate * np.asarray(move)
    verdict = CONVERGED if _noisy_settled(objectives, _target(state)) else None
    return state._replace(query=query, best=state.query, best_objective=objective, objectives=objectives,
                          verdict=verdict,
                          rule=rule._replace(memory=memory, good=(state.query, rule.memory)))


def _retreat(state: State, rule: _FirstOrder) -> State:
    """Back to the last good Θ with half the step; after three halvings the run has diverged."""
    if rule.halvings >= HALVINGS or not state.objectives:
        return state._replace(verdict=DIVERGED, query=state.best)
    theta, memory = rule.good
    return state._replace(query=theta, rule=rule._replace(
        memory=memory, rate=0.5 * rule.rate, halvings=rule.halvings + 1))


def _noisy_settled(objectives: tuple[float, ...], target: float) -> bool:
    """The last window gains less than the target over the one before it, and does not fall beyond its noise."""
    if target == 0 or len(objectives) < 2 * WINDOW or len(objectives) % WINDOW:
        return False
    before, last = np.array(objectives[-2 * WINDOW:-WINDOW]), np.array(objectives[-WINDOW:])
    noise = 3.0 * before.std() * np.sqrt(2.0 / WINDOW)  # the earlier window's: falling apart inflates the later
    return -target - noise < last.mean() - before.mean() < target
