"""A site's rows of which some values were missing: K completed copies, and each draw of θ sees its own.

The statistics of draw l come from copy l mod K. So the bound averages over what is missing as it does over θ, β̃ has the
spread that copies give it, and effects are those of all copies: nothing more is asked in a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model.rows import (
    Anchor,
    Arms,
    BetaLaw,
    Draws,
    LeftOut,
    Moments,
    Rows,
    Scalar,
    SiteEffects,
    Vector,
    Weighed,
    on_device,
)


class CompletedRows(NamedTuple):
    """Copies of one site's rows in the form in which it holds them."""

    every: Any
    """Rows, each of whose arrays has a leading axis [K]."""

    @property
    def copies(self) -> int:
        return int(jax.tree.leaves(self.every)[0].shape[0])

    def copy(self, number: int) -> Any:
        """Of the draw with this number."""
        return jax.tree.map(lambda leaf: leaf[number % self.copies], self.every)

    @property
    def u(self) -> Array:
        return self.copy(0).u

    @property
    def index(self) -> Array:  # type: ignore[override]  # hides tuple.index, which nobody asks of rows
        return self.copy(0).index

    @property
    def added(self) -> Array:
        return self.copy(0).added

    def people(self) -> int:
        return int(self.copy(0).people())

    def is_small(self) -> bool:
        return bool(self.copy(0).is_small())

    def at_once(self, draws: int) -> int:
        return int(self.copy(0).at_once(draws))

    def local(self, model: Any, anchor: Anchor | None, draws: int, matched: bool) -> Any:
        """The copy of each draw."""
        which = np.arange(draws) % self.copies
        return jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[which]), self.every)

    def seen(self, local: Any) -> Any:
        return local

    def price(self, model: Any, vector: Vector, local: Any) -> float:
        return 0.0

    def sums_over_rows(self, model: Any, vector: Vector, jitter: Scalar) -> Any:
        raise AssertionError("each draw sees its own copy: see them with it first")

    def statistics(self, model: Any, vector: Vector, jitter: Scalar, sums: Any) -> Any:
        raise AssertionError("each draw sees its own copy: see them with it first")

    def known(self, model: Any, draws: Draws, jitter: Scalar) -> KnownCopies:
        return KnownCopies(stacked([rows.known(model, one, jitter) for rows, one in self._each(draws)]))

    def _each(self, draws: Draws) -> Iterator[tuple[Any, Draws]]:
        """(its copy, the draw alone), draw by draw."""
        for at, number in enumerate(np.asarray(draws.number)):
            yield (jax.tree.map(on_device, self.copy(int(number))),
                   jax.tree.map(lambda leaf, at=at: on_device(np.asarray(leaf)[at:at + 1]), draws))

    def effects(self, model: Any, vector: Vector, draws: Draws, correlations: Vector, jitter: Scalar,
                known: KnownCopies | None = None) -> SiteEffects:
        return joined([rows.effects(model, vector, one, correlations, jitter, known and known.of(at))
                       for at, (rows, one) in enumerate(self._each(draws))])

    def weighed(self, model: Any, vector: Vector, draws: Draws, weights: Vector, jitter: Scalar,
                known: KnownCopies | None = None) -> Weighed:
        return joined([rows.weighed(model, vector, one, weights, jitter, known and known.of(at))
                       for at, (rows, one) in enumerate(self._each(draws))])

    def realised(self, model: Any, vector: Vector, draws: Draws, correlations: Vector, jitter: Scalar,
                 known: KnownCopies | None = None) -> Iterator[tuple[np.ndarray, Moments]]:
        """Copies hold the same people at the same places."""
        every = [rows.realised(model, vector, one, correlations, jitter, known and known.of(at))
                 for at, (rows, one) in enumerate(self._each(draws))]
        for parts in zip(*every, strict=True):
            yield parts[0][0], joined([moments for _, moments in parts])

    def left_out(self, model: Any, vector: Vector, draws: Draws, beta: BetaLaw, jitter: Scalar) -> LeftOut:
        def of_draw(parts: tuple[Draws, BetaLaw]) -> LeftOut:
            draw, law = parts
            rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[draw.number % self.copies], self.every)
            one, own = (jax.tree.map(lambda leaf: leaf[None], part) for part in (draw, law))
            return jax.tree.map(lambda leaf: leaf[0], rows.left_out(model, vector, one, own, jitter))

        return jax.lax.map(of_draw, (draws, beta))


class KnownCopies(NamedTuple):
    """What predictions need of a site, for each draw; new people x [p, d], or completed K times [K, p, d]."""

    every: Any
    """With a leading axis [L]."""

    def of(self, at: int) -> Any:
        return jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[at]), self.every)

    def effects_at(self, model: Any, vector: Vector, draws: Draws, x: Float[Array, "*K p d"],
                   jitter: Scalar) -> Moments:
        return self._of_draws(lambda known, draw, own: known.effects_at(model, vector, draw, own, jitter), draws, x)

    def outcomes_at(self, model: Any, vector: Vector, draws: Draws, x: Float[Array, "*K p d"],
                    jitter: Scalar) -> Arms:
        return self._of_draws(lambda known, draw, own: known.outcomes_at(model, vector, draw, own, jitter), draws, x)

    def _of_draws(self, compute: Callable[[Any, Draws, Array], Any], draws: Draws, x: Array) -> Any:
        def of_draw(parts: tuple[Any, Draws]) -> Any:
            known, draw = parts
            own = x if x.ndim == 2 else x[draw.number % x.shape[0]]
            found = compute(known, jax.tree.map(lambda leaf: leaf[None], draw), own)
            return jax.tree.map(lambda leaf: leaf[0], found)

        return jax.lax.map(of_draw, (self.every, draws))


def completed_rows(copies: Sequence[Rows]) -> CompletedRows:
    return CompletedRows(stacked(copies))


def repeated(known: Any, draws: Draws) -> KnownCopies:
    """The same for each draw: nobody's rows, where new people are completed."""
    return KnownCopies(stacked([known] * len(np.asarray(draws.number))))


def stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: on_device(np.stack([np.asarray(leaf) for leaf in leaves])), *trees)


def joined(trees: Sequence[Any]) -> Any:
    """[L, …] of parts with one draw each."""
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *trees)
