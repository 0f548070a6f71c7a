"""The model `shared` fitted at home from sums with noise: straight, in one message of products.

    AskProducts(θ̂)              → products of (1, x, y) in each arm, with noise: the whole fit (`sum_noise`)
    AskSharedEffects(θ, β)      → sums of effects, of noised sums of x and y over the people of each arm

Where the truth bends, σ̂² has the bends in it, and no product tells how much of it they are. So the prior of the preset
`default` says it: of functions drawn from it, less the lines nearest to each arm's, and with σ² as what these leave,

    E (bend of τ)(x)² = BEND σ² max(q, ½),   q = ‖x‖²/d        `benchmark.cost.bends`

is added to the variance of a person's effect. Averages over all people have next to nothing of it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.effect import CORRELATIONS, WEIGHTS, told_of_realised
from fedci.model.family import Arrays, Draw, Theta
from fedci.model.programs import compiled
from fedci.model.rows import Rows, on_device
from fedci.model.shared import dictionary, home, priors, sum_noise
from fedci.model.shared.dictionary import Point, Products, Span
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.exchanges import POINT_SD
from fedci.model.shared.few_family import FewFamily, Told
from fedci.model.shared.shared import noise_sd

STEPS = 60
"""Of the ascent."""
BEND, WITHIN = 0.6, 0.5
"""Of σ², what the effect bends by at a person with q = 1; and the least q that bends are reckoned with."""


class NoisedFamily(FewFamily):
    """Of options with `sum_noise`."""

    @property
    def ridge(self) -> Theta:
        """Its products are the whole fit's, so sites' own levels are at their prior."""
        return super().ridge | {"phi": priors.means(self.options, self.covariates, self.outcome, self.arms)["phi"]}

    def spanned(self, told: Told, people: int) -> tuple[Products, Span]:
        """With what the noise leaves of the products."""
        total, by = super().spanned(told, people)
        return sum_noise.known(self, total, told.point, float(people)), by

    def after_first(self, now: Told, people: int, normals: np.ndarray) -> tuple[float, float, np.ndarray]:
        """The whole fit. The scales of sites' own levels are a point, their prior's: the products are those of it."""
        total, by = self.spanned(now, people)
        _, beta, gram = home.ridge(self, total, by, now.point, float(people))
        q = home.beginning(self, beta, gram, people)
        q[home.own_places(self) + self.size] = np.log(POINT_SD)
        return home.ascend(self, q, total, by, now.point, float(people), normals, STEPS)

    # --- what is said of people

    def unasked(self, draws: SharedDraws, x: Float[Array, "*K p d"]) -> Float[Array, "L 1 p"]:
        q = jnp.mean(x**2, tuple(range(x.ndim - 2)) + (x.ndim - 1,))
        left = jax.vmap(lambda theta: jnp.mean(noise_sd(self.unravel(theta)) ** 2))(draws.theta)
        return BEND * left[:, None, None] * jnp.maximum(q, WITHIN)[None, None]

    # --- what a site answers

    def rows(self, x: np.ndarray, w: np.ndarray, y: np.ndarray, u: np.ndarray, index: int, added: float = 0.0,
             cluster: np.ndarray | None = None, time: np.ndarray | None = None) -> Rows:
        """σ² is the variance of what is told of an outcome, that of its noise in it: products are told once, over σ̂² of
        the prior, and those over σ̂² + added would be no multiple of those over σ² + added."""
        return super().rows(x, w, y, u, index, 0.0, cluster, time)

    @property
    def noises_sums(self) -> bool:
        return True

    @property
    def people_needed(self) -> int:
        return sum_noise.people_needed(self)

    @property
    def arm_needed(self) -> int:
        return sum_noise.arm_needed(self)

    def clipped(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.clip(x, -sum_noise.CLIP_X, sum_noise.CLIP_X), np.clip(y, -sum_noise.CLIP_Y, sum_noise.CLIP_Y)

    def noised_products(self, arrays: Arrays, sums: dict[str, np.ndarray], draw: Draw) -> dict[str, np.ndarray]:
        return sum_noise.on_products(self, Point(arrays["point"]), sums, draw)

    def noised_effects(self, arrays: Arrays, x: np.ndarray, w: np.ndarray, y: np.ndarray, draw: Draw
                       ) -> dict[str, np.ndarray]:
        thetas, betas = (on_device(arrays[name]) for name in ("thetas", "betas"))
        mean, var = (np.asarray(part) for part in site_effects(self, thetas, betas, told(self, x, w, y, draw)))
        none = np.zeros((1, len(CORRELATIONS), len(WEIGHTS)))
        each = np.zeros((told_of_realised(len(mean)), *none.shape[1:]))
        return {"cate_mean": mean, "cate_var": var, "ite_mean": each, "ite_var": none, "ite_sd": none[0, :, 0]}


class ArmSums(NamedTuple):
    """Of a site's people, arm by arm."""

    x: Float[Array, "2 d"]
    y: Float[Array, "2"]
    people: Float[Array, "2"]
    sd: Float[Array, ""]
    """Of the noise on each sum of x and y."""


