"""The objective: one term per site, and one that needs no data.

    L = Σ_s E_q[log p(y^s | g^s, Φ, Σ)] − KL(q(g)‖p(g)) − KL(q(Φ)‖p(Φ)) − KL(q(Σ)‖p(Σ))

g is integrated in closed form (Z has rows A(w_i), e = y − A(w)·μ − Z h):

    E_q(g) log p = −½ [ eᵀC⁻¹e + U_ss tr(ZᵀC⁻¹Z) + log|C| + n log 2π ],     C = K_obs

(Φ, Σ) are averaged over draws that the coordinator makes and every site shares. A site answers with its gradient
in Θ *given the draws* and its gradient in the draws; both are sums over sites, and the coordinator pulls the second
back through Φ(V_q, d_q) and Σ(S_q, n_q). Together they are the paper's ∇_Θ L^s, at a third of the compilation.

The KL terms are computed once, by the coordinator: the paper's shares of 1/m add up to the same, but a site that
drops out would change the objective.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from fedci.model import covariance, kernels
from fedci.model.exact import ExactRows, batch_size, observed_covariance
from fedci.model.family import Theta
from fedci.model.paper import means, posterior, wishart
from fedci.model.paper.paper import MOMENTS, PaperModel
from fedci.model.paper.posterior import Roots
from fedci.model.programs import compiled
from fedci.model.rows import Scalar, Vector
from fedci.study.options import WishartOptions

Quadratic = tuple[Array, Array]
"""(Σ_j weight_j b_jᵀC⁻¹b_j, log|C|)."""
Saved = tuple[Array, Array, Array, Array]
"""(C^{−1/2}, C^{−1/2}b, b_jᵀC⁻¹b_j, weight): what the way back needs."""


class Residual(NamedTuple):
    """What the likelihood of one draw needs, all differentiable."""

    k: Float[Array, "n n"]
    mean: Float[Array, "n 2"]
    h: Float[Array, "2"]
    g_variance: Float[Array, ""]


def site_term(model: PaperModel, theta: Theta, roots: Roots, site: ExactRows,
              jitter: Scalar) -> Float[Array, ""]:
    """E_q[log p(y^s | g^s, Φ, Σ)], (Φ, Σ) averaged over the draws."""
    h, g_variance = posterior.g_at_site(model, theta, site.u, site.index)
    residual = Residual(kernels.cross(model.kernel, theta["kernel"], site.x, site.x),
                        means.over_rows(model.mean, theta["mean"], site.x, site.index), h, g_variance)
    return _mean_over_draws(residual, roots, site, jitter)


def draw_term(residual: Residual, root_phi: Float[Array, "2 2"], root_sigma: Float[Array, "2 2"],
              site: ExactRows, jitter: Scalar) -> Float[Array, ""]:
    """E_q(g)[log p(y^s | g^s, Φ, Σ)] for one (Φ, Σ)."""
    z = covariance.arms(site.w) @ root_phi * site.mask[:, None]
    e = site.mask * site.y - jnp.sum(z * (residual.mean + residual.h[None]), 1)
    c = observed_covariance(root_phi, root_sigma, residual.k, site, jitter)
    quadratic, log_det = weighted_quadratic(c, jnp.column_stack([e, z]), jnp.array([1.0, 0.0, 0.0]).at[1:].set(
        residual.g_variance))
    return -0.5 * (quadratic + log_det + jnp.sum(site.mask) * math.log(2.0 * math.pi))


@jax.custom_vjp
def weighted_quadratic(c: Float[Array, "n n"], b: Float[Array, "n k"], weight: Float[Array, "k"]) -> Quadratic:
    """(Σ_j weight_j b_jᵀC⁻¹b_j, log|C|), with the gradients in closed form: ∂ = −X diag(weight) Xᵀ and C⁻¹.

    X = C⁻¹b. Cheaper and steadier than differentiating through the Cholesky factor.
    """
    return _weighted_quadratic_forward(c, b, weight)[0]


def _weighted_quadratic_forward(c: Float[Array, "n n"], b: Float[Array, "n k"],
                                weight: Float[Array, "k"]) -> tuple[Quadratic, Saved]:
    chol = jnp.linalg.cholesky(c)
    inverse_root = solve_triangular(chol, jnp.eye(c.shape[0]), lower=True)
    white = inverse_root @ b
    each = jnp.sum(white * white, 0)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diag(chol)))
    return (each @ weight, log_det), (inverse_root, white, each, weight)


def _weighted_quadratic_backward(saved: Saved, cotangents: Quadratic) -> tuple[Array, Array, Array]:
    inverse_root, white, each, weight = saved
    by_quadratic, by_log_det = cotangents
    x = inverse_root.T @ white
    c_bar = by_log_det * (inverse_root.T @ inverse_root) - by_quadratic * (x * weight[None]) @ x.T
    return c_bar, 2.0 * by_quadratic * x * weight[None], by_quadratic * each


weighted_quadratic.defvjp(_weighted_quadratic_forward, _weighted_quadratic_backward)


Summed = tuple[Array, Residual]
"""Of the draws so far: (value, gradient in the residual)."""
Gradient = tuple[tuple[Residual, Roots], ExactRows, Scalar]
"""((gradient in the residual, in the draws), and what has none)."""


@jax.custom_vjp
def _mean_over_draws(residual: Residual, roots: Roots, site: ExactRows, jitter: Scalar) -> Float[Array, ""]:
    """Average of `draw_term` over the draws.

    Its gradient is summed draw by draw on the way forward: memory stays at a few n × n matrices however many
    draws there are, where plain reverse mode would keep one per draw.
    """
    return _mean_over_draws_forward(residual, roots, site, jitter)[0]


def _mean_over_draws_forward(residual: Residual, roots: Roots, site: ExactRows,
                             jitter: Scalar) -> tuple[Float[Array, ""], Gradient]:
    draws, n = roots.phi.shape[0], site.x.shape[0]
    batch = batch_size(draws, n)
    term = jax.vmap(jax.value_and_grad(draw_term, argnums=(0, 1, 2)), in_axes=(None, 0, 0, None, None))

    def add_batch(total: Summed, batch_roots: Roots) -> tuple[Summed, tuple[Array, Array]]:
        value, (by_residual, by_phi, by_sigma) = term(residual, *batch_roots, site, jitter)
        summed = jax.tree.map(lambda leaf: leaf.sum(0), (value, by_residual))
        return jax.tree.map(jnp.add, total, summed), (by_phi, by_sigma)

    start = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, residual))
    batches = jax.tree.map(lambda leaf: leaf.reshape(draws // batch, batch, 2, 2), roots)
    (value, by_residual), by_roots = jax.lax.scan(add_batch, start, batches)
    by_roots = Roots(*(leaf.reshape(draws, 2, 2) for leaf in by_roots))
    gradient = jax.tree.map(lambda leaf: leaf / draws, (by_residual, by_roots))
    return value / draws, (gradient, site, jitter)


def _mean_over_draws_backward(saved: Gradient, cotangent: Float[Array, ""]) -> tuple[Residual, Roots, Any, Any]:
    (by_residual, by_roots), site, jitter = saved
    scaled = jax.tree.map(lambda leaf: cotangent * leaf, (by_residual, by_roots))
    return scaled[0], scaled[1], jax.tree.map(_no_gradient, site), jnp.zeros_like(jitter)


def _no_gradient(leaf: Any) -> Vector:
    """The zero cotangent JAX asks for: float0 for integers. Data are not differentiated."""
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return jnp.zeros_like(leaf)
    return np.zeros(leaf.shape, jax.dtypes.float0)


_mean_over_draws.defvjp(_mean_over_draws_forward, _mean_over_draws_backward)


def global_term(model: PaperModel, theta: Theta, u: Float[Array, "m q"]) -> Float[Array, ""]:
    """− KL(q(g)‖p(g)) − KL(q(Φ)‖p(Φ)) − KL(q(Σ)‖p(Σ)) + log priors of μ's weights and of the kernels' logs."""
    options = model.options
    total = -wishart.divergence(wishart.posterior(options.phi, theta["phi"]), wishart.prior(options.phi))
    total -= wishart.divergence(wishart.posterior(options.sigma, theta["sigma"]), wishart.prior(options.sigma))
    if options.inter_dependency:
        total -= posterior.divergence_g(posterior.g_posterior(model, theta, u), posterior.g_prior(model, theta, u))
    return total + log_prior(model, theta)


def log_prior(model: PaperModel, theta: Theta) -> Float[Array, ""]:
    """Gaussian priors of the point estimates, up to a constant: μ's weights around 0, log-scales of k and γ around
    their start. κ has none: it belongs to q, and what q may be is not ours to prefer."""
    total = jnp.zeros(())
    if model.options.weight_sd is not None:
        total -= 0.5 * _sum_of_squares(_weights(theta["mean"])) / model.options.weight_sd**2
    if model.options.hyper_sd is not None:
        for name, dim in (("kernel", model.covariates), ("source_kernel", MOMENTS * model.described)):
            if name in theta:
                start = getattr(model, name).init(dim)
                away = jax.tree.map(jnp.subtract, theta[name], start)
                total -= 0.5 * _sum_of_squares(away) / model.options.hyper_sd**2
    return total


def _weights(tree: Theta) -> Theta:
    """The weights without the biases: a shift of the outcome is not penalised."""
    return {key: _weights(value) if isinstance(value, dict) else value
            for key, value in tree.items() if key != "bias"}


def _sum_of_squares(tree: Theta) -> Float[Array, ""]:
    return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)), start=jnp.zeros(()))


@compiled(static="model")
def evaluate_site(model: PaperModel, vector: Float[Array, "p"], roots: Roots, site: ExactRows,
                  jitter: Scalar) -> tuple[Array, tuple[Array, Roots]]:
    """(site term, (gradient in Θ, gradient in the draws)): what a site answers each round.

    Compiled once per model and padded shape, so sites of one size class share it.
    """
    def term(v: Float[Array, "p"], r: Roots) -> Float[Array, ""]:
        return site_term(model, model.unravel(v), r, site, jitter)

    return jax.value_and_grad(term, argnums=(0, 1))(vector, roots)


@compiled(static="model")
def evaluate_global(model: PaperModel, vector: Float[Array, "p"], u: Float[Array, "m q"]) -> tuple[Array, Array]:
    """(data-free term, its gradient in Θ): what the coordinator adds each round."""
    return jax.value_and_grad(lambda v: global_term(model, model.unravel(v), u))(vector)


class Drawn(NamedTuple):
    """Draws that go with a Θ, and how they move with it (NumPy arrays)."""

    roots: Roots
    jacobian: Vector
    """[2, L, 2, 2, k]: ∂(Φ^{1/2}, Σ^{1/2})/∂(the k parameters of q(Φ) and q(Σ))."""


def draw(model: PaperModel, vector: Vector, uniforms: Vector) -> Drawn:
    """(Φ^{1/2}, Σ^{1/2}) for Θ and the uniforms, with their derivative: eight parameters only, so it is cheap, and the
    gradient needs no second pass through the quantile function."""
    places = wishart_places(model)
    roots, jacobian = jax.device_get(_draw(model.options.phi, model.options.sigma,
                                           np.concatenate([vector[place] for place in places]), uniforms))
    return Drawn(Roots(*roots), jacobian)


def pull_back(model: PaperModel, jacobian: Vector, by_roots: tuple[Vector, Vector]) -> np.ndarray:
    """The sites' summed gradient in the draws, as a gradient in Θ: Σ_l ⟨by_roots_l, ∂roots_l/∂Θ⟩."""
    gradient, at = np.zeros(model.size), 0
    small = np.tensordot(np.stack(by_roots), jacobian, 4)
    for place in wishart_places(model):
        width = place.stop - place.start
        gradient[place] = small[at:at + width]
        at += width
    return gradient


def wishart_places(model: PaperModel) -> tuple[slice, slice]:
    """Where the parameters of q(Φ) and of q(Σ) stand in the vector."""
    return model.place("phi"), model.place("sigma")


@compiled(static=("phi", "sigma"))
def _draw(phi: WishartOptions, sigma: WishartOptions, small: Float[Array, "k"],
          uniforms: Float[Array, "L 6"]) -> tuple[Float[Array, "2 L 2 2"], Float[Array, "2 L 2 2 k"]]:
    """(roots [2, L, 2, 2], their derivative in `small`): compiled once for all models with these Wishart options."""
    unravel = ravel_pytree([wishart.init(phi), wishart.init(sigma)])[1]

    def roots(values: Float[Array, "k"]) -> tuple[Array, Array]:
        of_phi, of_sigma = unravel(values)
        both = jnp.stack(posterior.wishart_roots(phi, sigma, of_phi, of_sigma, uniforms))
        return both, both

    jacobian, both = jax.jacfwd(roots, has_aux=True)(small)
    return both, jacobian
