"""What a fit asks for, exchange by exchange, as generators: each yields an `Ask` and is sent the sum over all sites.

    start(rules)                → Θ to begin with            evaluation(rules, state)     → (L, ∇L) at its Θ
    effects(rules, Θ)           → the draws from q, once the sites have answered with their effects

The coordinator follows them with the sites' answers; a site follows the same ones with the sums it is told, and so
knows what it must be asked next (`protocol.trajectory`). Nothing here knows who answers.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedci.model.law import AnyModel
from fedci.model.paper import elbo, posterior
from fedci.model.paper.posterior import Roots
from fedci.model.shared import evidence
from fedci.model.shared.shared import SharedModel
from fedci.protocol import optimise, shared_rounds, stages
from fedci.protocol.ask import Ask, Sums
from fedci.protocol.optimise import State
from fedci.study.options import FitOptions

CORRELATIONS = np.array([np.nan, 0.0, 0.5, 0.9])
"""Noise correlations at which realised effects are reported; NaN: Σ's own draws, which equal its prior."""

MANY_PEOPLE = 1000
"""At all sites together: from there on the fit takes natural steps from its first round on."""
PLAIN = 25
"""Rounds of plain steps with fewer people."""


class Rules(NamedTuple):
    """All that the course of a fit depends on, beside the sums."""

    model: AnyModel
    options: FitOptions
    seed: int
    u: np.ndarray
    """[m, q] the sites' moments in model units."""
    people: int
    few: stages.First = stages.First()


def natural(rules: Rules) -> float:
    """The round from which on steps are measured by q itself, inf: never. They need fewer rounds; but with few people,
    where there may be several tops, plain ones find the higher more often, and those come first."""
    model = rules.model
    if not (isinstance(model, SharedModel) and model.options.posterior == "gaussian"):
        return np.inf
    return 0 if rules.people >= MANY_PEOPLE else PLAIN


def start(rules: Rules) -> Generator[Ask, Sums, np.ndarray]:
    if isinstance(rules.model, SharedModel):
        return (yield from shared_rounds.start(rules.model, float(rules.few.rows)))
    return rules.model.start(rules.seed)


def begin(rules: Rules, theta: np.ndarray) -> State:
    """The optimiser before the first round."""
    return optimise.init(rules.options.optimiser, theta, len(rules.u), natural(rules), int(rules.few.rows > 0))


def after(rules: Rules, state: State, objective: float, gradient: np.ndarray) -> State:
    """The optimiser after a round; when its first stage is over, it goes on with all people.

    With 1/sd² = 1/s_p² + n·(what a person tells), n times c the sds of q shrink to (1/s_p² + c(1/sd² − 1/s_p²))^−½.
    """
    state = optimise.step(state, objective, gradient)
    if not (state.ahead and state.verdict and np.isfinite(state.best_objective)):
        return state
    more = rules.people / rules.few.people
    known, sd = 1.0 / rules.model.prior[1] ** 2, np.exp(np.split(state.best, 2)[1])
    told = np.maximum(1.0 / sd**2 - known, 0.0)
    return optimise.with_more(state, np.sqrt((known + told) / (known + more * told)))


def evaluation(rules: Rules, state: State) -> Generator[Ask, Sums, tuple[float, np.ndarray]]:
    """(L, ∇L) at the state's query. (−inf, 0) where a site failed."""
    optimiser, query, number = rules.options.optimiser, state.query, state.round
    stream = number if optimiser.fresh_draws else 0  # else the same draws in all rounds: common random numbers
    if isinstance(rules.model, SharedModel):
        normals = evidence.common_normals(rules.seed, stream, optimiser.draws, rules.model.size)
        rows, people = rules.few if state.ahead else (0, rules.people)
        return (yield from shared_rounds.evaluate(rules.model, query, people, normals, rows))
    uniforms = posterior.common_uniforms(rules.seed, stream, optimiser.draws)
    return (yield from evaluate(rules.model, rules.u, query, uniforms))


def evaluate(model: AnyModel, u: np.ndarray, theta: np.ndarray, uniforms: np.ndarray):
    """(L, ∇_Θ L) of the model `paper`: one exchange with every site, and the data-free terms."""
    failed = -np.inf, np.zeros_like(theta)
    drawn = elbo.draw(model, theta, uniforms)
    phi, sigma = (np.asarray(roots) for roots in drawn.roots)
    if not (np.isfinite(phi).all() and np.isfinite(sigma).all()):
        return failed
    total = yield Ask("Evaluate", {"theta": theta, "phi_roots": phi, "sigma_roots": sigma})
    if total["failed"] > 0:
        return failed
    by_roots = Roots(total["phi_roots"], total["sigma_roots"])
    value, gradient = elbo.evaluate_global(model, theta, u)
    objective = float(total["objective"] + value)
    gradient = total["gradient"] + np.asarray(gradient) + elbo.pull_back(model, drawn.jacobian, by_roots)
    return (objective, gradient) if np.isfinite(objective) and np.isfinite(gradient).all() else failed


def effects(rules: Rules, theta: np.ndarray
            ) -> Generator[Ask, Sums, tuple[dict[str, np.ndarray], evidence.Collapsed | None]]:
    """(draws from q, once for all sites, with which each sums its people's effects; the law of β, if the model has
    one)."""
    draws = rules.options.prediction.draws
    if isinstance(rules.model, SharedModel):
        return (yield from shared_rounds.gather(rules.model, theta, draws, rules.seed, CORRELATIONS))
    uniforms = posterior.common_uniforms(rules.seed, 10**6, draws)
    phi, sigma = (np.asarray(roots) for roots in elbo.draw(rules.model, theta, uniforms).roots)
    drawn = {"phi_roots": phi, "sigma_roots": sigma, "g": draw_source_level(rules, theta)}
    yield Ask("AskEffects", {"theta": theta, **drawn, "correlations": CORRELATIONS})
    return drawn, None


def draw_source_level(rules: Rules, theta: np.ndarray) -> np.ndarray:
    """[L, m, 2] draws of g from q; zeros where inter-dependency is off."""
    model, draws, m = rules.model, rules.options.prediction.draws, len(rules.u)
    if not model.options.inter_dependency:
        return np.zeros((draws, m, 2))
    normals = np.random.default_rng(np.random.SeedSequence((rules.seed, 2))).standard_normal((draws, m, 2))
    law = posterior.g_posterior(model, model.unravel(jnp.asarray(theta)), jnp.asarray(rules.u))
    return np.asarray(posterior.draw_g(law, jnp.asarray(normals)))
