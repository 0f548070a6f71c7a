"""The paper's model as a study uses it: one exchange a round, draws of (Φ, Σ) that the coordinator makes.

    Evaluate(Θ, draws)   → a site's term of the objective, its gradient in Θ and in the draws
    AskEffects(Θ, draws) → sums of effects; g of each site from q(g)
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.family import NO_ANCHOR, Answer, Arrays, Ask, Rules, Sums
from fedci.model.law import Law
from fedci.model.paper import elbo, means, posterior
from fedci.model.paper.paper import PaperModel
from fedci.model.paper.posterior import Roots
from fedci.model.rows import Rows, Vector, on_device

EVALUATE, EFFECTS = "Evaluate", "AskEffects"
LAST_STREAM = 10**6
"""Of the draws behind the effects: apart from those of every round."""


class Draws(NamedTuple):
    """L draws, as one site needs them."""

    roots: Roots
    g: Float[Array, "L 2"]


class PaperFamily(PaperModel):
    """Nothing is added to Θ: only what is done with it."""

    # --- the course of a fit

    @property
    def asks(self) -> tuple[str, ...]:
        return EVALUATE, EFFECTS

    def start(self, rules: Rules) -> Generator[Ask, Sums, np.ndarray]:
        """Nobody is asked."""
        yield from ()
        return np.asarray(self.first_vector(rules.seed))

    def evaluation(self, rules: Rules, query: np.ndarray, stream: int, first: bool,
                   anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[float, np.ndarray, np.ndarray]]:
        uniforms = posterior.common_uniforms(rules.seed, stream, rules.options.optimiser.draws)
        return *(yield from self.evaluate(rules.u, query, uniforms)), NO_ANCHOR

    def evaluate(self, u: np.ndarray, theta: np.ndarray,
                 uniforms: np.ndarray) -> Generator[Ask, Sums, tuple[float, np.ndarray]]:
        """(L, ∇_Θ L): one exchange with every site, and the data-free terms."""
        failed = -np.inf, np.zeros_like(theta)
        drawn = elbo.draw(self, theta, uniforms)
        phi, sigma = (np.asarray(roots) for roots in drawn.roots)
        if not (np.isfinite(phi).all() and np.isfinite(sigma).all()):
            return failed
        total = yield Ask(EVALUATE, {"theta": theta, "phi_roots": phi, "sigma_roots": sigma})
        if total["failed"] > 0:
            return failed
        by_roots = total["phi_roots"], total["sigma_roots"]
        value, gradient = elbo.evaluate_global(self, theta, u)
        objective = float(total["objective"] + value)
        gradient = total["gradient"] + np.asarray(gradient) + elbo.pull_back(self, drawn.jacobian, by_roots)
        return (objective, gradient) if np.isfinite(objective) and np.isfinite(gradient).all() else failed

    def effects(self, rules: Rules, theta: np.ndarray, correlations: np.ndarray,
                anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[dict[str, np.ndarray], None]]:
        uniforms = posterior.common_uniforms(rules.seed, LAST_STREAM, rules.options.prediction.draws)
        phi, sigma = (np.asarray(roots) for roots in elbo.draw(self, theta, uniforms).roots)
        drawn = {"phi_roots": phi, "sigma_roots": sigma, "g": self._draw_g(rules, theta)}
        yield Ask(EFFECTS, {"theta": theta, **drawn, "correlations": correlations})
        return drawn, None

    def _draw_g(self, rules: Rules, theta: np.ndarray) -> np.ndarray:
        """[L, m, 2] draws of g from q; zeros where inter-dependency is off."""
        draws, m = rules.options.prediction.draws, len(rules.u)
        if not self.options.inter_dependency:
            return np.zeros((draws, m, 2))
        normals = np.random.default_rng(np.random.SeedSequence((rules.seed, 2))).standard_normal((draws, m, 2))
        law = posterior.g_posterior(self, self.unravel(jnp.asarray(theta)), jnp.asarray(rules.u))
        return np.asarray(posterior.draw_g(law, jnp.asarray(normals)))

    # --- what a site answers

    def answer(self, name: str, arrays: Arrays, rows: Rows, memory: Any) -> Answer:
        roots = Roots(on_device(arrays["phi_roots"]), on_device(arrays["sigma_roots"]))
        for jitter in self.jitters:
            value, (gradient, by_roots) = jax.device_get(
                elbo.evaluate_site(self, arrays["theta"], roots, rows, jitter))
            if all(np.isfinite(part).all() for part in (value, gradient, *by_roots)):
                return Answer({"objective": value, "gradient": gradient, "phi_roots": by_roots.phi,
                               "sigma_roots": by_roots.sigma, "failed": 0}, jitter)
        zeros = np.zeros_like(arrays["phi_roots"])
        return Answer({"objective": 0.0, "gradient": np.zeros_like(arrays["theta"]), "phi_roots": zeros,
                       "sigma_roots": zeros, "failed": 1}, self.options.jitter)

    def received(self, arrays: Arrays, index: int) -> tuple[np.ndarray, Draws]:
        return np.asarray(arrays["theta"]), self.draws_at(arrays, index)

    # --- draws

    def draws_at(self, arrays: Arrays, index: int) -> Draws:
        roots = Roots(on_device(arrays["phi_roots"]), on_device(arrays["sigma_roots"]))
        return Draws(roots, on_device(np.asarray(arrays["g"])[:, index]))

    def draws_elsewhere(self, arrays: Arrays, theta: np.ndarray, u: np.ndarray, pooled_u: np.ndarray,
                        seed: int) -> Draws:
        """g by the source-level law given the sites' own."""
        here, draws = self.draws_at(arrays, 0), len(arrays["g"])
        if not self.options.inter_dependency:
            return here._replace(g=jnp.zeros((draws, 2)))
        normals = np.random.default_rng(np.random.SeedSequence((seed, 4))).standard_normal((draws, 2))
        return here._replace(g=posterior.g_elsewhere(
            self, self.unravel(jnp.asarray(theta)), jnp.asarray(u), jnp.asarray(pooled_u[self.x_moments]),
            jnp.asarray(arrays["g"]), jnp.asarray(normals)))

    def law(self, vector: Vector, draw: Draws, index: Array) -> Law:
        theta, (phi, sigma) = self.unravel(vector), draw.roots

        def arms(x: Float[Array, "n d"]) -> Float[Array, "n 2"]:
            return (means.over_rows(self.mean, theta["mean"], x, index) + draw.g[None]) @ phi.T

        return Law(phi=phi @ phi.T, sigma=sigma @ sigma.T,
                   k=lambda x, z: kernels.cross(self.kernel, theta["kernel"], x, z),
                   own=lambda x: kernels.diagonal(self.kernel, theta["kernel"], x),
                   means=lambda x: arms(x)[None], fixed=arms, design=lambda x: jnp.zeros((x.shape[0], 2, 0)))
