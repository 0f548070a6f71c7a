"""What a site adds to its answers: Gaussian noise from its own secret. Under differential privacy (`SiteNoise`), and
where a fit at home tells its sums with noise that the model knows (`SumNoise`).

The noise follows from the secret of the site's store, the study, the cohort and the people (and the request, in a
round): the same question about the same people has the same answer in every run and kit, and asking again averages
nothing out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedci.model.family import Draw
from fedci.model.shared import sum_noise
from fedci.privacy import dp
from fedci.privacy.secure_sum import derived, info
from fedci.study.options import FitOptions
from fedci.study.policy import given
from fedci.study.study import Study
from fedci.table.moments import SiteMoments
from fedci.table.table import Table

FARTHEST = 4.0
"""Sds of a column, at the site, beyond which its square is cut where noise is on its sum."""
ROOTS = ("gradient", "phi_roots", "sigma_roots")
"""What of a round is clipped and noised together."""


@dataclass(frozen=True)
class SiteNoise:
    """Of one site in one study; `multipliers` says which kinds of release it is for."""

    study: Study
    secret: bytes
    people: str
    """Digest of the rows."""
    multipliers: Mapping[str, float]

    def moments(self, table: Table) -> SiteMoments:
        bounds = dp.Bounds(bounds_of(self.study), given(self.study.policy.outcome_range))
        return dp.moments(table.x, table.w, table.y, bounds, self.multipliers["moments"], self._seed("moments"))

    def effects(self, sums: Mapping[str, np.ndarray], counts: np.ndarray) -> dict[str, np.ndarray]:
        """Sums of one draw: the noised averages times people. Realised effects are not told."""
        own, people = np.asarray(sums["people"], float), np.maximum(counts, 1.0)
        means = sums["cate_mean"].mean(0) / np.maximum(own, 1.0)
        sds = np.sqrt(sums["cate_var"].mean(0) + sums["cate_mean"].var(0)) / np.maximum(own, 1.0)
        mean, variance = dp.effects(means, sds, given(self.study.policy.effect_bound), self.multipliers["effects"],
                                    self._seed("effects"))
        each = np.zeros_like(sums["ite_mean"][:1])
        return {"cate_mean": (mean * people)[None], "cate_var": (variance * people**2)[None], "ite_mean": each,
                "ite_var": each, "ite_sd": np.zeros_like(sums["ite_sd"]), "people": counts}

    def evaluation(self, sums: Mapping[str, np.ndarray], asked: str) -> dict[str, np.ndarray]:
        """Clipped and noised gradients; the objective is not told."""
        parts = [np.asarray(sums[name]) for name in ROOTS]
        flat = dp.gradient(np.concatenate([part.ravel() for part in parts]), given(self.study.policy.gradient_clip),
                           self.multipliers["gradients"], self._seed("gradients", asked))
        ends = np.cumsum([part.size for part in parts])[:-1]
        noised = {name: piece.reshape(part.shape) for name, part, piece in zip(ROOTS, parts, np.split(flat, ends),
                                                                               strict=True)}
        return noised | {"objective": np.zeros(()), "failed": sums["failed"]}

    def _seed(self, kind: str, *more: str) -> bytes:
        return derived(self.secret, info("noise", kind, self.study.hash(), self.people, *more))


@dataclass(frozen=True, kw_only=True)
class SumNoise:
    """Of one site in one study (`policy.sum_noise`)."""

    study: Study
    secret: bytes
    people: str
    """Digest of the rows."""
    part: float
    """That a site adds of it (`sum_noise.part_of`)."""
    sites: tuple[str, ...] = ()
    """The cohort: the part depends on their number, and two parts of one noise would solve for the sum."""
    asked_once: Callable[[str, str], None] = lambda about, question: None
    """(sums, question) → an error where another question about them was answered; in one process nobody remembers."""

    def drawn(self, kind: str, *more: str) -> Draw:
        about = "sum noise", kind, self.study.hash(), self.people, *self.sites
        if more:
            self.asked_once(hashlib.sha256(info(*about)).hexdigest(), " ".join(more))
        seed = derived(self.secret, info(*about, *more))
        return lambda count: dp.gaussian(seed, count)

    def means(self, totals: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """Σ x with noise of s/√share sds of the column: that much of 1/s² is told of each x."""
        return totals + self._unit("means") * sd * self.drawn("means")(totals.size).reshape(totals.shape)

    def squares(self, x: np.ndarray, centre: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """Σ (x − c)² of x [n, k], cut at FARTHEST sds: its slope in x is at most 2·FARTHEST sds. About another centre
        the noise is another: the same would cancel in the difference, which is linear in Σx."""
        cut, draw = FARTHEST * sd, self.drawn("squares", digest_of_numbers(centre))
        totals = np.sum(np.clip(np.nan_to_num(x - centre), -cut, cut) ** 2, 0)
        return totals + self._unit("squares") * 2.0 * FARTHEST * sd**2 * draw(totals.size)

    def _unit(self, kind: str) -> float:
        return self.part * self.study.policy.sum_noise / float(np.sqrt(sum_noise.SHARES[kind]))


def sum_noise_of(study: Study, noises: bool, sites: tuple[str, ...], table: Table, secret: bytes,
                 asked_once: Callable[[str, str], None] | None = None) -> SumNoise | None:
    """None where sums are told as they are."""
    if not noises:
        return None
    part = sum_noise.part_of(len(sites), study.policy.secures(len(sites)))
    noise = SumNoise(study=study, secret=secret, people=digest_of(table), part=part, sites=sites)
    return noise if asked_once is None else replace(noise, asked_once=asked_once)


def digest_of(table: Table) -> str:
    """Of its rows, in whatever order they stand: of the same people in another order noise is no other."""
    rows = np.column_stack([table.x, table.w, table.y])
    return digest_of_numbers(rows[np.lexsort(rows.T)])


def digest_of_numbers(*parts: Any) -> str:
    """Of what a question is about: asked again, it has the same noise; about anything else, another."""
    return hashlib.sha256(b"".join(np.asarray(part, float).tobytes() for part in parts)).hexdigest()


def bounds_of(study: Study) -> list[tuple[float, float]]:
    """Of each design column: its range, or 0 and 1."""
    return [covariate.range or (0.0, 1.0)
            for covariate in study.covariates for _ in covariate.design_columns()]


def site_noise(study: Study, options: FitOptions, table: Table, secret: bytes) -> SiteNoise | None:
    """None where the study asks for no differential privacy."""
    policy = study.policy
    if policy.epsilon is None:
        return None
    rows = digest_of(table)
    made = dp.multipliers(policy.epsilon, given(policy.delta), policy.noised, options.optimiser.rounds)
    return SiteNoise(study, secret, rows, made)
