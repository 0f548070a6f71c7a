"""How much effects may bend where only straight ones were asked about: what the prior of the preset `default` says.

    python -m fedci.benchmark.cost.bends [--draws 400] [--seed 0]

Functions of both arms are drawn from it, outcomes with a total variance between 0.3 and 3 kept. Of each is measured, at
people x ~ N(0, I), how far the effect is from the difference of the lines nearest to the arms', squared, and divided by
what lines leave of the outcome (noise, bends, sites' own bends). `NoisedFamily.unasked` adds 0.6 max(q, ½) times that
to the variance of a person's effect, q = ‖x‖²/d.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model.family import Theta
from fedci.model.shared import basis, priors
from fedci.model.shared.shared import own_root
from fedci.study.options import SharedOptions

PEOPLE = 600
STEEP_SD = 1.2
"""Of the log scale of sites' own slopes (`priors.TABLE`)."""
TOTAL = 0.3, 3.0
"""Of the outcome's variance, which is 1 in model units."""
OPTIONS = SharedOptions(family="shared", directions=2, knots=7, landmarks=32)


class Bends(NamedTuple):
    """Over draws from the prior."""

    q: Float[np.ndarray, "n"]
    at: Float[np.ndarray, "n"]
    """E (bend of τ)(x)²/σ² at each x."""
    shares: Float[np.ndarray, "L"]
    """Of each draw, over people."""


def drawn_theta(rng: np.random.Generator, d: int) -> Theta:
    parts = priors.means(OPTIONS, d), priors.sds(OPTIONS, d), priors.heavy(OPTIONS, d)

    def of(mean: Any, sd: Any, heavy: Any) -> Array:
        shape = np.shape(mean)
        unit = np.where(heavy, rng.standard_t(OPTIONS.tails or np.inf, shape), rng.standard_normal(shape))
        return jnp.asarray(np.asarray(mean) + np.asarray(sd) * unit)

    return jax.tree.map(of, *parts)


def of_prior(d: int, draws: int = 400, seed: int = 0) -> Bends:
    rng, layout = np.random.default_rng((seed, d)), basis.layout_of(OPTIONS, d)
    x = rng.standard_normal((PEOPLE, d))
    lines, q = np.column_stack([np.ones(PEOPLE), x]), (x**2).mean(1)
    nearest = np.linalg.pinv(lines)

    @jax.jit
    def functions(theta: Theta, beta: Array) -> Array:
        return layout.arms(theta, jnp.asarray(x)) @ jnp.asarray(beta)

    found: list[np.ndarray] = []
    while len(found) < draws:
        theta = drawn_theta(rng, d)
        f = np.asarray(functions(theta, rng.standard_normal(layout.size)))
        bend, root = f - lines @ (nearest @ f), np.asarray(own_root(theta))
        own, steep = root @ root.T, np.exp(2.0 * STEEP_SD * rng.standard_normal())
        varies = 1.0 + steep * q                            # of a site's own function, beside its level
        left = float(jnp.exp(2.0 * theta["noise"][0])) + np.mean(bend**2) + np.mean(np.diag(own)) * varies.mean()
        if TOTAL[0] < left + np.mean((f - bend - f.mean(0)) ** 2) < TOTAL[1]:
            apart = (bend[:, 1] - bend[:, 0]) ** 2 + (own[0, 0] + own[1, 1] - 2.0 * own[0, 1]) * varies
            found.append(apart / left)
    each = np.array(found)
    return Bends(q, each.mean(0), each.mean(1))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    print("| d | mean | median, 90 % of draws below | q < ½ | ½ to 1 | 1 to 1½ | above |\n"
          "|---:|---:|---|---:|---:|---:|---:|")
    for d in (1, 2, 5, 10, 20):
        bends = of_prior(d, asked.draws, asked.seed)
        middle, most = np.quantile(bends.shares, [0.5, 0.9])
        parts = np.digitize(bends.q, [0.5, 1.0, 1.5])
        cells = (f"{bends.at[parts == k].mean():.2f}" if (parts == k).any() else "–" for k in range(4))
        print(f"| {d} | {bends.shares.mean():.2f} | {middle:.2f}, {most:.2f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
