"""From draws to effects: mean, standard deviation and interval; whom averages are over, and averages from sums.

Each draw l of (Φ, Σ, g) gives a Gaussian N(m_l, v_l) for an effect; the posterior is their equal mixture.

    E τ = mean_l m_l          Var τ = mean_l v_l + var_l m_l          (law of total variance)

Sums over sites: within a draw the sites' effects are independent, so means and variances add.

Of an outcome of 0 and 1 a draw gives the risk without treatment r₀ and with it r₁ (no variance is left within it), and
draw by draw whatever is made of the two: r₁ − r₀, r₁/r₀, odds ratio, and 1/|r₁ − r₀|, the number needed to treat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from fedci.errors import UsageError
from fedci.plain import Shown

ROOT_2PI = np.sqrt(2 * np.pi)
ZERO = np.zeros(())
STANDS = 1e-6
"""Of a probability: a step of 1e-10 of the spread changes a smooth one by less, and a few thousand draws alone by more.
"""
Value = Any
"""A float, or an array with one number per person: as the effect's own means are."""


class Population(NamedTuple):
    """Whom an average effect is over."""

    name: str
    estimand: str
    who: str
    """In words."""
    weights: tuple[float, float]
    """Of an untreated and of a treated person in its sums."""


POPULATIONS = (Population("all", "ATE", "everybody", (1.0, 1.0)),
               Population("treated", "ATT", "the treated", (0.0, 1.0)),
               Population("control", "ATC", "the untreated", (1.0, 0.0)))
"""In the order of their sums."""
WEIGHTS = np.array([population.weights for population in POPULATIONS])
"""[3, 2]: population × arm."""
CORRELATIONS = np.array([np.nan, 0.0, 0.5, 0.9])
"""Noise correlations at which realised effects are reported; NaN: Σ's own draws, which equal its prior."""

SITE_DRAWS = 1024
"""Of a site's risks, where it tells their averages over the draws only."""
REALISED = 4
"""Of realised effects every fourth draw is told: their spread is mostly the noise's, which is averaged over draws."""


def weights_of(arms: int) -> np.ndarray:
    """[e, A] of a person of each arm in the sums over each population: of more than two arms over everybody, and over
    who got each of them."""
    return WEIGHTS if arms == 2 else np.vstack([np.ones(arms), np.eye(arms)])


def person_weights(w: np.ndarray, mask: np.ndarray, arms: int = 2) -> np.ndarray:
    """[e, n] weight of each row in the sums over each population: w [n] is the arm, mask [n] is 0 in padding."""
    w = np.asarray(w)
    picked = np.stack([1 - w, w]) if arms == 2 else (w[None] == np.arange(arms)[:, None]).astype(float)
    return weights_of(arms) @ picked * np.asarray(mask)


def population_sizes(by_arm: Sequence[int]) -> np.ndarray:
    """[e] how many people each population has, of so many in each arm."""
    return (weights_of(len(by_arm)) @ np.array(by_arm)).astype(np.int64)


