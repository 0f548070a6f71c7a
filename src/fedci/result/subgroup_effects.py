"""Effects in the subgroups that the study named, and their differences, with intervals that hold together.

Of each draw l a group's average effect is m_l (of what is no number the difference of its average risks), with
covariances C within a draw. A difference of two groups is a row a of a matrix of contrasts,

    mean aᵀm̄      sd² = aᵀ(C + Cov_l m_l)a      simultaneous: mean ± c sd,  c = quantile of max_k |a_kᵀ(m − m̄)|/sd_k

over joint draws of all groups, so that all the intervals of a table hold at once with probability 1 − α.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fedci.effect import Effect, check_alpha
from fedci.study.subgroups import Group

if TYPE_CHECKING:
    import pandas as pd

JOINT = 20_000
"""Draws behind a simultaneous interval: its quantile is then known to about 1 %."""


@dataclass(frozen=True, kw_only=True)
class Subgroups:
    """All groups of a study, of which sites told something."""

    groups: tuple[Group, ...]
    """Those that some site tells of."""
    untold: tuple[Group, ...]
    """Those that none does: too few people, or in all else."""
    people: np.ndarray
    """[G] over the sites that tell of it."""
    sites: np.ndarray
    """[G] how many these are."""
    levels: np.ndarray
    """[L, a, G] averages: of numbers the effect (a = 1); of all else risks, or rates, without and with treatment."""
    cov: np.ndarray
    """[G, G] of the averages' effects within a draw."""

    @property
    def effects(self) -> np.ndarray:
        """[L, G] of each draw."""
        return self.levels[:, 0] if self.levels.shape[1] == 1 else self.levels[:, 1] - self.levels[:, 0]

    def effect(self, name: str) -> Effect:
        """Of the group of that name."""
        k = [group.name for group in self.groups].index(name)
        return Effect(self.effects[:, k], np.full(len(self.effects), self.cov[k, k]))

    def table(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row for each group: people, sites that tell of it, the effect with its interval, and an interval that
        holds for all groups at once; of what is no number also both risks, or rates."""
        import pandas as pd

        found = together(self.effects, self.cov, np.eye(len(self.groups)), alpha)
        frame = pd.DataFrame({"subgroup": [group.of for group in self.groups],
                              "group": [group.name for group in self.groups], "people": self.people,
                              "sites": self.sites, **found})
        if self.levels.shape[1] == 2:
            for a, arm in enumerate(("untreated", "treated")):
                frame[arm] = self.levels[:, a].mean(0)
        return frame

    def contrasts(self, alpha: float = 0.05) -> pd.DataFrame:
        """The differences of effects between the groups of each definition: with intervals, with intervals that hold
        for all of them at once, and the probability of a difference as large as this one anywhere in the table where
        there is none (`p`, adjusted for how many were looked at)."""
        import pandas as pd

        pairs = self.pairs
        rows = np.zeros((len(pairs), len(self.groups)))
        for k, (first, second) in enumerate(pairs):
            rows[k, first], rows[k, second] = 1.0, -1.0
        found = together(self.effects, self.cov, rows, alpha, p=True)
        return pd.DataFrame({"subgroup": [self.groups[first].of for first, _ in pairs],
                             "group": [self.groups[first].name for first, _ in pairs],
                             "against": [self.groups[second].name for _, second in pairs], **found})

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Of the groups of one definition: the later against the earlier, but a group against all others."""
        found = [(j, i) for i, j in combinations(range(len(self.groups)), 2) if self.groups[i].of == self.groups[j].of]
        return [(second, first) if self.groups[first].others else (first, second) for first, second in found]


def together(effects: np.ndarray, cov: np.ndarray, rows: np.ndarray, alpha: float,
             p: bool = False) -> dict[str, np.ndarray]:
    """Of each row of contrasts [K, G] of effects [L, G], whose covariances within a draw are [G, G]: mean, sd,
    interval, the interval that holds for all rows at once, and p."""
    means, within = effects @ rows.T, np.einsum("kg,gh,kh->k", rows, cov, rows)
    each = Effect(means, np.broadcast_to(np.maximum(within, 0.0), means.shape))
    low, high = each.interval(check_alpha(alpha)) if len(rows) else (np.zeros(0), np.zeros(0))
    mean, sd = np.asarray(each.mean), np.asarray(each.sd)
    most = _largest(effects, cov, rows, mean, sd)
    wide = np.quantile(most, 1.0 - alpha) * sd if len(rows) else sd
    found = {"mean": mean, "sd": sd, "low": np.asarray(low), "high": np.asarray(high),
             "all_low": np.minimum(mean - wide, low), "all_high": np.maximum(mean + wide, high)}
    if p:
        found["p"] = np.array([max(np.mean(most >= abs(t)), 1.0 / JOINT) for t in mean / np.maximum(sd, 1e-300)])
    return found


def _largest(effects: np.ndarray, cov: np.ndarray, rows: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """[JOINT] max_k |a_kᵀ(m − m̄)|/sd_k."""
    rng = np.random.default_rng(np.random.SeedSequence(11))
    values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = effects[np.arange(JOINT) % len(effects)] + rng.standard_normal((JOINT, len(values))) @ root.T
    away = np.abs(drawn @ rows.T - mean) / np.maximum(sd, 1e-300)
    return np.asarray(away.max(1, initial=0.0))


def subgroups_of(groups: Sequence[Group], told: Mapping[str, np.ndarray]) -> Subgroups | None:
    """From the sums over all sites; None where they were given up."""
    if not told:
        return None
    here = np.flatnonzero(told["people"] > 0)
    people = told["people"][here]
    untold = tuple(group for k, group in enumerate(groups) if k not in here)
    return Subgroups(groups=tuple(groups[int(k)] for k in here), untold=untold, people=np.rint(people).astype(int),
                     sites=np.rint(told["told"][here]).astype(int), levels=told["effects"][:, :, here] / people,
                     cov=told["effects_cov"][np.ix_(here, here)] / np.outer(people, people))


def in_words(found: Subgroups | None, sites: int, alpha: float) -> list[str]:
    """For the summary: the table, the differences, and what is not told."""
    if found is None:
        return ["The study's subgroups were given up: a site refused them (see the diagnostics' notes).", ""]
    level = f"{100 * (1 - alpha):g}%"
    lines = []
    if found.groups:
        table, against = found.table(alpha), found.contrasts(alpha)
        lines += [f"In the study's subgroups ({level} intervals; all_: that hold for all rows at once):",
                  _aligned(table.drop(columns="subgroup")), "", *said(found, alpha),
                  _aligned(against.drop(columns="subgroup")), ""]
    for group, told in zip(found.groups, found.sites.tolist(), strict=True):
        if told < sites:
            lines.append(f"'{group.name}' is told of by {told} of {sites} sites: at the others too few people are in "
                         f"it, or in all else.")
    if found.untold:
        lines.append(f"Not told, for too few people: {', '.join(group.name for group in found.untold)}.")
    return [*lines, ""]


def said(found: Subgroups, alpha: float) -> list[str]:
    """Whether any difference is clear, in one sentence."""
    against = found.contrasts(alpha)
    if not len(against):
        return []
    clear = against[(against.all_low > 0) | (against.all_high < 0)]
    if not len(clear):
        return [f"No clear difference between subgroups: of {len(against)} looked at, every interval that allows for "
                f"their number holds zero."]
    named = "; ".join(f"{row.group} against {row.against} ({row.mean:.3g}, {row.all_low:.3g} to {row.all_high:.3g})"
                      for row in clear.itertuples())
    return [f"Clear differences between subgroups, allowing for the {len(against)} looked at: {named}."]


def _aligned(table: pd.DataFrame) -> str:
    return table.to_string(index=False, float_format=lambda value: f"{value:.4g}")
