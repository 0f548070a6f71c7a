"""What the model says of each person from all *other* people, given a draw: in closed form, no fit is repeated.

All outcomes of the study are jointly Gaussian given a draw, with covariance K = C + ZZᵀ over all sites (C block by
block, the sites' own functions and noise; Z the rows of the shared function, none in the model `paper`). Without person
i, and with S = K⁻¹ and r = S(y − m):

    own outcome          y_i | y_{−i} ~ N( y_i − r_i/S_ii, 1/S_ii )
    E[y_a(x_i) | y_{−i}] = m_a + q_aᵀr − (q_aᵀS)_i r_i/S_ii            q_a = Cov(f_a(x_i), y)

A site has its own block of S from P = I + ZᵀC⁻¹Z over all sites and β̂ = P⁻¹v, which the coordinator has:

    A = C⁻¹,  b_i = ZᵀA_{·i}       S = A − bᵀP⁻¹b       r = A(y − m) − bᵀβ̂
    q_aᵀr = z_aᵀβ̂ + Q_aᵀr          (q_aᵀS)_i = z_aᵀP⁻¹b_i + (Q_a S)_ii          Q_a: the site's own function alone
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from fedci.model import covariance
from fedci.model import law as laws
from fedci.model.law import AnyModel, Draws, SharedDraws
from fedci.model.paper.elbo import SiteArrays, steady
from fedci.model.shared import sparse
from fedci.model.shared.inducing import Blocks
from fedci.model.shared.shared import SharedModel

DRAWS = 8
"""Of the posterior draws, evenly spaced: enough for a mean over people."""


class BetaLaw(NamedTuple):
    """β̃ | y, θ_l ~ N(mean, P⁻¹); of the model `paper`, which has none, with q = 0."""

    mean: Float[Array, "L q"]
    root: Float[Array, "L q q"]
    """Lower root of P."""


class LeftOut(NamedTuple):
    """For each draw and person."""

    arms: Float[Array, "L n 2"]
    """E[y_a(x_i) | y_{−i}]."""
    mean: Float[Array, "L n"]
    var: Float[Array, "L n"]
    """Of the person's own outcome, with its noise."""


def no_beta(draws: int) -> BetaLaw:
    return BetaLaw(np.zeros((draws, 0)), np.zeros((draws, 0, 0)))


def chosen(draws: int) -> np.ndarray:
    """Which draws are used."""
    return np.arange(draws)[::max(draws // DRAWS, 1)][:DRAWS]


@partial(jax.jit, static_argnames="model")
def left_out(model: AnyModel, vector, site: SiteArrays | Blocks, draws: Draws | SharedDraws, beta: BetaLaw,
             jitter) -> LeftOut:
    """In model units, in the order of the site's rows; what stands beyond them means nothing."""
    if isinstance(site, Blocks):
        return _of_blocks(model, site, draws, beta, jitter)
    return jax.lax.map(lambda both: _of_draw(model, vector, site, both[0], BetaLaw(*both[1]), jitter), (draws, beta))


def _of_blocks(model: SharedModel, site: Blocks, draws: SharedDraws, beta: BetaLaw, jitter) -> LeftOut:
    found = jax.lax.map(lambda one: sparse.left_out(model, *one, site, jitter), (draws.theta, beta.mean, beta.root))
    rows = site.row.ravel()

    def in_order(part):
        flat = part.reshape(part.shape[0], rows.size, *part.shape[3:])
        return jnp.zeros((part.shape[0], rows.size + 1, *part.shape[3:])).at[:, rows].set(flat)

    return LeftOut(*map(in_order, found))


def _of_draw(model: AnyModel, vector, site: SiteArrays, draw, beta: BetaLaw, jitter) -> LeftOut:
    law = laws.of_draw(model, vector, draw, site.index)
    m, z = _mean_and_rows(model, law, draw, site)
    people, own_arm = jnp.outer(site.mask, site.mask), covariance.arms(site.w)
    k = law.k(site.x, site.x)
    chol = jnp.linalg.cholesky(steady(people * covariance.observed(law.phi, law.sigma, k, site.w), site, jitter))
    a = cho_solve((chol, True), jnp.eye(site.y.shape[0]))
    observed = jnp.einsum("na,naq->nq", own_arm, z)
    b = observed.T @ a
    white = solve_triangular(beta.root, b, lower=True)
    s = a - white.T @ white
    r = a @ (site.mask * (site.y - jnp.sum(own_arm * m, 1))) - b.T @ beta.mean
    s_ii = jnp.diag(s)
    arms = [_arm(law, site, k, m[:, j], z[:, j], j, beta, white, s, r) for j in (0, 1)]
    return LeftOut(jnp.stack(arms, -1), site.y - r / s_ii, 1.0 / s_ii)


def _arm(law, site: SiteArrays, k, m, z, j: int, beta: BetaLaw, white, s, r):
    """E[y_j(x_i) | y_{−i}] of every row."""
    q = law.phi[j, site.w][None] * k * site.mask[None]
    together = jnp.sum(solve_triangular(beta.root, z.T, lower=True) * white, 0) + jnp.sum(q * s, 1)
    return m + z @ beta.mean + q @ r - together * r / jnp.diag(s)


def _mean_and_rows(model: AnyModel, law, draw, site: SiteArrays):
    """m [n, 2] and z [n, 2, q], 0 for padding: the part of the mean that is fixed, and the rows of β̃."""
    n = site.x.shape[0]
    if isinstance(model, SharedModel):
        theta = model.unravel(draw.theta)
        z = [model.layout.rows(theta, site.x, jnp.broadcast_to(jnp.eye(2)[j], (n, 2))) for j in (0, 1)]
        return jnp.zeros((n, 2)), site.mask[:, None, None] * jnp.stack(z, 1)
    return law.means(site.x)[0], jnp.zeros((n, 2, 0))


@partial(jax.jit, static_argnames="model")
def noise_sd(model: AnyModel, vector, draws: Draws | SharedDraws) -> Float[Array, "L 2"]:
    """√Σ_jj of each draw, in model units."""
    def one(draw):
        return jnp.sqrt(jnp.diag(laws.of_draw(model, vector, draw, jnp.asarray(0)).sigma))

    return jax.lax.map(one, draws)
