"""Balance: standardised mean differences of each covariate between the arms, before and after adjustment.

    SMD = (mean₁ − mean₀) / √((v₁ + v₀)/2)          v: the arms' variances before adjustment, also in the SMD after it

Two weightings adjust: stabilised inverse probability, ω = π/e(x) for the treated and (1 − π)/(1 − e(x)) for the others
(π the share of treated people in the study: all people are the target); and overlap weights, ω = 1 − e(x) and e(x)
(those who might have got either). A site sends weighted means and variances of each arm; they pool exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedci.diagnostics.verdict import Plain, Verdict, Word, graded

WEIGHTINGS = ("none", "iptw", "overlap")
THRESHOLD, PROBLEM = 0.1, 0.25
NAMED = 3
"""Columns that a sentence names at most."""


class ArmMoments(NamedTuple):
    """Of the columns (p) in the two arms under S weightings."""

    size: np.ndarray
    """[S, 2, p] Σω over the people whose value is known."""
    mean: np.ndarray
    """[S, 2, p]"""
    variance: np.ndarray
    """[S, 2, p]"""
    told: np.ndarray
    """[S, p] False: withheld by the site."""


class ColumnBalance(Plain):
    """A covariate's standardised mean differences, treated minus untreated; None where no site may tell."""

    column: str
    before: float | None
    after: float | None
    """With inverse probability weights."""
    after_overlap: float | None
    """With overlap weights."""


class SiteBalance(Plain):
    site: str
    columns: tuple[ColumnBalance, ...]
    """The same, among the site's own people."""


class Balance(Plain):
    """Differences between the arms, over all sites together and at each."""

    columns: tuple[ColumnBalance, ...]
    sites: tuple[SiteBalance, ...]
    verdicts: tuple[Verdict, ...]


def weights(w: np.ndarray, e: np.ndarray, share: float) -> np.ndarray:
    """[S, n] in the order of WEIGHTINGS; `share` of treated people is π."""
    return np.stack([np.ones_like(e), np.where(w == 1, share / e, (1.0 - share) / (1.0 - e)),
                     np.where(w == 1, 1.0 - e, e)])


def arm_sums(x: np.ndarray, arm: np.ndarray, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σω, Σωx, Σωx² [S, 2, p] of x [n, p] (NaN: not known) in the arms 0 and 1, under the weights [S, n]. x is in
    pooled standard deviations about the pooled mean, so the squares lose no digits."""
    known = ~np.isnan(x)
    value = np.where(known, x, 0.0)
    each = omega[:, None, :] * np.stack([arm == 0, arm == 1]).astype(float)[None]
    return each @ known.astype(float), each @ value, each @ value**2


def arm_moments(sums: Mapping[str, np.ndarray]) -> ArmMoments:
    """From 'size', 'first', 'second' [S, 2, p] and 'told' [S, p], of a site or of all that tell."""
    safe = np.where(sums["size"] > 0, sums["size"], 1.0)
    mean = sums["first"] / safe
    return ArmMoments(sums["size"], mean, np.maximum(sums["second"] / safe - mean**2, 0.0), sums["told"] > 0)


def differences(arms: ArmMoments) -> np.ndarray:
    """[S, p] SMD under each weighting; NaN where an arm is empty, withheld, or does not vary."""
    spread = np.sqrt(arms.variance[0].mean(0))
    with np.errstate(divide="ignore", invalid="ignore"):
        smd = (arms.mean[:, 1] - arms.mean[:, 0]) / spread
    usable = arms.told & arms.told[0] & (arms.size > 0).all(1) & (spread > 0)
    return np.where(usable, smd, np.nan)


def summary(everyone: ArmMoments, parts: Mapping[str, ArmMoments], names: Sequence[str]) -> Balance:
    """From the sums over all sites, and, where they are seen, from each site's own."""
    overall = _columns(differences(everyone), names)
    sites = tuple(SiteBalance(site=site, columns=_columns(differences(arms), names)) for site, arms in parts.items())
    return Balance(columns=overall, sites=sites, verdicts=_verdicts(overall, sites, everyone, parts))


def _columns(smd: np.ndarray, names: Sequence[str]) -> tuple[ColumnBalance, ...]:
    values = [[None if np.isnan(v) else float(v) for v in row] for row in smd]
    return tuple(ColumnBalance(column=name, before=b, after=a, after_overlap=o)
                 for name, b, a, o in zip(names, *values, strict=True))


def _verdicts(overall: Sequence[ColumnBalance], sites: Sequence[SiteBalance], everyone: ArmMoments,
              parts: Mapping[str, ArmMoments]) -> tuple[Verdict, ...]:
    before, after = _largest(overall, "before"), _largest(overall, "after")
    chance = _chance(everyone)
    worst = max(((_largest(site.columns, "after")[0], site) for site in sites),
                key=lambda pair: -1.0 if pair[0] is None else pair[0], default=(None, None))
    rows = [_verdict("balance before adjustment", before, _named(overall, "before"), "before adjustment",
                     "The model has to adjust for these.", most="look"),
            _verdict("balance after adjustment", after, _named(overall, "after"), "after weighting by the propensity",
                     "FedCI adjusts by its model of the outcome, not by these weights: what they cannot balance, the "
                     "model bridges by extrapolation. Look at these covariates' overlap, or restrict the study. "
                     f"By chance alone a difference of {chance:.2f} is usual here.")]
    if len(sites) > 1 and worst[1] is not None:
        rows.append(_verdict(
            "balance within sites", (worst[0], None), _named(worst[1].columns, "after"),
            f"after weighting at site '{worst[1].site}', the least balanced one",
            f"Within one site chance alone makes {_chance(parts[worst[1].site]):.2f}; differences beyond it mean that "
            f"the site's own comparison leans on the other sites.", most="look"))
    return tuple(rows)


def _largest(columns: Sequence[ColumnBalance], which: str) -> tuple[float | None, str | None]:
    known = [(abs(value), balance.column) for balance in columns if (value := getattr(balance, which)) is not None]
    return max(known, default=(None, None))


def _named(columns: Sequence[ColumnBalance], which: str) -> list[str]:
    """The columns above the threshold, the worst first."""
    over = sorted(((abs(value), balance.column, value) for balance in columns
                   if (value := getattr(balance, which)) is not None and abs(value) > THRESHOLD), reverse=True)
    return [f"{name} ({value:+.2f})" for _, name, value in over]


def _verdict(name: str, largest: tuple[float | None, str | None], over: list[str], when: str, remedy: str,
             most: Word = "problem") -> Verdict:
    value = largest[0]
    word = graded(value, THRESHOLD, PROBLEM)
    word = most if word == "problem" else word
    if value is None:
        words = f"No covariate could be compared {when}: the sites' policies withhold all of them."
    elif not over:
        words = (f"All covariates that may be told differ between the arms by at most {value:.2f} standard deviations "
                 f"{when}.")
    else:
        more = f" and {len(over) - NAMED} more" if len(over) > NAMED else ""
        words = (f"{len(over)} covariate{'s differ' if len(over) > 1 else ' differs'} by more than {THRESHOLD:g} "
                 f"standard deviations {when}: {', '.join(over[:NAMED])}{more}. {remedy}")
    return Verdict(name=name, value=value, threshold=THRESHOLD, verdict=word, words=words)


def _chance(arms: ArmMoments) -> float:
    """Sd of an SMD between two random samples of these sizes: √(1/n₁ + 1/n₀)."""
    sizes = arms.size[0].max(-1)
    return float(np.sqrt(np.sum(1.0 / np.maximum(sizes, 1.0))))
