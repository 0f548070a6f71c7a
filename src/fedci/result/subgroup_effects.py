"""Effects in the subgroups that the study named, and their differences, with intervals that hold together.

Of each draw l a group's average effect is m_l (of what is no number the difference of its average risks), with
covariances C within a draw. A difference of two groups is a row a of a matrix of contrasts,

    mean aᵀm̄      sd² = aᵀ(C + Cov_l m_l)a      simultaneous: mean ± c sd,  c = quantile of max_k |a_kᵀ(m − m̄)|/sd_k

over joint draws of all groups, so that all the intervals of a table hold at once with probability 1 − α. Draw by draw
the two averages of a group give its ratios too; how many times as large one group's ratio is as another's is
exp(log ρ − log ρ′), likewise draw by draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.effect import Effect, Rates, Risks, check_alpha
from fedci.errors import UsageError
from fedci.result import averages
from fedci.study.options import nearest
from fedci.study.subgroups import Group

if TYPE_CHECKING:
    import pandas as pd

JOINT = 20_000
"""Draws behind a simultaneous interval: its quantile is then known to about 1 %."""
LEAST = 1e-12
"""Of a risk or a rate in a ratio."""


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
    of_rates: bool = False
    """Whether what is no number is a count: rates, which may be above 1 and have no odds."""

    @property
    def effects(self) -> np.ndarray:
        """[L, G] of each draw."""
        return self.levels[:, 0] if self.levels.shape[1] == 1 else self.levels[:, 1] - self.levels[:, 0]

    def effect(self, name: str) -> Effect:
        """Of the group of that name."""
        k = [group.name for group in self.groups].index(name)
        return Effect(self.effects[:, k], np.full(len(self.effects), self.cov[k, k]))

    @property
    def of_numbers(self) -> bool:
        return self.levels.shape[1] == 1

    def risks(self, name: str) -> Risks:
        """Of an outcome of 0 and 1, and of a time by the last horizon: both risks of the group of that name, their
        ratio, odds ratio and number needed to treat."""
        if self.of_numbers or self.of_rates:
            raise UsageError("risks are of an outcome of 0 and 1 or of a time to an event; the subgroups of this study "
                             f"have {'rates: .rates(name)' if self.of_rates else 'effects: .effect(name)'}")
        return Risks(*self._both(name))

    def rates(self, name: str) -> Rates:
        """Of a count: both rates of the group of that name, and their ratio."""
        if not self.of_rates:
            raise UsageError("rates are of counts; the subgroups of this study have "
                             f"{'effects: .effect(name)' if self.of_numbers else 'risks: .risks(name)'}")
        return Rates(*self._both(name))

    def _both(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        names = [group.name for group in self.groups]
        if name not in names:
            raise UsageError(f"no subgroup {name!r} was told of{nearest(name, names)}; there are {', '.join(names)}")
        untreated, treated = self.levels[:, :, names.index(name)].T
        return untreated, treated

    def table(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row for each group: people, sites that tell of it, the effect with its interval, and an interval that
        holds for all groups at once; of what is no number also both risks, or rates, their ratio with its interval,
        and of risks odds ratio and number needed to treat (none where the interval of the difference holds 0)."""
        import pandas as pd

        found = together(self.effects, self.cov, np.eye(len(self.groups)), alpha)
        frame = pd.DataFrame({"subgroup": [group.of for group in self.groups],
                              "group": [group.name for group in self.groups], "people": self.people,
                              "sites": self.sites, **found})
        if self.of_numbers:
            return frame
        more = pd.DataFrame([self._made_of(group.name, alpha) for group in self.groups])
        return pd.concat([frame.assign(untreated=self.levels[:, 0].mean(0), treated=self.levels[:, 1].mean(0)), more],
                         axis=1)

    def _made_of(self, name: str, alpha: float) -> dict[str, float]:
        """Ratios of the two averages, and the number needed."""
        columns = (averages.rate_columns(self.rates(name), alpha) if self.of_rates else
                   averages.risk_columns(self.risks(name), alpha))
        return {key: value for key, value in columns.items() if key.startswith(("ratio", "odds_ratio", "needed"))}

    def contrasts(self, alpha: float = 0.05) -> pd.DataFrame:
        """The differences of effects between the groups of each definition: with intervals, with intervals that hold
        for all of them at once, and the probability of a difference as large as this one anywhere in the table where
        there is none (`p`, adjusted for how many were looked at). Of what is no number also the ratio of their two
        ratios (`ratio`: 1 where treatment multiplies risks, or rates, alike)."""
        import pandas as pd

        pairs = self.pairs
        rows = np.zeros((len(pairs), len(self.groups)))
        for k, (first, second) in enumerate(pairs):
            rows[k, first], rows[k, second] = 1.0, -1.0
        found = together(self.effects, self.cov, rows, alpha, p=True)
        return pd.DataFrame({"subgroup": [self.groups[first].of for first, _ in pairs],
                             "group": [self.groups[first].name for first, _ in pairs],
                             "against": [self.groups[second].name for _, second in pairs], **found,
                             **({} if self.of_numbers else self._ratios_of(pairs, alpha))})

    def _ratios_of(self, pairs: Sequence[tuple[int, int]], alpha: float) -> dict[str, Any]:
        logs = np.log(np.maximum(self.levels, LEAST))
        ratios = logs[:, 1] - logs[:, 0]
        each = [Effect(own, np.zeros_like(own)) for own in
                (np.exp(ratios[:, first] - ratios[:, second]) for first, second in pairs)]
        return dict(zip(("ratio", "ratio_low", "ratio_high"), np.array(
            [(one.quantile(0.5), *one.interval(alpha)) for one in each]).reshape(-1, 3).T, strict=True))

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
        least = 1.0 / (JOINT if cov.any() else len(effects))  # draws alone tell no less than one of theirs
        found["p"] = np.array([max(np.mean(most >= abs(t)), least) for t in mean / np.maximum(sd, 1e-300)])
    return found


