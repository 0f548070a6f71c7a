"""A site's rows as a model computes on them: one protocol, and what comes of it.

    ExactRows (`model.exact`)         the whole covariance of the rows                      cubic in them
    Blocks (`model.shared.sparse`)    few inducing inputs, one block of rows at a time      linear in them
    LatentRows (`model.shared.latent`)  exact, of a function that outcomes of 0 and 1 tell of through a bound
    LatentBlocks (`model.shared.latent_blocks`)  the same of many rows, in blocks
    SurvivalRows (`model.shared.interval_rows`)  of a time to an event: such rows, one for each person and interval
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Scalar = float | Array
"""One number: Python's own, or an array's within traced code."""
Vector = np.ndarray | Array
"""Θ as one vector."""
Draws = Any
"""L draws from q as a site needs them: each family has its own (`paper_family.Draws`, `evidence.SharedDraws`), and all
are trees of arrays with a leading axis."""
Arms = tuple[Array, Array]
"""(means, covariances) of (E y(0), E y(1), …), of each arm."""
SufficientSums = tuple[Array, Array, Array, Array]
"""(T [q, q], v [q], c, l) of one θ."""


def on_device(values: Any) -> Array:
    """What `jnp.asarray` would give, which compiles a program for every shape that it has not seen."""
    return jax.device_put(np.asarray(values))


class Moments(NamedTuple):
    """Conditional mean and variance of some effects for each draw."""

    mean: Float[Array, "L *k"]
    var: Float[Array, "L *k"]


class SiteEffects(NamedTuple):
    """Sums of the site's own people's effects for each draw and weight vector (e): what leaves the site."""

    cate: Moments
    """Σ_i t_i τ(x_i) [L, e]."""
    ite: Moments
    """Σ_i t_i τ_i [L, C, e], one per noise correlation: the paper's E[τ] and Var[τ] times n and n²."""


class ArmSums(NamedTuple):
    """The same of more than two arms: what is expected in each, from which every contrast is made."""

    mean: Float[Array, "L A e"]
    """Σ_i t_i E y_a(x_i)."""
    cov: Float[Array, "L A A e"]


class RiskSums(NamedTuple):
    """The same of an outcome of 0 and 1."""

    risks: Float[Array, "L A e"]
    """Σ_i t_i σ(η_a(x_i)) of each draw and arm."""


class SurvivalSums(NamedTuple):
    """The same of a time to an event."""

    survival: Float[Array, "L A J e"]
    """Σ_i t_i S_a(t_j | x_i) of each draw, arm and interval's end."""


class Weighed(NamedTuple):
    """Sums over the site's own people with weights t_e that may be any numbers: of a subgroup 1 and 0."""

    sums: Float[Array, "L a e"]
    """Of each draw: Σ_i t_ei τ(x_i), a = 1; of what is no number Σ_i t_ei r_a(x_i) without and with treatment."""
    cov: Float[Array, "l e e"]
    """Of Σ t_e τ and Σ t_f τ within a draw (of θ); none is left where a draw gives risks."""


class BetaLaw(NamedTuple):
    """β̃ | y, θ_l ~ N(mean, P⁻¹); of a family without β̃, with q = 0."""

    mean: Float[Array, "L q"]
    root: Float[Array, "L q q"]
    """Lower root of P."""


class Anchor(NamedTuple):
    """Where a bound of the likelihood touches: R draws of θ, and the sums of all sites there, which give β̃'s law. All
    of it is known to whoever follows the course."""

    theta: Float[Array, "R p"]
    gram: Float[Array, "R h"]
    """T, its upper half."""
    cross: Float[Array, "R q"]


class LeftOut(NamedTuple):
    """For each draw and person."""

    arms: Float[Array, "L n A"]
    """E[y_a(x_i) | y_{−i}]."""
    mean: Float[Array, "L n"]
    var: Float[Array, "L n"]
    """Of the person's own outcome, with its noise."""


@runtime_checkable
class Known(Protocol):
    """What predictions for new people need of a site: its rows, or what was learnt from them where they are many."""

    def effects_at(self, model: Any, vector: Vector, draws: Draws, x: Array, jitter: Scalar) -> Moments:
        """τ(x) for each draw and β̃ [L, B, p]."""
        ...

    def outcomes_at(self, model: Any, vector: Vector, draws: Draws, x: Array, jitter: Scalar) -> Arms:
        """E y of each arm for each draw and β̃: means [L, B, p, A], covariances [L, B, p, A, A]."""
        ...


@runtime_checkable
class Rows(Protocol):
    """Methods of one θ (or draw) are traced; those of many are called from Python."""

    @property
    def u(self) -> Array:
        """[q] the site's moments."""
        ...

    @property
    def index(self) -> Array:
        """The site's number."""
        ...

    @property
    def added(self) -> Array:
        """Variance of the noise that the site added to its outcomes."""
        ...

    def people(self) -> int: ...

    def is_small(self) -> bool:
        """Whether sharing its draws out among the cores takes longer than it spares."""
        ...

    def at_once(self, draws: int) -> int:
        """How many of so many draws a GPU takes side by side."""
        ...

    def local(self, model: Any, anchor: Anchor | None, draws: int, matched: bool) -> Any:
        """What a Gaussian in the likelihood's place has of each row, for each of so many draws of θ: one that bounds it
        from below, or the nearest (`matched`); () where it is Gaussian itself. Stays at the site."""
        ...

    def seen(self, local: Any) -> Rows:
        """The rows with what one draw has of them."""
        ...

    def price(self, model: Any, vector: Array, local: Any) -> Any:
        """What makes the bound out of that Gaussian, added to log|C|: a sum over people, of one θ. Never asked for
        where the likelihood is Gaussian itself."""
        ...

    def sums_over_rows(self, model: Any, vector: Array, jitter: Scalar) -> Any:
        """All of the statistics of one θ that takes a pass over the rows, where it pays to keep it; else ()."""
        ...

    def statistics(self, model: Any, vector: Array, jitter: Scalar, sums: Any) -> SufficientSums:
        """Of one θ, from those sums."""
        ...

    def known(self, model: Any, draws: Draws, jitter: Scalar) -> Known: ...

    def effects(self, model: Any, vector: Vector, draws: Draws, correlations: Vector, jitter: Scalar,
                known: Any = None) -> SiteEffects | ArmSums | RiskSums | SurvivalSums:
        """Sums over everyone, the treated, the controls; of more arms over everyone, and who got each. `known`: that of
        these rows and draws, where it is there already."""
        ...

    def weighed(self, model: Any, vector: Vector, draws: Draws, weights: Vector, jitter: Scalar,
                known: Any = None) -> Weighed:
        """weights [e, people], in the order of the rows as they were given."""
        ...

    def realised(self, model: Any, vector: Vector, draws: Draws, correlations: Vector, jitter: Scalar,
                 known: Any = None) -> Iterator[tuple[np.ndarray, Moments]]:
        """(places of some people among the rows, their τ_i [L, C, people]), until all were there. Stays at the site."""
        ...

    def left_out(self, model: Any, vector: Vector, draws: Draws, beta: BetaLaw, jitter: Scalar) -> LeftOut:
        """Of each person from all others, in the order of the rows; what stands beyond them means nothing."""
        ...


def same_shape(mean: Array, var: Array) -> Moments:
    """The variance repeated for each β̃."""
    return Moments(mean, jnp.broadcast_to(var, mean.shape))


def merged(tree: Any) -> Any:
    """[L, B, …] → [L·B, …]: each β̃ is a draw of its own."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)
