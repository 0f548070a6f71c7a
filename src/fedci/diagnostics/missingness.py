"""Missingness: which values are missing, in which arm, and how many people were left out for want of an outcome.

    share_a = people of arm a without a value / people of arm a            difference = share₁ − share₀

over the sites that may tell: one with fewer than `min_cell` such people in an arm tells nothing of the column. A
difference counts where chance does not explain it, |difference| > 2 √(Σ_a share_a(1 − share_a)/n_a).

Values that are missing for reasons that nobody measured bias what is made of the rest. The arms are what can be looked
at: where treated and untreated lack values equally often, the comparison suffers least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedci.diagnostics.verdict import FINE, Plain, Verdict, graded

ARMS = 2
LACKS = 3
"""Rows that were left out: without treatment, untreated without outcome, treated without outcome."""
SHARE, LARGE_SHARE = 0.1, 0.4
DIFFERENCE, LARGE_DIFFERENCE = 0.05, 0.15
LEFT_OUT, MANY_LEFT_OUT = 0.05, 0.2
NAMED = 3


class ColumnGaps(Plain):
    """Share of people without a value of a covariate; None where no site may tell."""

    column: str
    untreated: float | None
    treated: float | None
    chance: float | None
    """Sd of their difference, were there none."""


class SiteGaps(Plain):
    site: str
    columns: tuple[ColumnGaps, ...]


class Missingness(Plain):
    """What is missing, over all sites together and, in the clear, at each."""

    columns: tuple[ColumnGaps, ...]
    sites: tuple[SiteGaps, ...]
    without_treatment: int | None
    """Rows that the study left out; None: some site has too few to tell."""
    without_outcome: ColumnGaps | None
    """The outcome's own; None: no row was left out, or none may be told."""
    verdicts: tuple[Verdict, ...]


def site_sums(missing: np.ndarray, w: np.ndarray, dropped: Sequence[int], least: int,
              away: np.ndarray) -> dict[str, np.ndarray]:
    """What a site tells: missing [n, d], w [n], rows left out [3], columns that stay [d]."""
    people = np.array([np.sum(w == arm) for arm in range(ARMS)], float)
    gaps = np.stack([missing[w == arm].sum(0) for arm in range(ARMS)]).astype(float)
    told = ~(_is_small(gaps, least).any(0) | away)
    lacking = np.asarray(dropped, float)
    tells = not _is_small(lacking, least).any()
    return {"told": told.astype(float), "gaps": np.where(told, gaps, 0.0),
            "people": np.where(told, people[:, None], 0.0), "dropped_told": np.asarray(float(tells)),
            "dropped": np.where(tells, lacking, 0.0), "dropped_people": np.where(tells, people, 0.0)}


def _is_small(counts: np.ndarray, least: int) -> np.ndarray:
    return (counts > 0) & (counts < least)


def summary(everyone: Mapping[str, np.ndarray], parts: Mapping[str, Mapping[str, np.ndarray]],
            columns: Mapping[str, int], sites: int) -> Missingness:
    """`columns`: covariate → the first of its columns in the design."""
    overall = _columns(everyone, columns)
    dropped, people = everyone["dropped"], everyone["dropped_people"]
    outcome = _gaps("outcome", dropped[1:], people + dropped[1:]) if dropped[1:].sum() else None
    whole = bool(everyone["dropped_told"] >= sites)
    return Missingness(
        columns=overall,
        sites=tuple(SiteGaps(site=name, columns=_columns(own, columns)) for name, own in parts.items()),
        without_treatment=int(dropped[0]) if whole else None, without_outcome=outcome,
        verdicts=(*_covariate_verdicts(overall), *_outcome_verdicts(outcome, dropped, people, whole)))


def _columns(sums: Mapping[str, np.ndarray], columns: Mapping[str, int]) -> tuple[ColumnGaps, ...]:
    return tuple(_gaps(name, sums["gaps"][:, place], sums["people"][:, place]) for name, place in columns.items())


