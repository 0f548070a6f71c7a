"""2 × 2 Wishart laws for Φ and Σ: the paper's ρ/ν (η/δ) form, divergence, and draws with gradients.

    W ~ Wishart(V, d),   E W = d·V,   d > 1
    V = [[ν₁², ρν₁ν₂], [ρν₁ν₂, ν₂²]]
    Bartlett: W = L T Tᵀ Lᵀ,  V = L Lᵀ,  T = [[c₁, 0], [z, c₂]],  c₁² ~ χ²_d,  c₂² ~ χ²_{d−1},  z ~ N(0, 1)

A draw is a *smooth* function of three uniforms and of (V, d): χ² comes from its quantile function, not from a
rejection sampler whose acceptances jump when d moves. With common uniforms the objective is then deterministic
and differentiable in d as well, which quasi-Newton steps need.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammainc, gammaln, ndtri
from jaxtyping import Array, Float

from fedci.study.options import WishartOptions

Params = dict[str, Array]
LEAST_DOF = 2.0
"""The paper asks for d ≥ 2; below, the density is unbounded at singular matrices."""


class Wishart(NamedTuple):
    scale: Float[Array, "2 2"]
    dof: Float[Array, ""]


def prior(options: WishartOptions) -> Wishart:
    return Wishart(jnp.asarray(options.scale), jnp.asarray(options.dof))


def init(options: WishartOptions) -> Params:
    """Parameters of q that start at the prior's mean: V_q = d₀V₀ / d_q."""
    start = options.start_dof or options.dof
    (a, _), (_, c) = options.scale
    params = {"log_sd": 0.5 * jnp.log(jnp.array([a, c]) * options.dof / start)}
    if options.learn_correlation:
        params["raw_correlation"] = jnp.asarray(_inverse_correlation(_prior_correlation(options), options.correlation))
    if options.learn_dof:
        params["log_dof"] = jnp.log(jnp.asarray(max(start - LEAST_DOF, 1e-3)))
    return params


def _prior_correlation(options: WishartOptions) -> float:
    (a, b), (_, c) = options.scale
    return b / math.sqrt(a * c)


def _inverse_correlation(value: float, kind: str) -> float:
    """Where ρ starts, kept off the ends of its range: there its gradient would vanish."""
    if kind == "positive":
        value = min(max(value, 0.02), 0.98)
        return math.log(value / (1.0 - value))
    return math.atanh(min(max(value, -0.98), 0.98))


def posterior(options: WishartOptions, params: Params) -> Wishart:
    """q(Φ) or q(Σ) from its unconstrained parameters."""
    sd = jnp.exp(params["log_sd"])
    off = _correlation(options, params) * sd[0] * sd[1]
    dof = LEAST_DOF + jnp.exp(params["log_dof"]) if options.learn_dof else jnp.asarray(
        options.start_dof or options.dof)
    return Wishart(jnp.array([[sd[0] ** 2, off], [off, sd[1] ** 2]]), dof)


def _correlation(options: WishartOptions, params: Params) -> Float[Array, ""] | float:
    if not options.learn_correlation:
        return _prior_correlation(options)
    raw = params["raw_correlation"]
    return jax.nn.sigmoid(raw) if options.correlation == "positive" else jnp.tanh(raw)


def cholesky2(v: Float[Array, "2 2"]) -> Float[Array, "2 2"]:
    """Lower Cholesky factor of a 2 × 2 matrix, in closed form."""
    a = jnp.sqrt(v[0, 0])
    b = v[1, 0] / a
    return jnp.array([[a, 0.0], [b, jnp.sqrt(v[1, 1] - b * b)]])


def divergence(q: Wishart, p: Wishart) -> Float[Array, ""]:
    """KL(q‖p) = ½[d₀(log|V₀| − log|V_q|) + d_q(tr V₀⁻¹V_q − 2)] + log Γ₂(d₀/2) − log Γ₂(d_q/2) + ½(d_q − d₀)ψ₂(d_q/2).

    ψ₂(a) = ψ(a) + ψ(a − ½).
    """
    trace = _trace_of_ratio(p.scale, q.scale)
    log_volumes = jnp.log(_det(p.scale)) - jnp.log(_det(q.scale))
    return (0.5 * (p.dof * log_volumes + q.dof * (trace - 2.0))
            + _log_gamma2(0.5 * p.dof) - _log_gamma2(0.5 * q.dof)
            + 0.5 * (q.dof - p.dof) * (digamma(0.5 * q.dof) + digamma(0.5 * (q.dof - 1.0))))


