"""What a model is to the rest: Θ, rows, what a fit asks, what a site answers, draws and what they say.

    Family ◄─ PaperModel (Θ) ◄─ PaperFamily          Family ◄─ SharedModel (θ) ◄─ SharedFamily

Nothing outside `model` asks which family a study has, nor in which form a site's rows are held (`model.rows`). A fit's
questions have names (`Ask.name`), which the protocol turns into messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from fedci.model import kernels, padding
from fedci.model.law import Law
from fedci.model.likelihood import LIKELIHOODS, Likelihood
from fedci.model.rows import BetaLaw, Draws, Rows, Vector
from fedci.study.options import FitOptions, ModelOptions, SharedOptions

Theta = dict[str, Any]
"""The parameters by their parts: arrays, or again such a dict."""
Arrays = Mapping[str, np.ndarray]
"""Those of a question, or the draws that all sites share, by name."""
Sums = Mapping[str, np.ndarray]
"""Named sums over all sites."""
Shapes = dict[str, tuple[int, ...]]
Draw = Callable[[int], np.ndarray]
"""So many standard normals, of a site's own secret."""
NO_ANCHOR = np.zeros(0)
"""Where the likelihood needs no bound, or nothing is known yet of where it touches."""
JITTERS = 7
"""The ladder: the model's jitter, then ten times more, … six times (1e-10 → 1e-4)."""


class Ask(NamedTuple):
    """One thing asked of all sites: a request without its addressee. 'g' [L, m, 2] has a part for each site; all else
    is the same for all."""

    name: str
    arrays: dict[str, Any]


class FirstStage(NamedTuple):
    """The first stage of a large fit; none where it looks at nobody."""

    rows: int = 0
    """R: at most so many people of a site."""
    people: int = 0
    """Of all sites that it looks at."""


class Rules(NamedTuple):
    """All that the course of a fit depends on, beside the sums."""

    model: Family
    options: FitOptions
    seed: int
    u: np.ndarray
    """[m, q] the sites' moments in model units."""
    people: int
    first: FirstStage = FirstStage()