def told(model: NoisedFamily, x: np.ndarray, w: np.ndarray, y: np.ndarray, draw: Draw) -> ArmSums:
    """With noise: of each value 1/sd² is told. Counts are known. All of it at each site, masked or not: effects weigh a
    site's sums by its own counts, so that sums over sites of many draws can be solved for each site's."""
    sd = model.options.sum_noise / np.sqrt(sum_noise.SHARES["effects"])
    arms = np.stack([w == 0, w == 1]).astype(float)
    sums = arms @ np.column_stack([x, y])
    sums = sums + sd * draw(sums.size).reshape(sums.shape)
    return ArmSums(*(on_device(part) for part in (sums[:, :-1], sums[:, -1], arms.sum(1), sd)))


@compiled(static="model")
def site_effects(model: NoisedFamily, thetas: Float[Array, "L p"], betas: Float[Array, "L B q"],
                 told: ArmSums) -> tuple[Float[Array, "LB 3"], Float[Array, "1 3"]]:
    """(mean of Σ τ(x_i) of each draw, its variance averaged over them) over each population. Of a draw with levels l_a
    and slopes b_a, and own levels g ~ N(0, Φ), X_a = Σ x, Y_a = Σ y over the people of arm a:

        Σ_{a ∈ pop} (n_a(l_1 − l_0) + X_a(b_1 − b_0)) + n_pop (g_1 − g_0)        g | Y_a − n_a l_a − X_a b_a Gaussian
    """
    weights, apart = jnp.asarray(WEIGHTS), jnp.array([-1.0, 1.0])
    people = weights @ told.people

    def of_beta(theta: Theta, beta: Float[Array, "q"]) -> tuple[Array, Array]:
        levels, slopes = _straight(model, theta, beta)
        noise = noise_sd(theta) ** 2
        own = jnp.linalg.inv(jnp.linalg.inv(sum_noise.own_variance(model, theta)) + jnp.diag(told.people / noise))
        gain = people[:, None] * (apart @ own / noise)[None]
        on_x = weights[:, :, None] * (slopes[1] - slopes[0])[None, None] - gain[:, :, None] * slopes[None]
        mean = (people * (levels[1] - levels[0]) + jnp.einsum("pad,ad->p", on_x, told.x)
                + gain @ (told.y - told.people * levels))
        noised = jnp.sum(on_x**2, (1, 2)) + jnp.sum(gain**2, 1)
        return mean, people**2 * (apart @ own @ apart) + told.sd**2 * noised

    def of_theta(parts: tuple[Array, Array]) -> tuple[Array, Array]:
        theta = model.unravel(parts[0])
        return jax.vmap(partial(of_beta, theta))(parts[1])

    mean, var = jax.lax.map(of_theta, (thetas, betas))
    return mean.reshape(-1, len(WEIGHTS)), jnp.mean(var, (0, 1))[None]


def _straight(model: NoisedFamily, theta: Theta, beta: Float[Array, "q"]) -> tuple[Float[Array, "2"],
                                                                                  Float[Array, "2 d"]]:
    """(levels, slopes) of the arms: ω is linear in x."""
    arms = dictionary.coefficients(model, theta, beta)
    at = dictionary.omega(model.layout, theta, jnp.concatenate([jnp.zeros((1, model.covariates)),
                                                                jnp.eye(model.covariates)])) @ arms.T
    return at[0], (at[1:] - at[:1]).T
