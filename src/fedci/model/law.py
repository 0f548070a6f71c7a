"""What one draw from q says of a site before its rows are seen: the seam between the families and the predictions.

    E[y(0), y(1)] = means(x)      Cov(f_a(x), f_b(x')) = Φ[a, b] k(x, x')      Cov(ε) = Σ

The paper's model draws (Φ, Σ, g) and has μ and k fixed; the model `shared` draws θ and, for each θ, B values of β.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Float


@dataclass(frozen=True, kw_only=True)
class Law:
    """One draw, made of functions; lives inside traced code only."""

    phi: Float[Array, "A A"]
    """Of A arms: two, or as many as the study has."""
    sigma: Float[Array, "A A"]
    k: Callable[[Array, Array], Array]
    """([n, d], [m, d]) → [n, m]."""
    own: Callable[[Array], Array]
    """[n, d] → k(x_i, x_i) [n]."""
    means: Callable[[Array], Array]
    """[n, d] → [B, n, A]: B values of β̃ (one in the paper's model) share all else."""
    fixed: Callable[[Array], Array]
    """[n, d] → [n, A]: the part of the means that does not depend on β̃."""
    design: Callable[[Array], Array]
    """[n, d] → [n, A, q]: z of each person in each arm, the rows of β̃."""
