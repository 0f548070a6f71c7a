"""How probable treatment is along the covariates: γ, from the sums that a fit starts with.

    1[w = a] = level of the site + xᵀγ + noise        γ ~ N(0, r/(1 − r) σ²/d)      r, the share that x tells, uniform

γ is its posterior mean. So where covariates tell no more of the arm than chance would, it is next to nothing, and where
they tell a lot, xᵀγ is as good as the difference between the arms' people (`basis.between_arms`).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedci.model.shared import basis
from fedci.model.shared.shared import SharedModel, symmetric

SHARES = (np.arange(20) + 0.5) / 20
"""r: each as probable before the data."""


def slopes(model: SharedModel, gram: Float[np.ndarray, "h"], root: Float[np.ndarray, "A A"], people: int
           ) -> Float[np.ndarray, "d a"]:
    """γ of each arm but the reference, from the upper half of T = ZᵀC⁻¹Z at `model.ridge`, where C is σ² and a level of
    each site. `root`: R of the lines there, whose columns in Z times R⁻¹1 are x/√d of everybody."""
    q, d, arms = model.columns, model.covariates, model.arms
    told = d - bool(model.intervals)               # time is no covariate: who lives longer has more of it
    lines, levels = (model.layout.coefficients[name] for name in (basis.LINES, basis.LEVELS))
    design = np.zeros((q, arms + told))
    design[lines, arms:] = np.kron(np.linalg.solve(root, np.ones(arms))[:, None], np.sqrt(d) * np.eye(d)[:, :told])
    design[levels, :arms] = np.eye(arms) / basis.LEVEL_SD
    seen = _about_mean(design.T @ symmetric(gram) @ design, arms)
    size = np.trace(seen[arms:, arms:]) / (told * people)
    gamma = np.zeros((d, arms - 1))
    if size > 0.0:
        seen /= size
        gamma[:told] = np.column_stack([shrunk(seen[arms:, arms:], seen[arms:, arm], seen[arm, arm], people)
                                        for arm in range(1, arms)])
    return gamma


def _about_mean(seen: Float[np.ndarray, "k k"], arms: int) -> Float[np.ndarray, "k k"]:
    """The sums of squares about the mean of everybody, who is in one of the arms."""
    everybody = seen[:arms].sum(0)
    return seen - np.outer(everybody, everybody) / max(everybody[:arms].sum(), 1e-300)


def shrunk(x_by_x: Float[np.ndarray, "d d"], x_by_w: Float[np.ndarray, "d"], w_by_w: float, people: int
           ) -> Float[np.ndarray, "d"]:
    """γ's mean over r, each weighed by p(w | r), with 1/σ² as the prior of σ². x has mean square 1."""
    if not w_by_w > 0.0:
        return np.zeros(len(x_by_w))
    roots, turned = np.linalg.eigh(x_by_x)
    along, ridge = turned.T @ x_by_w, (1.0 - SHARES[:, None]) / SHARES[:, None] * len(x_by_w)
    left = np.maximum(w_by_w - np.sum(along**2 / (roots + ridge), 1), 1e-12 * w_by_w)
    log_p = -0.5 * np.sum(np.log1p(roots / ridge), 1) - 0.5 * (people - 1) * np.log(left)
    weight = np.exp(log_p - log_p.max())
    return turned @ (along * (weight @ (1.0 / (roots + ridge)) / weight.sum()))