class Answer(NamedTuple):
    """What a site answers to a question of the fit."""

    sums: dict[str, Any]
    jitter: float
    """The one of the ladder that made the sums finite."""
    memory: Any = None
    """What the site keeps for the next question; stays there."""


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """The model of one study. Equal ones share one compilation; make one with `families.model_of`."""

    options: ModelOptions | SharedOptions
    covariates: int
    """d, the columns of x."""
    described: int
    """Columns of x whose moments enter x̃ (indicators of missing values do not)."""
    sites: int
    """m."""
    outcome: str = "numeric"
    """The type of the study's outcome."""
    intervals: int = 0
    """J, of a time to an event: the last column of x is then the interval's place in time."""
    arms: int = 2
    """A; the first is the reference."""

    @cached_property
    def _hash(self) -> int:
        return hash((self.options.model_dump_json(), self.covariates, self.described, self.sites, self.outcome,
                     self.intervals, self.arms))

    def __hash__(self) -> int:
        """Computed once: JAX asks for it at every call of a compiled function."""
        return self._hash

    @property
    def kernel(self) -> kernels.Kernel:
        return kernels.build(self.options.kernel)

    @property
    def likelihood(self) -> Likelihood:
        return LIKELIHOODS[self.outcome]

    @property
    def jitters(self) -> list[float]:
        return [self.options.jitter * 10.0**k for k in range(JITTERS)]

    # --- Θ

    @property
    @abstractmethod
    def size(self) -> int:
        """p, the number of parameters."""

    @property
    def columns(self) -> int:
        """q, the columns of the basis over which a site's sums are products; 0: there are none."""
        return 0

    @abstractmethod
    def unravel(self, vector: Vector) -> Theta: ...

    @abstractmethod
    def names(self) -> list[str]: ...

    # --- rows

    def rows(self, x: np.ndarray, w: np.ndarray, y: np.ndarray, u: np.ndarray, index: int, added: float = 0.0,
             cluster: np.ndarray | None = None, time: np.ndarray | None = None) -> Rows:
        """The rows (model units) as the model computes on them; `added`: the variance of the noise in y; `cluster`
        [n]: numbers of the people's clusters; `time`: for how many intervals a person was followed, or the log of a
        count's exposure (`Units.time`)."""
        return padding.pad_site(x, w, y, u, index, added=added, cluster=cluster)

    def no_rows(self, u: np.ndarray) -> Any:
        """Of a site without people."""
        return padding.no_rows(self.covariates, u)

    def rows_of_stage(self, rows: Rows, chosen: np.ndarray, x: np.ndarray, w: np.ndarray, y: np.ndarray,
                      time: np.ndarray | None = None) -> Rows:
        """Of a large site's rows those that the first stage looks at; all of a small site's."""
        return rows

    def memory_needed(self, rows: int, draws: int) -> tuple[int, str]:
        """(bytes at the peak of one evaluation at a site of so many rows, the remedy where they are too many)."""
        return padding.bytes_needed(rows, draws), (
            "The covariance is exact: use the preset 'default', which needs memory in proportion to the rows, lower "
            "optimiser.draws, or run the site on a larger machine.")

    # --- the course of a fit

    @property
    @abstractmethod
    def asks(self) -> tuple[str, ...]:
        """The names of all that a fit asks."""

    @property
    def has_stages(self) -> bool:
        """Whether the first rounds of a large fit may look at some people only."""
        return False

    @property
    def needs_moments(self) -> bool:
        """Whether a site must know every site's moments to follow the fit."""
        return True

    @property
    def fits_at_home(self) -> bool:
        """Whether a round's answer is enough for the next Θ itself: then `evaluation` comes to that, in place of ∇L."""
        return False

    def dictionary(self, stage: int) -> dict[str, int]:
        """Sizes, by name, of what a round of such a fit tells, by which columns it has; 0: nothing of β̃ is known."""
        return {}

    def exchanges(self, rounds: int) -> int:
        """Times a fit of so many rounds asks a site, with its start and its effects."""
        return rounds * self.options.exchanges_per_round + 1

    def natural_from(self, people: int) -> float:
        """The round from which on steps are measured by q itself; inf: never."""
        return np.inf

    @abstractmethod
    def start(self, rules: Rules) -> Generator[Ask, Sums, np.ndarray]:
        """The vector to begin with."""

    @abstractmethod
    def evaluation(self, rules: Rules, query: np.ndarray, stream: int, first: bool,
                   anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[float, np.ndarray, np.ndarray]]:
        """(L, ∇L, the next anchor) at `query`, with the draws of `stream`; of the first stage's people only. (−inf, 0)
        where a site failed. `anchor`: where a bound of the likelihood touches (`rows.Anchor`), as one vector."""

    def narrower(self, best: np.ndarray, more: float) -> np.ndarray:
        """By which factors q narrows when so many times more people are looked at."""
        raise AssertionError("a family without stages is never asked")

    @abstractmethod
    def effects(self, rules: Rules, theta: np.ndarray, correlations: np.ndarray,
                anchor: np.ndarray = NO_ANCHOR
                ) -> Generator[Ask, Sums, tuple[dict[str, np.ndarray], BetaLaw | None]]:
        """(draws from q, once for all sites, with which each sums its people's effects; the law of β, if there is
        one)."""

    # --- what a site answers

    @abstractmethod
    def answer(self, name: str, arrays: Arrays, rows: Rows, memory: Any) -> Answer | None:
        """The sums of one round; a numerical failure is counted ('failed'), or None where it cannot be."""

    @property
    def noises_sums(self) -> bool:
        """Whether sites add noise to the sums of a fit, of which the model knows."""
        return False

    @property
    def people_needed(self) -> int:
        """Of all sites together, so that such noise leaves something to be learnt."""
        return 0

    @property
    def arm_needed(self) -> int:
        """In each arm of a site, by which such noise is measured."""
        return 0

    def clipped(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Covariates and outcomes in model units, as far as they enter sums."""
        return x, y

    def noised_products(self, arrays: Arrays, sums: dict[str, np.ndarray], draw: Draw) -> dict[str, np.ndarray]:
        """A site's answer to a question of the fit, with its part of the noise."""
        raise AssertionError("a family without noise on its sums is never asked")

    def noised_effects(self, arrays: Arrays, x: np.ndarray, w: np.ndarray, y: np.ndarray, draw: Draw
                       ) -> dict[str, np.ndarray]:
        """Sums of effects as `effect.effect_sums` has them, in model units, with noise; of realised ones nothing."""
        raise AssertionError("a family without noise on its sums is never asked")

    def unasked(self, draws: Draws, x: Array) -> Array | float:
        """Variance [L, 1, p] of τ(x), or none, of what effects may have and the fit asked nothing about."""
        return 0.0

    def units(self, ask: Ask, people: int) -> dict[str, np.ndarray]:
        """What sums of so many people are divided by while they are masked, so that none is far beyond 1."""
        return {}

    @abstractmethod
    def received(self, arrays: Arrays, index: int) -> tuple[np.ndarray, Draws]:
        """(Θ, the draws of a site) from the arrays with which effects are asked for."""

    # --- draws

    @abstractmethod
    def draws_at(self, arrays: Arrays, index: int) -> Draws:
        """The draws of a site, from the named arrays that all sites share."""

    @abstractmethod
    def draws_elsewhere(self, arrays: Arrays, theta: np.ndarray, u: np.ndarray, pooled_u: np.ndarray,
                        seed: int) -> Draws:
        """Those of a site outside the study, with the pooled moments."""

    @abstractmethod
    def law(self, vector: Vector, draw: Draws, index: Array) -> Law:
        """The law of one draw (no leading axis) at the site with number `index`."""

    @property
    def driver_parts(self) -> list[Any]:
        """The parts of the function that `drivers` tells apart, with their words; none where it cannot."""
        return []

    def drivers(self, draws: Draws, pair: tuple[int, int] | None = None) -> Any:
        """What carries the outcome and the effect, by part (`model.shared.drivers`); None where there are none. `pair`:
        of more arms, the one compared with and the other; without it their average."""
        return None

    def thresholds(self, draws: Draws, columns: Sequence[int], alpha: float,
                   pair: tuple[int, int] | None = None) -> Any:
        """Where outcome and effect change abruptly along these columns (`model.shared.thresholds`); None where it
        cannot be told."""
        return None


def names_of(shapes: Theta) -> list[str]:
    """'mean.weight[3,1]', … in the order of the vector."""
    return [name + (f"[{','.join(map(str, index))}]" if leaf.shape else "")
            for name, leaf in _named(shapes) for index in np.ndindex(leaf.shape)]


def unraveller(shapes: Theta) -> Callable[[Any], Theta]:
    """[p], in that order → Θ. Traced and not run: `ravel_pytree` would compile a step for every part."""
    found: list[Callable[[Any], Theta]] = []
    jax.eval_shape(lambda theta: found.append(ravel_pytree(theta)[1]), shapes)
    return found[0]


def _named(tree: Theta, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for key in sorted(tree):
        if isinstance(tree[key], dict):
            yield from _named(tree[key], f"{prefix}{key}.")
        else:
            yield prefix + key, tree[key]
