"""Overlap: could the treated have been untreated, and the other way round?

    preference score   logit F = logit e(x) − logit π_s          π_s: the share of treated people at the site
    equipoise          the share of people with 0.3 ≤ F < 0.7    at least 0.2
    outside            the share of people with F < 0.1 or F ≥ 0.9: treatment was all but decided
    where              by which covariates: v_c, the mean over these people of ±x_c (− for those below), in standard
                       deviations, and b_c v_c / Σ|b_c v_c|, its share of what decided
    effective size     (Σω)² / Σω² of the inverse probability weights in each arm, beside the arm's people

Counts come in 20 bins of F; bins and their five groups are hidden where they are small (`counts`), and equipoise and
the people outside are sums of the same bins, so no two numbers can be subtracted to tell a small one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from fedci.diagnostics.propensity import Propensity
from fedci.diagnostics.verdict import Plain, Verdict, graded

BINS = 20
EDGES = np.arange(BINS + 1) / BINS
LIMITS = (0.1, 0.3, 0.7, 0.9)
GROUP = np.searchsorted(LIMITS, EDGES[:-1] + 0.5 / BINS)
"""[20] each bin's group: outside below, low, equipoise, high, outside above."""
GROUPS, EQUIPOISE, OUTSIDE = 5, 2, (0, 4)
EQUIPOISE_THRESHOLD, EQUIPOISE_PROBLEM = 0.2, 0.1
OUTSIDE_THRESHOLD, OUTSIDE_PROBLEM = 0.05, 0.2
EFFECTIVE_THRESHOLD, EFFECTIVE_PROBLEM = 0.5, 0.2
SHIFT_THRESHOLD, SHIFT_PROBLEM = 1.0, 2.0
NAMED = 3


class Counts(NamedTuple):
    """What a site tells of its preference scores, or the sum over all sites."""

    counts: np.ndarray
    """[2, 20] untreated and treated people in each bin, of the sites that tell it."""
    hidden: np.ndarray
    """[2, 20] how many sites hide it."""
    shares: np.ndarray
    """[2, 2] people in equipoise and outside, each with the number of people they are of: arms that tell it."""
    where_told: np.ndarray
    """[p] how many sites tell of those outside."""
    where_size: np.ndarray
    """[p] people outside whose value is known."""
    where_total: np.ndarray
    """[p] Σ ±x_c over them."""


class Histogram(Plain):
    """People in each of the 20 bins of the preference score; None: too few to be told."""

    untreated: tuple[int | None, ...]
    treated: tuple[int | None, ...]


class SiteOverlap(Plain):
    site: str
    histogram: Histogram
    equipoise: float | None
    """Share of the site's people with a preference score from 0.3 to 0.7."""
    outside: float | None
    """Share with one below 0.1 or from 0.9 on."""
    effective_untreated: float | None
    """Effective number of untreated people under inverse probability weights."""
    effective_treated: float | None


class Decider(Plain):
    """A covariate that put people outside common support."""

    column: str
    value: float
    """How far they are along it, in standard deviations: + if those with more of it are the treated ones."""
    share: float
    """Of what decided their treatment, by the propensity model; below 0 where it spoke against it."""


class Shift(Plain):
    """How far a site's people are from those of the other sites, in the covariate that differs most."""

    site: str
    column: str
    value: float


class Overlap(Plain):
    """The propensity model and what it says of common support."""

    slopes: tuple[float, ...]
    """Of the propensity's logit, per pooled standard deviation, in the order of `columns`."""
    columns: tuple[str, ...]
    intercepts: dict[str, float]
    """By site."""
    steps: int
    """Exchanges that the propensity model took."""
    converged: bool
    centre: tuple[float, ...]
    """Of the columns: what the slopes are relative to."""
    spread: tuple[float, ...]
    edges: tuple[float, ...]
    """Of the histograms' bins."""
    histogram: Histogram
    """All sites' bins that may be told, added up; None where no site may tell."""
    equipoise: float | None
    outside: float | None
    where: tuple[Decider, ...]
    """The covariates by which treatment was decided for the people outside, the largest share first."""
    effective_untreated: float | None
    effective_treated: float | None
    sites: tuple[SiteOverlap, ...]
    shifts: tuple[Shift, ...]
    withheld: tuple[str, ...]
    """Sites that do not tell: too few of their people are comparable, or too few for so many columns."""
    verdicts: tuple[Verdict, ...]

    def propensity(self, x: np.ndarray, site: str) -> np.ndarray:
        """[n] e(x) of rows [n, p] in the data's units, NaN where missing, at a site."""
        away = np.nan_to_num((x - np.array(self.centre)) / np.array(self.spread), nan=0.0)
        return expit(away @ np.array(self.slopes) + self.intercepts[site])