def _trace_of_ratio(v: Float[Array, "2 2"], w: Float[Array, "2 2"]) -> Float[Array, ""]:
    """tr V⁻¹W of symmetric 2 × 2 matrices."""
    return (v[1, 1] * w[0, 0] + v[0, 0] * w[1, 1] - 2.0 * v[0, 1] * w[0, 1]) / _det(v)


def _det(v: Float[Array, "2 2"]) -> Float[Array, ""]:
    return v[0, 0] * v[1, 1] - v[0, 1] * v[1, 0]


def _log_gamma2(a: Float[Array, ""]) -> Float[Array, ""]:
    """log Γ₂(a) = ½ log π + log Γ(a) + log Γ(a − ½)."""
    return 0.5 * math.log(math.pi) + gammaln(a) + gammaln(a - 0.5)


def chi_square(dof: Float[Array, "*k"], uniforms: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """χ²_dof as a smooth function of a uniform and of dof."""
    return 2.0 * gamma_quantile(0.5 * dof, uniforms)


def root_draw(law: Wishart, chi2: Float[Array, "2"], normal: Float[Array, ""]) -> Float[Array, "2 2"]:
    """W^{1/2} = L T, the lower Cholesky factor of one draw, from c₁², c₂² and z."""
    c = jnp.sqrt(chi2)
    return cholesky2(law.scale) @ jnp.array([[c[0], 0.0], [normal, c[1]]])


def gamma_quantile(a: Float[Array, "*k"], u: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """x with P(a, x) = u, P the regularised lower incomplete gamma function.

    Halley steps in log x from the Wilson-Hilferty approximation (or, in the lower tail, from the leading term of
    the series), then one step that carries the derivative: dx/da = −(∂P/∂a)/p, the implicit reparameterisation.
    """
    a0 = jax.lax.stop_gradient(a)
    z = ndtri(u)
    cube = a0 * (1.0 - 1.0 / (9.0 * a0) + z / (3.0 * jnp.sqrt(a0))) ** 3
    tail = jnp.exp((jnp.log(u) + gammaln(a0 + 1.0)) / a0)
    start = jnp.where((z < -2.0 * jnp.sqrt(a0)) | (cube < 1e-3 * a0), tail, cube)
    x = jax.lax.stop_gradient(jnp.exp(_halley(a0, jnp.log(start), u)))
    density = jnp.exp((a0 - 1.0) * jnp.log(x) - x - gammaln(a0))
    return x - (gammainc(a, x) - u) / density


def _halley(a: Float[Array, "*k"], t: Float[Array, "*k"], u: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """t with P(a, eᵗ) = u, until every step is below 1e-4: the error left is its cube, and the last, differentiable
    step of the caller squares that. The start is so good that one step is the rule.

    F = P − u,  F' = xᵃe⁻ˣ/Γ(a),  F''/F' = a − x,  step = r/(1 − r(a − x)/2) with r = F/F'. Steps are at most 1 in size:
    in log x an overshoot costs a factor e only. Thirty suffice from anywhere.
    """
    log_gamma = gammaln(a)

    def improve(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        t, _, count = carry
        x = jnp.exp(t)
        slope = jnp.maximum(jnp.exp(a * t - x - log_gamma), 1e-300)
        r = (gammainc(a, x) - u) / slope
        bend = jnp.clip(0.5 * r * (a - x), -0.5, 0.5)
        step = jnp.clip(r / (1.0 - bend), -1.0, 1.0)
        return t - step, jnp.max(jnp.abs(step)), count + 1

    def unsettled(carry: tuple[Array, Array, Array]) -> Array:
        return (carry[1] > 1e-4) & (carry[2] < 30)

    return jax.lax.while_loop(unsettled, improve, (t, jnp.asarray(jnp.inf), jnp.asarray(0)))[0]