def told_of_realised(draws: int) -> int:
    """Of so many draws."""
    return -(-draws // REALISED)


def effect_sums(cate: Effect, ite: Effect, ite_sd: np.ndarray, people: np.ndarray) -> dict[str, np.ndarray]:
    """What a site tells of its sums of effects (`EffectSums`), from those of each draw: cate [L, 3], ite [L, C, 3]. The
    means of a draw must be told, for sites share draws and the spread over them is that of the sum; variances are
    averaged. Of realised effects the draws that are told are moved to the mean of all."""
    some = ite.means[::REALISED]
    return {"cate_mean": cate.means, "cate_var": cate.variances.mean(0, keepdims=True),
            "ite_mean": some + (ite.means.mean(0) - some.mean(0))[None], "ite_sd": ite_sd, "people": people,
            "ite_var": ite.variances.mean(0, keepdims=True)}


@dataclass(frozen=True, repr=False)
class Effect(Shown):
    """A posterior: one number (mean, sd floats) or one per person (arrays)."""

    means: np.ndarray
    """[L, …] conditional mean per draw, outcome units."""
    variances: np.ndarray
    """[L, …] conditional variance per draw."""

    @property
    def mean(self) -> Value:
        return _plain(self.means.mean(0))

    @property
    def sd(self) -> Value:
        return _plain(np.sqrt(self.variances.mean(0) + self.means.var(0)))

    def shown(self) -> str:
        """Mean, sd and 95% interval; of many people how their means are spread."""
        if self.means.ndim == 1:
            low, high = self.interval()
            return f"Effect {self.mean:.4g} (sd {self.sd:.3g}, 95% interval {low:.4g} to {high:.4g})"
        mean = np.asarray(self.mean)
        return (f"Effects of {mean.shape[-1]} people: mean {mean.mean():.4g}, from {mean.min():.4g} to "
                f"{mean.max():.4g}; .mean, .sd and .interval() have each")

    def interval(self, alpha: float = 0.05) -> tuple[Value, Value]:
        """(lower, upper): the central 1 − alpha of the mixture."""
        return self.quantile(check_alpha(alpha) / 2), self.quantile(1 - alpha / 2)

    def quantile(self, level: float) -> Value:
        """q with mean_l Φ((q − m_l)/√v_l) = level, to 1e-10 of the spread: Newton's steps, and where one would leave
        the bracket, or stand still away from the level (on a draw that has next to no variance), its middle. From the
        Gaussian's quantile on that takes five or six. Of draws alone, as of risks, the draws' own quantile."""
        if not self.variances.any():
            return _plain(np.quantile(self.means, level, axis=0, method="averaged_inverted_cdf"))
        sd = np.sqrt(np.maximum(self.variances, 1e-300))
        ends = self.means + sd * ndtri(level)
        low, high = ends.min(0), ends.max(0)
        enough = 1e-10 * (high - low)
        q = np.clip(self.means.mean(0) + np.sqrt((sd**2).mean(0) + self.means.var(0)) * ndtri(level), low, high)
        for _ in range(60):
            z = (q - self.means) / sd
            over = ndtr(z).mean(0) - level
            low, high = np.where(over < 0, q, low), np.where(over < 0, high, q)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
                step = q - over * ROOT_2PI / (np.exp(-0.5 * z * z) / sd).mean(0)
            still = (np.abs(step - q) <= enough) & (np.abs(over) > STANDS)
            new = np.where((step >= low) & (step <= high) & ~still, step, 0.5 * (low + high))
            moved, q = np.abs(new - q), new
            if (moved <= enough).all():
                break
        return _plain(q)

    def scaled(self, factor: float) -> Effect:
        return Effect(self.means * factor, self.variances * factor**2)

    def sample(self, count: int, seed: int) -> np.ndarray:
        """[count, …] draws from the mixture."""
        rng = np.random.default_rng(np.random.SeedSequence((seed, 3)))
        pick = rng.integers(0, len(self.means), count)
        return self.means[pick] + np.sqrt(self.variances[pick]) * rng.standard_normal((count, *self.means.shape[1:]))


@dataclass(frozen=True, repr=False)
class Rates(Shown):
    """Rates of a count, draw by draw: averages over people (arrays [L]), or of each person ([L, n])."""

    untreated: np.ndarray
    treated: np.ndarray
    called: ClassVar[str] = "Rates"

    def shown(self) -> str:
        if self.untreated.ndim > 1:
            return (f"{self.called} of {self.untreated.shape[-1]} people: .of_untreated, .of_treated and .difference "
                    f"have each")
        return (f"{self.called}: untreated {self.of_untreated.mean:.4g}, treated {self.of_treated.mean:.4g}; "
                f"difference {self.difference.shown().removeprefix('Effect ')}")

    @property
    def of_untreated(self) -> Effect:
        return _exactly(self.untreated)

    @property
    def of_treated(self) -> Effect:
        return _exactly(self.treated)

    @property
    def difference(self) -> Effect:
        """r₁ − r₀."""
        return _exactly(self.treated - self.untreated)

    @property
    def ratio(self) -> Effect:
        """r₁/r₀."""
        return _exactly(self.treated / self._positive(self.untreated))

    @staticmethod
    def _positive(value: np.ndarray) -> np.ndarray:
        return np.maximum(value, 1e-12)


@dataclass(frozen=True, repr=False)
class Risks(Rates):
    """Risks of an outcome of 0 and 1, in the same form."""

    called: ClassVar[str] = "Risks"

    @property
    def odds_ratio(self) -> Effect:
        """Of the risks, which are averages over people: the marginal one."""
        against = self._positive((1.0 - self.treated) * self.untreated)
        return _exactly(self.treated * (1.0 - self.untreated) / against)

    def number_needed(self, alpha: float = 0.05) -> tuple[float, float, float] | None:
        """(1/|r₁ − r₀| at its mean, and at the ends of its interval): how many are treated for one whose outcome
        changes. None where the interval holds no difference: then no number is."""
        difference = self.difference
        low, high = difference.interval(alpha)
        if low <= 0.0 <= high:
            return None
        least, most = sorted((abs(low), abs(high)))
        return 1.0 / abs(difference.mean), 1.0 / most, 1.0 / least


def _exactly(draws: np.ndarray) -> Effect:
    """Nothing is left to know within a draw."""
    return Effect(draws, np.zeros_like(draws))


def draw_averages(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(means [1, *k, 3], covariances [1, *k, *k, 3]) over the draws of sums [L, *k, 3]: what a site tells of its
    own."""
    shape = sums.shape[1:-1]
    flat = sums.reshape(len(sums), -1, sums.shape[-1])
    away = flat - flat.mean(0)[None]
    cov = np.einsum("lap,lbp->abp", away, away) / len(sums)
    return sums.mean(0)[None], cov.reshape(1, *shape, *shape, sums.shape[-1])


def _drawn_risks(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """[L, k] draws of risks with about these means [k] and covariances [k, k]: Gaussian on the scale of log odds, so
    that they stay risks."""
    k, mean = len(mean), np.clip(mean, 1e-6, 1.0 - 1e-6)
    slope = 1.0 / (mean * (1.0 - mean))
    wide = cov * np.outer(slope, slope) + 1e-18 * np.eye(k)
    half = np.random.default_rng(0).standard_normal((SITE_DRAWS // 2, k))
    normals = np.concatenate([half, -half])
    normals = normals @ np.linalg.inv(np.linalg.cholesky(normals.T @ normals / len(normals))).T
    root = np.linalg.cholesky(wide) if k == 2 else _root(wide)
    return expit(logit(mean)[None] + normals @ root.T)


def _drawn_rates(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """[L, 2] of two rates likewise, on the scale of their logs."""
    mean = np.maximum(mean, 1e-12)
    half = np.random.default_rng(0).standard_normal((SITE_DRAWS // 2, 2))
    normals = np.concatenate([half, -half])
    normals = normals @ np.linalg.inv(np.linalg.cholesky(normals.T @ normals / len(normals))).T
    wide = np.log1p(cov / np.outer(mean, mean))
    return np.exp(np.log(mean)[None] - 0.5 * np.diag(wide)[None] + normals @ _root(wide).T)


def _root(cov: np.ndarray) -> np.ndarray:
    """Symmetric: of many numbers over few draws it has rounding in place of its smallest eigenvalues."""
    values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
    return vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T


def average(sums: Iterable[Effect], people: int, dependent: bool = False) -> Effect:
    """(Σ_s sum_s) / people, of sums that are independent within a draw. `dependent`: of sums that are not (each over
    all draws, which the sites share); their sds add, the most that the variance can be."""
    sums = list(sums)
    means, variances = sum((s.means for s in sums), ZERO), sum((s.variances for s in sums), ZERO)
    most = sum((np.sqrt(s.variances) for s in sums), ZERO) ** 2
    return Effect(means, most if dependent else variances).scaled(1.0 / people)


@dataclass(frozen=True)
class EffectSums:
    """Sums of effects over people, for each draw and population, in outcome units: what sites tell of effects.

        cate_mean [L, 3], cate_var [1, 3]          mean and variance of Σ τ(x_i), expected effects
        ite_mean [L/4, C, 3], ite_var [1, C, 3]    of Σ τ_i, realised effects, at each of CORRELATIONS
        ite_sd  [C]   Σ_i sd(τ_i)                  people  [3]   how many are summed

    Of an outcome of 0 and 1, of each draw and arm; of a site that tells averages over the draws, L = 1:

        risks [L, 2, 3]   Σ r_a(x_i)               risks_cov [1, 2, 2, 3]   its covariances over the draws

    Of more than two arms A, with populations everybody and who got each: arm_mean [L, A, 1 + A] in place of cate and
    ite, the sum of what is expected in each arm, and arm_cov [1, A, A, 1 + A]; of risks A in place of 2 (`between`).

    Of a count, in place of risks, rates and rates_cov. Of a time to an event, at the end of each interval:

        survival [L, 2, J, 3]   Σ S_a(t_j | x_i)   survival_cov [1, 2, J, 2, J, 3]
    """

    parts: tuple[Mapping[str, np.ndarray], ...]
    """Of each site, or the one sum of all."""
    dependent: bool = False
    """Whether the parts depend on each other (`average`)."""

    def people(self, population: str = "all") -> int:
        return sum(int(part["people"][_column(population)]) for part in self.parts)

    @property
    def arms(self) -> int:
        part = self.parts[0]
        return next((part[name].shape[1] for name in ("arm_mean", "risks", "rates", "survival") if name in part), 2)

    def between(self, against: int, arm: int) -> EffectSums:
        """Of two of more than two arms, as of a treatment and its reference: over everybody, who got `arm`, and who got
        `against`."""
        if self.arms == 2:
            return self
        return replace(self, parts=tuple(_between(part, against, arm) for part in self.parts))

    def in_arm(self, arm: int, population: int = 0) -> Effect:
        """What is expected in one arm on average, or its risk (of a time by the last horizon) or rate; of numbers about
        their mean. `population`: everybody, or from 1 on who got each arm."""
        people = sum(int(part["people"][population]) for part in self.parts)
        if "arm_mean" in self.parts[0]:
            return average([_of_draws(part["arm_mean"][:, arm, population], part["arm_cov"][:, arm, arm, population])
                            for part in self.parts], people, self.dependent)
        other = 0 if arm else 1
        two = replace(self, parts=tuple(_between(part, other, arm, population) for part in self.parts))
        return (two.rates() if self.of_rates else two.risks()).of_treated

    @property
    def of_risks(self) -> bool:
        return "risks" in self.parts[0] or self.of_times

    @property
    def of_rates(self) -> bool:
        return "rates" in self.parts[0]

    def rates(self, population: str = "all") -> Rates:
        """Average rates without and with treatment."""
        c, people = _column(population), self.people(population)
        parts = [_drawn_rates(part["rates"][0, :, c] / people, part["rates_cov"][0, :, :, c] / people**2)
                 if "rates_cov" in part else part["rates"][..., c] / people for part in self.parts]
        both = sum(parts, ZERO)
        return Rates(both[:, 0], both[:, 1])

    @property
    def of_times(self) -> bool:
        return "survival" in self.parts[0]

    def curves(self, population: str = "all") -> np.ndarray:
        """[L, 2, J] average survival without and with treatment at the end of each interval, never rising."""
        c, people = _column(population), self.people(population)
        parts = []
        for part in self.parts:
            average = part["survival"][..., c] / people
            if "survival_cov" in part:
                k = average[0].size
                cov = part["survival_cov"][0, ..., c].reshape(k, k) / people**2
                average = _drawn_risks(average[0].ravel(), cov).reshape(-1, *average.shape[1:])
            parts.append(average)
        return np.minimum.accumulate(np.clip(sum(parts, ZERO), 0.0, 1.0), -1)

    def risks(self, population: str = "all") -> Risks:
        """Average risks without and with treatment; of a time to an event, by the last horizon."""
        if self.of_times:
            risk = 1.0 - self.curves(population)[..., -1]
            return Risks(risk[:, 0], risk[:, 1])
        c, people = _column(population), self.people(population)
        parts = [_drawn_risks(part["risks"][0, :, c] / people, part["risks_cov"][0, :, :, c] / people**2)
                 if "risks_cov" in part else part["risks"][..., c] / people for part in self.parts]
        both = np.clip(sum(parts, ZERO), 0.0, 1.0)
        return Risks(both[:, 0], both[:, 1])

    def expected(self, population: str = "all") -> Effect:
        """The average of τ(x_i)."""
        if self.of_risks or self.of_rates:
            return (self.rates(population) if self.of_rates else self.risks(population)).difference
        c = _column(population)
        sums = [_of_draws(part["cate_mean"][:, c], part["cate_var"][:, c]) for part in self.parts]
        return average(sums, self.people(population), self.dependent)

    def realised(self, noise_correlation: float | None = None, population: str = "all") -> Effect:
        """The average of τ_i; None or NaN: at the prior's noise correlation."""
        at = ..., _place(noise_correlation), _column(population)
        sums = [_of_draws(part["ite_mean"][at], part["ite_var"][at]) for part in self.parts]
        return average(sums, self.people(population), self.dependent)

    def person_sd(self, noise_correlation: float | None = None) -> float:
        """The average of sd(τ_i) over everybody."""
        place = _place(noise_correlation)
        return sum(float(part["ite_sd"][place]) for part in self.parts) / self.people()


def _between(part: Mapping[str, np.ndarray], against: int, arm: int,
             population: int | None = None) -> dict[str, np.ndarray]:
    """Over one population, or over everybody and who got either."""
    pick, over = [against, arm], [0, 1 + arm, 1 + against] if population is None else [population] * 3
    found = {"people": part["people"][over]}
    if "arm_mean" in part:
        mean, cov = part["arm_mean"][..., over], part["arm_cov"][..., over]
        variance = cov[:, arm, arm] + cov[:, against, against] - 2.0 * cov[:, arm, against]
        return found | {"cate_mean": mean[:, arm] - mean[:, against], "cate_var": np.maximum(variance, 0.0)}
    for name in ("risks", "rates", "survival"):
        if name in part:
            found[name] = part[name][:, pick][..., over]
        if f"{name}_cov" in part:
            cov = part[f"{name}_cov"]
            second = 3 if name == "survival" else 2
            found[f"{name}_cov"] = np.take(np.take(cov, pick, 1), pick, second)[..., over]
    return found


def _of_draws(means: np.ndarray, variances: np.ndarray) -> Effect:
    return Effect(means, np.broadcast_to(variances, means.shape))


def _column(population: str) -> int:
    return [row.name for row in POPULATIONS].index(population)


def _place(noise_correlation: float | None) -> int:
    """Of a noise correlation among CORRELATIONS."""
    value = np.nan if noise_correlation is None else noise_correlation
    hits = np.flatnonzero(np.isclose(CORRELATIONS, value, equal_nan=True))
    if not len(hits):
        known = ", ".join(f"{c:g}" for c in CORRELATIONS[1:])
        raise UsageError(f"average realised effects were gathered at noise correlations {known}; got {value}")
    return int(hits[0])


def check_alpha(alpha: float) -> float:
    if not 0.0 < alpha < 1.0:
        raise UsageError(f"alpha = {alpha} is no error rate: give a number between 0 and 1, such as 0.05")
    return alpha


def _plain(value: np.ndarray) -> Value:
    return float(value) if np.ndim(value) == 0 else value
