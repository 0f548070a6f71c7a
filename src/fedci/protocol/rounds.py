"""What a fit asks for, exchange by exchange, as generators: each yields an `Ask` and is sent the sum over all sites.

    start(rules)                → Θ to begin with            evaluation(rules, state)     → (L, ∇L) at its Θ
    effects(rules, Θ)           → the draws from q, once the sites have answered with their effects

The coordinator follows them with the sites' answers; a site follows the same ones with the sums it is told, and so
knows what it must be asked next (`protocol.course`). Nothing here knows who answers, nor which model is fitted.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from fedci.effect import CORRELATIONS
from fedci.model.family import NO_ANCHOR, Ask, Rules, Sums
from fedci.model.rows import BetaLaw
from fedci.protocol import optimise
from fedci.protocol.optimise import State


def start(rules: Rules) -> Generator[Ask, Sums, np.ndarray]:
    return (yield from rules.model.start(rules))


def begin(rules: Rules, theta: np.ndarray) -> State:
    """The optimiser before the first round."""
    return optimise.init(rules.options.optimiser, theta, len(rules.u), rules.model.natural_from(rules.people),
                         int(rules.first.rows > 0))


def after(rules: Rules, state: State, objective: float, gradient: np.ndarray,
          anchor: np.ndarray = NO_ANCHOR) -> State:
    """The optimiser after a round; when its first stage is over, it goes on with all people, and a narrower q. A bound
    of the likelihood is moved now and then. Of a fit at home `gradient` is the next Θ."""
    if rules.model.fits_at_home:
        return optimise.told(state, objective, gradient, anchor)
    accepted, best = len(state.objectives), state.best_objective
    state = optimise.step(state, objective, gradient)
    if anchor.size and state.best_objective > best:
        state = state._replace(latest=anchor)
    if optimise.is_to_move(state, accepted):
        state = optimise.moved(state)
    if not (state.ahead and state.verdict and np.isfinite(state.best_objective)):
        return state
    return optimise.with_more(state, rules.model.narrower(state.best, rules.people / rules.first.people))


def evaluation(rules: Rules, state: State) -> Generator[Ask, Sums, tuple[float, np.ndarray, np.ndarray]]:
    """(L, ∇L, the next anchor) at the state's query. (−inf, 0) where a site failed."""
    # the same draws in all rounds (common random numbers), unless fresh ones are wanted
    stream = state.round if rules.options.optimiser.fresh_draws else 0
    return (yield from rules.model.evaluation(rules, state.query, stream, bool(state.ahead), state.anchor))


def effects(rules: Rules, theta: np.ndarray, anchor: np.ndarray = NO_ANCHOR
            ) -> Generator[Ask, Sums, tuple[dict[str, np.ndarray], BetaLaw | None]]:
    """(draws from q, once for all sites, with which each sums its people's effects; the law of β, if the model has
    one)."""
    return (yield from rules.model.effects(rules, theta, CORRELATIONS, anchor))