def preference(e: np.ndarray, share: float) -> np.ndarray:
    """F of each person; at a site that treats all or nobody, e itself."""
    return expit(logit(np.clip(e, 1e-12, 1.0 - 1e-12)) - (logit(share) if 0.0 < share < 1.0 else 0.0))


def bin_of(f: np.ndarray) -> np.ndarray:
    """[n] the bin of each preference score."""
    return np.minimum(np.searchsorted(EDGES, f, side="right") - 1, BINS - 1)


def shares(totals: np.ndarray, hidden: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """[2, 2] of a site: people in equipoise and outside [2, 5], of how many [2], over the arms that tell all of it."""
    rows = []
    for groups in ((EQUIPOISE,), OUTSIDE):
        tells = ~hidden[:, list(groups)].any(1)
        rows.append([totals[:, list(groups)][tells].sum(), sizes[tells].sum()])
    return np.array(rows, float)


class Seen(NamedTuple):
    """What is seen of one site, or of all."""

    counts: Counts
    effective: np.ndarray
    """[2] effective numbers of untreated and treated people; NaN: withheld."""


def summary(everyone: Seen, sites: Mapping[str, Seen], sizes: np.ndarray, model: Propensity, names: Sequence[str],
            scales: tuple[np.ndarray, np.ndarray], intercepts: Mapping[str, float],
            shifts: tuple[Shift, ...]) -> Overlap:
    """From the sums over all sites, and, where they are seen, from each site's own. `sizes` [2]: untreated and treated
    people of all sites."""
    own = tuple(_site(name, seen) for name, seen in sites.items())
    equipoise, outside = (_share(row) for row in everyone.counts.shares)
    where = _where(everyone.counts, model.slopes, names) if outside else ()
    both = _known(everyone.effective)
    return Overlap(
        slopes=tuple(map(float, model.slopes)), columns=tuple(names), steps=model.steps, converged=model.converged,
        intercepts=dict(intercepts), centre=tuple(map(float, scales[0])), spread=tuple(map(float, scales[1])),
        edges=tuple(map(float, EDGES)), histogram=_histogram(everyone.counts), equipoise=equipoise,
        outside=outside, where=where, effective_untreated=both[0], effective_treated=both[1], sites=own,
        shifts=shifts, withheld=(),
        verdicts=(_equipoise_verdict(equipoise), _outside_verdict(outside, where, own),
                  _effective_verdict(both, sizes), *_shift_verdict(shifts)))


def _site(name: str, seen: Seen) -> SiteOverlap:
    equipoise, outside = (_share(row) for row in seen.counts.shares)
    untreated, treated = _known(seen.effective)
    return SiteOverlap(site=name, histogram=_histogram(seen.counts), equipoise=equipoise, outside=outside,
                       effective_untreated=untreated, effective_treated=treated)


def _known(values: np.ndarray) -> tuple[float | None, float | None]:
    untreated, treated = (None if np.isnan(v) else float(v) for v in values)
    return untreated, treated


def _share(row: np.ndarray) -> float | None:
    return float(row[0] / row[1]) if row[1] else None


def _histogram(part: Counts) -> Histogram:
    hidden = (part.hidden > 0) & (part.counts == 0)  # else: at least so many
    arms = [tuple(None if away else int(count) for count, away in zip(row, gone, strict=True))
            for row, gone in zip(part.counts, hidden, strict=True)]
    return Histogram(untreated=arms[0], treated=arms[1])


def _where(part: Counts, slopes: np.ndarray, names: Sequence[str]) -> tuple[Decider, ...]:
    size = part.where_size
    value = part.where_total / np.where(size > 0, size, 1.0)
    decided = np.where(size > 0, slopes * value, 0.0)
    total = np.abs(decided).sum()
    return tuple(Decider(column=names[c], value=float(value[c]), share=float(decided[c] / total))
                 for c in np.argsort(-decided) if size[c] > 0 and total > 0)


def shift_of_sites(means: np.ndarray, variances: np.ndarray, counts: np.ndarray, names: Sequence[str],
                   sites: Sequence[str]) -> tuple[Shift, ...]:
    """From each site's moments [m, d], where they are seen: each site against all the others together.

        shift = (mean_s − mean of the others) / sd of the others          count 0: withheld
    """
    shifts = []
    for s, site in enumerate(sites):
        rest = [r for r in range(len(sites)) if r != s]
        count = counts[rest].sum(0)
        safe = np.where(count > 0, count, 1)
        mean = (counts[rest] * means[rest]).sum(0) / safe
        variance = (counts[rest] * (variances[rest] + (means[rest] - mean) ** 2)).sum(0) / safe
        usable = (count > 0) & (counts[s] > 0) & (variance > 0)
        away = np.where(usable, (means[s] - mean) / np.sqrt(np.where(usable, variance, 1.0)), 0.0)
        if usable.any():
            most = int(np.argmax(np.abs(away)))
            shifts.append(Shift(site=site, column=names[most], value=float(away[most])))
    return tuple(shifts)


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%"


def _equipoise_verdict(share: float | None) -> Verdict:
    words = ("The preference scores are withheld at all sites." if share is None else
             f"{_percent(share)} of the people are in equipoise: from their covariates either arm was likely "
             f"(preference score from 0.3 to 0.7). " + (
                 "The two arms are comparable." if share >= EQUIPOISE_THRESHOLD else
                 "The arms are mostly different people: name the covariates by which doctors decide, and restrict the "
                 "study to people who could have got either treatment."))
    return Verdict(name="equipoise", value=share, threshold=EQUIPOISE_THRESHOLD,
                   verdict=graded(share, EQUIPOISE_THRESHOLD, EQUIPOISE_PROBLEM), words=words)


def _outside_verdict(share: float | None, where: Sequence[Decider], sites: Sequence[SiteOverlap]) -> Verdict:
    most, place = max(((site.outside, site.site) for site in sites if site.outside is not None),
                      key=lambda pair: pair[0], default=(0.0, None))
    if share is None:
        words = "How many people are outside common support is withheld at all sites: too few to be told."
    elif share <= OUTSIDE_THRESHOLD:
        words = f"{_percent(share)} of the people are outside common support (preference score below 0.1 or above 0.9)."
    else:
        named = ", ".join(f"{outside.column} ({_percent(outside.share)} of it)" for outside in where[:NAMED])
        named = f"What decided is above all {named}. " if named else ""
        most_at = f"The most are at site '{place}' ({_percent(most)} of its people). " if place else ""
        words = (f"{_percent(share)} of the people are outside common support: hardly anybody like them got the other "
                 f"treatment, and their effects are extrapolated. {named}{most_at}"
                 f"Restrict the study in these covariates, or report effects for the others.")
    return Verdict(name="common support", value=share, threshold=OUTSIDE_THRESHOLD,
                   verdict=graded(share, OUTSIDE_THRESHOLD, OUTSIDE_PROBLEM), words=words)


def _effective_verdict(both: tuple[float | None, float | None], total: np.ndarray) -> Verdict:
    untreated, treated = both
    share: float | None = None
    if untreated is None or treated is None or not np.all(total > 0):
        words = "The effective numbers of people are withheld."
    else:
        share = min(untreated / float(total[0]), treated / float(total[1]))
        words = (f"Weighted to be alike, the {int(total[1])} treated people tell as much as {treated:.0f}, the "
                 f"{int(total[0])} untreated as {untreated:.0f}."
                 + ("" if share >= EFFECTIVE_THRESHOLD else
                    " Few people carry the comparison: intervals of weighting methods would be wide, and FedCI's rest "
                    "on its model of the outcome."))
    return Verdict(name="effective sample size", value=share, threshold=EFFECTIVE_THRESHOLD,
                   verdict=graded(share, EFFECTIVE_THRESHOLD, EFFECTIVE_PROBLEM), words=words)


def _shift_verdict(shifts: Sequence[Shift]) -> tuple[Verdict, ...]:
    if not shifts:
        return ()
    worst = max(shifts, key=lambda shift: abs(shift.value))
    word = graded(abs(worst.value), SHIFT_THRESHOLD, SHIFT_PROBLEM)
    words = (f"The sites' people are alike: the largest difference is {abs(worst.value):.1f} sd ({worst.column} at "
             f"site '{worst.site}')." if word == "fine" else
             f"Site '{worst.site}' has other people than the other sites: {worst.column} differs by {worst.value:+.1f} "
             f"sd. What its effects borrow from the other sites is extrapolated in {worst.column}.")
    return (Verdict(name="people across sites", value=abs(worst.value), threshold=SHIFT_THRESHOLD, verdict=word,
                    words=words),)