def _gaps(name: str, gaps: np.ndarray, people: np.ndarray) -> ColumnGaps:
    if not (people > 0).all():
        return ColumnGaps(column=name, untreated=None, treated=None, chance=None)
    share = gaps / people
    chance = float(np.sqrt(np.sum(share * (1 - share) / people)))
    return ColumnGaps(column=name, untreated=float(share[0]), treated=float(share[1]), chance=chance)


def _difference(gaps: ColumnGaps) -> float | None:
    """0 where chance explains it; None where it is not told."""
    if gaps.untreated is None or gaps.treated is None or gaps.chance is None:
        return None
    difference = gaps.treated - gaps.untreated
    return difference if abs(difference) > 2 * gaps.chance else 0.0


def _share(gaps: ColumnGaps) -> float | None:
    return None if gaps.untreated is None or gaps.treated is None else max(gaps.untreated, gaps.treated)


def _covariate_verdicts(columns: Sequence[ColumnGaps]) -> list[Verdict]:
    shares = {gaps.column: share for gaps in columns if (share := _share(gaps)) is not None}
    differences = {gaps.column: part for gaps in columns if (part := _difference(gaps)) is not None}
    most, apart = max(shares.values(), default=None), max(map(abs, differences.values()), default=None)
    word = graded(most, SHARE, LARGE_SHARE)
    many = _named({name: share for name, share in shares.items() if share > SHARE}, "{:.0%}")
    lacking = Verdict(
        name="missing covariates", value=most, threshold=SHARE, verdict="look" if word == "problem" else word,
        words=_untold(most) or (f"No covariate lacks more than {SHARE:.0%} of its values in an arm." if not many else
                                f"Many values are missing: {many}. What replaces them rests on the other columns, and "
                                f"on their being missing for no reason that is not measured."))
    unlike = _named({name: part for name, part in differences.items() if abs(part) > DIFFERENCE}, "{:+.0%}")
    differing = Verdict(
        name="missing covariates, by arm", value=apart, threshold=DIFFERENCE,
        verdict=graded(apart, DIFFERENCE, LARGE_DIFFERENCE),
        words=_untold(apart) or ("Treated and untreated lack values about equally often." if not unlike else
                                 f"Treated lack more (+) or fewer (−) values than untreated: {unlike}. Ask why: who "
                                 f"was treated may have been measured for it."))
    return [lacking, differing]


def _outcome_verdicts(outcome: ColumnGaps | None, dropped: np.ndarray, people: np.ndarray,
                      whole: bool) -> list[Verdict]:
    """None where no row was left out that may be told."""
    everyone = float(people.sum() + dropped.sum())
    if not dropped.sum() or not everyone:
        return []
    share = float(dropped.sum()) / everyone
    rest = "" if whole else " Sites with few such rows do not tell."
    rows = [Verdict(name="rows left out", value=share, threshold=LEFT_OUT,
                    verdict=graded(share, LEFT_OUT, MANY_LEFT_OUT),
                    words=f"{dropped.sum():.0f} rows ({share:.1%}) were left out: {dropped[0]:.0f} without treatment, "
                          f"{dropped[1:].sum():.0f} without outcome.{rest} Effects are those of the others.")]
    apart = None if outcome is None else _difference(outcome)
    if apart is not None:
        told = (f"The outcome is missing {abs(apart):.0%} {'more' if apart > 0 else 'less'} often among the treated: "
                f"if that depends on how they fared, the effect is biased." if apart else
                "Treated and untreated lack outcomes equally often, but for chance.")
        rows.append(Verdict(name="missing outcomes, by arm", value=abs(apart), threshold=DIFFERENCE, words=told,
                            verdict=graded(abs(apart), DIFFERENCE, LARGE_DIFFERENCE) if apart else FINE))
    return rows


def _untold(value: float | None) -> str:
    return "" if value is not None else "No site may tell: too few values are missing, or columns stay at the sites."


def _named(found: Mapping[str, float], form: str) -> str:
    """The worst first."""
    rows = sorted(found.items(), key=lambda pair: -abs(pair[1]))
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return ", ".join(f"{name} ({form.format(value)})" for name, value in rows[:NAMED]) + more
