"""The model `shared` as a study uses it: two exchanges a round, β integrated out, large sites in blocks.

    AskStatistics(θ_1 … θ_L)     → T, v, c, l of each draw              (`evidence`)
    PullBack(θ, cotangents)      → ∂/∂θ_l
    AskSharedEffects(θ, β)       → sums of effects; of outcomes that are 0 and 1, or counts, AskRisks → sums of risks;
                                   of times to an event AskSurvival → sums of curves
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.family import NO_ANCHOR, Answer, Arrays, Ask, Rules, Sums
from fedci.model.law import Law
from fedci.model.rows import Anchor, BetaLaw, Rows, Vector, on_device
from fedci.model.shared import basis, drivers, evidence, exchanges, inducing, latent_blocks, thresholds
from fedci.model.shared.arranged import arranged
from fedci.model.shared.evidence import SharedDraws, Statistics
from fedci.model.shared.exchanges import ANCHOR, MATCHED, PULL_BACK, STATISTICS
from fedci.model.shared.interval_rows import SurvivalRows, nobody, survival_rows
from fedci.model.shared.latent_blocks import LatentBlocks
from fedci.model.shared.shared import NOISE_FLOOR, SharedModel, noise_sd
from fedci.model.shared.sparse import Blocks

MANY_PEOPLE = 1000
"""At all sites together: from there on the fit takes natural steps from its first round on."""
FAR = 64.0
"""The square of the Gaussian that stands for a row of 0 and 1 or a count, at most, in units of its precision."""
MANY_SLOPES = 4096.0
"""Slopes of more people than these travel in larger units."""
PLAIN = 25
"""Rounds of plain steps with fewer people: where there may be several tops, they find the higher more often."""


class Memory(NamedTuple):
    """Of the last statistics a site gave: at which θ, over how many people, with what jitter; and their sums over
    rows, from which the pull-back goes on. Where the likelihood has a bound, its anchor and what it has of the rows."""

    thetas: np.ndarray
    few: float
    jitter: float
    sums: Any
    anchor: dict[str, np.ndarray]
    local: Any

    def is_of(self, arrays: Arrays) -> bool:
        return np.array_equal(self.thetas, arrays["thetas"]) and self.is_near(arrays)

    def is_near(self, arrays: Arrays) -> bool:
        """Whether the bound touches where it did, for as many draws."""
        anchor = _anchor(arrays)
        return (self.few == float(arrays["few"]) and len(self.thetas) == len(arrays["thetas"])
                and anchor.keys() == self.anchor.keys()
                and all(np.array_equal(part, self.anchor[name]) for name, part in anchor.items()))


def _anchor(arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: part for name, part in arrays.items() if name.startswith(ANCHOR)}


def _touching_at(anchor: Arrays) -> Anchor | None:
    known = f"{ANCHOR}theta" in anchor
    return Anchor(*(on_device(anchor[f"{ANCHOR}{name}"]) for name in Anchor._fields)) if known else None


def _required(time: np.ndarray | None) -> np.ndarray:
    if time is None:
        raise AssertionError("a time to an event comes with the time that a person was followed for")
    return time


class SharedFamily(SharedModel):
    """Nothing is added to θ: only what is done with it."""

    # --- rows

    def rows(self, x: np.ndarray, w: np.ndarray, y: np.ndarray, u: np.ndarray, index: int, added: float = 0.0,
             cluster: np.ndarray | None = None, time: np.ndarray | None = None) -> Rows:
        """Exactly, or in blocks above model.exact_rows. `added`: of outcomes of 0 and 1, the flips."""
        if self.intervals:
            return survival_rows(self, x, w, y, _required(time), u, index)
        if self.is_bounded:
            return arranged(self, x, w, y, u, index, added, time, cluster=cluster)
        if len(y) > self.options.exact_rows and cluster is None:
            return inducing.cut(x, w, y, u, index, self.kernel, self.options.inducing, added=added, arms=self.arms)
        return super().rows(x, w, y, u, index, added, cluster)

    def rows_of_stage(self, rows: Rows, chosen: np.ndarray, x: np.ndarray, w: np.ndarray, y: np.ndarray,
                      time: np.ndarray | None = None) -> Rows:
        """With the inducing inputs of all rows."""
        if len(chosen) == len(y):
            return rows
        own = np.asarray(rows.u), int(rows.index)
        if isinstance(rows, SurvivalRows):
            return survival_rows(self, x[chosen], w[chosen], y[chosen], _required(time)[chosen], *own,
                                 inducing=np.asarray(rows.latent.rows.inducing))
        if isinstance(rows, LatentBlocks):
            return arranged(self, x[chosen], w[chosen], y[chosen], *own, float(rows.flips),
                            None if time is None else time[chosen], np.asarray(rows.rows.inducing))
        if not isinstance(rows, Blocks):
            return rows
        some = x[chosen], w[chosen], y[chosen], np.asarray(rows.u), int(rows.index)
        if len(chosen) <= self.options.exact_rows:
            return super().rows(*some, float(rows.added))
        return inducing.cut(*some, self.kernel, 0, inducing=np.asarray(rows.inducing), added=float(rows.added),
                            arms=self.arms)

    def memory_needed(self, rows: int, draws: int) -> tuple[int, str]:
        rows = rows * max(self.intervals, 1)
        if rows <= self.options.exact_rows:
            return super().memory_needed(rows, draws)
        width = self.layout.width + self.options.inducing + 1
        kept = latent_blocks.bytes_needed(rows, width) if self.is_bounded else 0
        return inducing.bytes_needed(rows, self.covariates, width) + kept, (
            "Lower model.inducing, or run the site on a larger machine.")

    def no_rows(self, u: np.ndarray) -> Any:
        return nobody(self, u) if self.intervals else super().no_rows(u)

    # --- the course of a fit

    @property
    def asks(self) -> tuple[str, ...]:
        return STATISTICS, PULL_BACK, exchanges.effects_of(self)

    @property
    def has_stages(self) -> bool:
        return self.options.posterior == "gaussian"

    @property
    def needs_moments(self) -> bool:
        return False

    def exchanges(self, rounds: int) -> int:
        """The start and the draws of β take one each."""
        return super().exchanges(rounds) + 2

    def natural_from(self, people: int) -> float:
        """Natural steps need fewer rounds; but with few people plain ones come first."""
        if self.options.posterior != "gaussian":
            return np.inf
        return 0.0 if people >= MANY_PEOPLE else float(PLAIN)

    def start(self, rules: Rules) -> Generator[Ask, Sums, np.ndarray]:
        rows, people = rules.first if rules.first.rows else (0, rules.people)
        return (yield from exchanges.start(self, people, float(rows)))

    def evaluation(self, rules: Rules, query: np.ndarray, stream: int, first: bool,
                   anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[float, np.ndarray, np.ndarray]]:
        normals = evidence.common_normals(rules.seed, stream, rules.options.optimiser.draws, self.size)
        rows, people = rules.first if first else (0, rules.people)
        return (yield from exchanges.evaluate(self, query, people, normals, float(rows), anchor))

    def narrower(self, best: np.ndarray, more: float) -> np.ndarray:
        """With 1/sd² = 1/s_p² + n·(what a person tells), c times n shrinks sds to (1/s_p² + c(1/sd² − 1/s_p²))^−½."""
        known, sd = 1.0 / self.prior[1] ** 2, np.exp(np.split(best, 2)[1])
        learnt = np.maximum(1.0 / sd**2 - known, 0.0)
        return np.sqrt((known + learnt) / (known + more * learnt))

    def effects(self, rules: Rules, theta: np.ndarray, correlations: np.ndarray,
                anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[dict[str, np.ndarray], BetaLaw]]:
        draws = rules.options.prediction.draws
        return (yield from exchanges.gather(self, theta, rules.people, draws, rules.seed, correlations, anchor))

    # --- what a site answers

    def answer(self, name: str, arrays: Arrays, rows: Rows, memory: Memory | None) -> Answer | None:
        return (self._statistics if name == STATISTICS else self._pull_back)(arrays, rows, memory)

    def _statistics(self, arrays: Arrays, rows: Rows, memory: Memory | None) -> Answer:
        statistics, memory = self._learn(arrays, rows, memory)
        if memory is None:
            zeros = {name: np.zeros_like(part) for name, part in statistics._asdict().items()}
            return Answer(zeros | {"failed": 1}, self.options.jitter)
        return Answer(statistics._asdict() | {"failed": 0}, memory.jitter, memory)

    def _learn(self, arrays: Arrays, rows: Rows, before: Memory | None) -> tuple[Statistics, Memory | None]:
        """The statistics at these θ, with the least jitter that makes them finite; none does: no memory."""
        anchor = _anchor(arrays)
        for jitter in self.jitters:
            local = (before.local if before is not None and before.is_near(arrays) else
                     rows.local(self, _touching_at(anchor), len(arrays["thetas"]), MATCHED in anchor))
            statistics, sums = evidence.first_half(self, arrays["thetas"], rows, jitter, local)
            statistics = jax.device_get(statistics)
            if all(np.isfinite(part).all() for part in statistics):
                return statistics, Memory(arrays["thetas"], float(arrays["few"]), jitter, sums, anchor, local)
        return statistics, None

    def _pull_back(self, arrays: Arrays, rows: Rows, memory: Memory | None) -> Answer | None:
        if memory is None or not memory.is_of(arrays):  # a site that started again in between
            _, memory = self._learn(arrays, rows, memory)
        if memory is None:
            return None
        cotangents = Statistics(*(on_device(arrays[name]) for name in Statistics._fields))
        gradient = evidence.second_half(self, arrays["thetas"], rows, memory.jitter, cotangents, memory.sums,
                                        memory.local)
        return Answer({"gradient": gradient, "failed": 0}, self.options.jitter, memory)

    def units(self, ask: Ask, people: int) -> dict[str, np.ndarray]:
        """T ≤ Σ_i z_i z_iᵀ/σ², and a column of z is of its size s, or 1: s_i s_j n/σ² of each draw. Of rows of 0 and 1
        σ = 1; of a count ω is about μr/(μ + r), below r. Slopes grow with n too. In the place of a row that says
        little, as one that may be flipped, the nearest Gaussian may stand far out."""
        if ask.name == PULL_BACK:
            return {"gradient": np.asarray(max(1.0, people / MANY_SLOPES))}
        if ask.name != STATISTICS:
            return {}
        noise = ask.arrays["thetas"][:, self.noise_places]
        if not noise.size:
            log_size = ask.arrays["thetas"][:, self.dispersion_places].sum(1)  # 0 of rows of 0 and 1
            most = people * np.exp(np.maximum(log_size, 0.0))
        elif self.arms > 2:
            most = np.array([people / np.min(np.asarray(noise_sd({"noise": own}, self.arms))) ** 2 for own in noise])
        else:
            level, half = noise.T
            most = people / (np.exp(2.0 * (level - np.abs(half))) + NOISE_FLOOR**2)
        sizes = np.asarray(exchanges.sizes_of_columns(self, on_device(ask.arrays["thetas"])))
        rows, columns = np.triu_indices(self.columns)
        return {"gram": most[:, None] * sizes[:, rows] * sizes[:, columns], "cross": most[:, None] * sizes,
                "square": most * (FAR if self.is_bounded else 1.0), "log_det": most}

    def received(self, arrays: Arrays, index: int) -> tuple[np.ndarray, SharedDraws]:
        """Each draw has its own θ; there is no Θ."""
        return np.zeros(0), self.draws_at(arrays, index)

    # --- draws

    def draws_at(self, arrays: Arrays, index: int) -> SharedDraws:
        return SharedDraws(on_device(arrays["thetas"]), on_device(arrays["betas"]),
                           on_device(np.arange(len(arrays["thetas"]))))

    def draws_elsewhere(self, arrays: Arrays, theta: np.ndarray, u: np.ndarray, pooled_u: np.ndarray,
                        seed: int) -> SharedDraws:
        return self.draws_at(arrays, 0)

    def law(self, vector: Vector, draw: SharedDraws, index: Array) -> Law:
        theta = self.unravel(draw.theta)
        phi, sigma = self.roots(theta)

        def means(x: Float[Array, "n d"]) -> Float[Array, "B n A"]:
            z = self.layout.arms(theta, x)
            return jnp.stack([draw.beta @ z[:, j].T for j in range(self.arms)], -1)

        return Law(phi=phi @ phi.T, sigma=sigma @ sigma.T,
                   k=lambda x, z: kernels.cross(self.kernel, theta["kernel"], x, z),
                   own=lambda x: kernels.diagonal(self.kernel, theta["kernel"], x),
                   means=means,
                   fixed=lambda x: jnp.zeros((x.shape[0], self.arms)),
                   design=lambda x: self.layout.arms(theta, x))

    @property
    def driver_parts(self) -> list[basis.Part]:
        return drivers.parts_of(self)

    def drivers(self, draws: SharedDraws, pair: tuple[int, int] | None = None) -> drivers.Drivers:
        return drivers.drivers(self, draws, pair)

    def thresholds(self, draws: SharedDraws, columns: Sequence[int], alpha: float,
                   pair: tuple[int, int] | None = None) -> list[thresholds.Threshold]:
        return thresholds.thresholds(self, draws, columns, alpha, pair)
