"""q(g), q(Φ), q(Σ): their moments at one site, their divergences from the priors, their draws.

    p(g_j) = N(r_j(x̃), M),  M = γ(x̃, x̃')         q(g_j) = N(h_j(u), U),  U = κ(u, u')         j = 0, 1

Given (Φ, Σ) the likelihood of a site is Gaussian in g^s, so a site needs only h(u^s) and U_ss; the m × m
matrices stay with the coordinator.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, Int
from scipy.stats import qmc

from fedci.model import kernels
from fedci.model.family import Theta
from fedci.model.paper import means, wishart
from fedci.model.paper.paper import PaperModel
from fedci.study.options import WishartOptions

UNIFORMS = 6
"""Uniforms behind one draw of (Φ, Σ): two χ² each, then one normal each."""


class SourceLevel(NamedTuple):
    """A law of g over the m sites: both arms share the covariance."""

    mean: Float[Array, "m 2"]
    cov: Float[Array, "m m"]


class Roots(NamedTuple):
    """L draws of Φ^{1/2} and Σ^{1/2}, lower Cholesky factors."""

    phi: Float[Array, "L 2 2"]
    sigma: Float[Array, "L 2 2"]


@lru_cache(maxsize=8)
def common_uniforms(seed: int, stream: int, draws: int) -> np.ndarray:
    """[draws, 6] uniforms, the same for the same (seed, stream).

    Scrambled Sobol points: each is uniform, and together they fill the cube more evenly than independent ones,
    so eight draws integrate (Φ, Σ) about as well as sixty-four.
    """
    rng = np.random.default_rng(np.random.SeedSequence((seed, 1, stream)))
    points = qmc.Sobol(UNIFORMS, scramble=True, rng=rng).random_base2(max(draws - 1, 0).bit_length())
    points = np.clip(points[:draws], 1e-12, 1.0 - 1e-12)
    points.setflags(write=False)  # shared by all rounds
    return points


def roots(model: PaperModel, theta: Theta, uniforms: Float[Array, "L 6"]) -> Roots:
    """Draws of (Φ, Σ) from q, one per row of uniforms."""
    return wishart_roots(model.options.phi, model.options.sigma, theta["phi"], theta["sigma"], uniforms)


def wishart_roots(phi: WishartOptions, sigma: WishartOptions, phi_params: wishart.Params,
                  sigma_params: wishart.Params, uniforms: Float[Array, "L 6"]) -> Roots:
    """`roots` from the two parts of Θ it needs: compiled once for all models with these options."""
    q_phi, q_sigma = wishart.posterior(phi, phi_params), wishart.posterior(sigma, sigma_params)
    dof = jnp.array([q_phi.dof, q_phi.dof - 1.0, q_sigma.dof, q_sigma.dof - 1.0])
    chi2 = wishart.chi_square(jnp.broadcast_to(dof, (uniforms.shape[0], 4)), uniforms[:, :4])
    normals = ndtri(uniforms[:, 4:])
    return jax.vmap(lambda c, z: Roots(wishart.root_draw(q_phi, c[:2], z[0]),
                                       wishart.root_draw(q_sigma, c[2:], z[1])))(chi2, normals)


def g_at_site(model: PaperModel, theta: Theta, u: Float[Array, "q"],
              site: Int[Array, ""]) -> tuple[Float[Array, "2"], Float[Array, ""]]:
    """(h(u^s) [2], U_ss): mean and variance of g^s under q, the same variance for both arms."""
    if not model.options.inter_dependency:
        return jnp.zeros(2), jnp.zeros(())
    variance = _steadier(model) * model.posterior_kernel.evaluate(theta["posterior_kernel"], u, u)
    return model.posterior_mean.evaluate(theta["posterior_mean"], u, site), variance


def g_posterior(model: PaperModel, theta: Theta, u: Float[Array, "m q"]) -> SourceLevel:
    cov = kernels.cross(model.posterior_kernel, theta["posterior_kernel"], u, u)
    return SourceLevel(_by_site(model.posterior_mean, theta["posterior_mean"], u), _steady(model, cov))


def g_prior(model: PaperModel, theta: Theta, u: Float[Array, "m q"]) -> SourceLevel:
    x = u[:, model.x_moments]
    cov = kernels.cross(model.source_kernel, theta["source_kernel"], x, x)
    return SourceLevel(_by_site(model.source_mean, theta["source_mean"], x), _steady(model, cov))


def _by_site(mean: means.Mean, params: means.Params, inputs: Float[Array, "m k"]) -> Float[Array, "m 2"]:
    return jax.vmap(lambda row, s: mean.evaluate(params, row, s))(inputs, jnp.arange(inputs.shape[0]))


def _steady(model: PaperModel, cov: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Sites with alike moments make M and U nearly singular: the source level needs more jitter than 1e-10."""
    return cov + (_steadier(model) - 1.0) * jnp.diag(jnp.diag(cov))


def _steadier(model: PaperModel) -> float:
    """The factor of the diagonal of M and U; the sites' U_ss carries it too, so that there is one q."""
    return 1.0 + max(model.options.jitter, 1e-8)


def divergence_g(q: SourceLevel, p: SourceLevel) -> Float[Array, ""]:
    """Σ_j KL(N(h_j, U)‖N(r_j, M)) = ½ Σ_j [tr M⁻¹U − m + (h_j − r_j)ᵀM⁻¹(h_j − r_j) + log|M| − log|U|]."""
    chol_p, chol_q = jnp.linalg.cholesky(p.cov), jnp.linalg.cholesky(q.cov)
    gap = q.mean - p.mean
    trace = jnp.trace(cho_solve((chol_p, True), q.cov))
    volumes = _log_det(chol_p) - _log_det(chol_q)
    return 0.5 * (2.0 * (trace - gap.shape[0] + volumes) + jnp.sum(gap * cho_solve((chol_p, True), gap)))


def _log_det(chol: Float[Array, "m m"]) -> Float[Array, ""]:
    return 2.0 * jnp.sum(jnp.log(jnp.diag(chol)))


def draw_g(law: SourceLevel, normals: Float[Array, "L m 2"]) -> Float[Array, "L m 2"]:
    """g_j = h_j + U^{1/2} ξ_j for each draw: the paper's reparameterisation."""
    return law.mean[None] + jnp.einsum("st,ltj->lsj", jnp.linalg.cholesky(law.cov), normals)


def g_elsewhere(model: PaperModel, theta: Theta, u: Float[Array, "m q"], x_new: Float[Array, "k"],
                g: Float[Array, "L m 2"], normals: Float[Array, "L 2"]) -> Float[Array, "L 2"]:
    """Draws of g at a site outside the study with covariate moments x̃*: p(g* | g) of the source-level GP.

        g* ~ N(r* + M*ᵀM⁻¹(g − r), M** − M*ᵀM⁻¹M*)      (r* is the sites' average where r is a table)
    """
    p = g_prior(model, theta, u)
    x = u[:, model.x_moments]
    across = kernels.cross(model.source_kernel, theta["source_kernel"], x, x_new[None])[:, 0]
    own = model.source_kernel.evaluate(theta["source_kernel"], x_new, x_new)
    weights = cho_solve((jnp.linalg.cholesky(p.cov), True), across)
    is_table = model.options.source_mean.kind == "table"
    r_new = jnp.mean(p.mean, 0) if is_table else model.source_mean.evaluate(
        theta["source_mean"], x_new, jnp.asarray(0))
    mean = r_new[None] + jnp.einsum("s,lsj->lj", weights, g - p.mean[None])
    return mean + jnp.sqrt(jnp.maximum(own - weights @ across, 0.0)) * normals