def _largest(effects: np.ndarray, cov: np.ndarray, rows: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """[JOINT] max_k |a_kᵀ(m − m̄)|/sd_k."""
    rng = np.random.default_rng(np.random.SeedSequence(11))
    values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = effects[np.arange(JOINT) % len(effects)] + rng.standard_normal((JOINT, len(values))) @ root.T
    away = np.abs(drawn @ rows.T - mean) / np.maximum(sd, 1e-300)
    return np.asarray(away.max(1, initial=0.0))


def subgroups_of(groups: Sequence[Group], told: Mapping[str, np.ndarray], of_rates: bool = False) -> Subgroups | None:
    """From the sums over all sites; None where they were given up. `of_rates`: of a count."""
    if not told:
        return None
    here = np.flatnonzero(told["people"] > 0)
    people = told["people"][here]
    untold = tuple(group for k, group in enumerate(groups) if k not in here)
    return Subgroups(groups=tuple(groups[int(k)] for k in here), untold=untold, people=np.rint(people).astype(int),
                     sites=np.rint(told["told"][here]).astype(int), levels=told["effects"][:, :, here] / people,
                     cov=told["effects_cov"][np.ix_(here, here)] / np.outer(people, people), of_rates=of_rates)


def in_words(found: Subgroups | None, sites: int, alpha: float) -> list[str]:
    """For the summary: the table, the differences, and what is not told."""
    if found is None:
        return ["The study's subgroups were given up: a site refused them (see the diagnostics' notes).", ""]
    level = f"{100 * (1 - alpha):g}%"
    lines = []
    if found.groups:
        table, against = found.table(alpha), found.contrasts(alpha)
        short = [name for name in table if str(name).startswith(("ratio", "odds_ratio", "needed"))]
        lines += [f"In the study's subgroups ({level} intervals; all_: that hold for all rows at once):",
                  _aligned(table.drop(columns=["subgroup", *short])), "", *_ratios(table, short), *said(found, alpha),
                  _aligned(against.drop(columns="subgroup")), ""]
    for group, told in zip(found.groups, found.sites.tolist(), strict=True):
        if told < sites:
            lines.append(f"'{group.name}' is told of by {told} of {sites} sites: at the others too few people are in "
                         f"it, or in all else.")
    if found.untold:
        lines.append(f"Not told, for too few people: {', '.join(group.name for group in found.untold)}.")
    return [*lines, ""]


def _ratios(table: pd.DataFrame, columns: list[str]) -> list[str]:
    """Of what is no number: a table of their own, without the ends of odds ratios and numbers needed."""
    shown = [name for name in columns if not name.startswith(("odds_ratio_", "needed_"))]
    if not shown:
        return []
    return [_aligned(table[["group", *shown]].astype(dict.fromkeys(shown, float))).replace("NaN", "  –"), ""]


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
