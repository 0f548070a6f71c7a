"""Plausibility: do noise, effects and intervals have sizes that the outcome leaves room for?

Where most outcomes are equal, or people are few for their columns, a function through every outcome leaves no noise,
and between the people it may do anything. Seen from what the coordinator holds already, with sd the outcome's and π
the share of treated people:

    noise       min_a σ_a/sd: of two people alike in all covariates, the outcomes would be equal
    effects     |average effect|/b           b = sd/√(π(1 − π)): arms whose means lie τ apart have Var y ≥ π(1 − π)τ²
    intervals   half the width of the 95% interval of an average effect/b

over all people and over each site's that are told. An outcome of 0 and 1 has no noise of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fedci.diagnostics.verdict import LOOK, PROBLEM, Plain, Verdict, graded
from fedci.effect import Effect

NOISE_THRESHOLD, NOISE_PROBLEM = 0.05, 0.02
EXPLAINED = 0.9
"""Share of the outcome's variance in people left out from which on little noise may be the truth."""
SIZE_THRESHOLD, SIZE_PROBLEM = 1.0, 2.0
WIDTH_THRESHOLD, WIDTH_PROBLEM = 0.5, 1.0
EVERYBODY = "all people"
REMEDY = ("It happens where an outcome is 0/1 with few events or nearly constant, and where covariates are many for so "
          "few people. Study fewer covariates, more people, or an outcome with more spread, and fit again.")


class Average(Plain):
    """An average effect with its 95% interval."""

    over: str
    """'all people', or a site."""
    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2

    @property
    def who(self) -> str:
        return self.over if self.over == EVERYBODY else f"the people of site '{self.over}'"


class Plausibility(Plain):
    outcome_sd: float
    room: float
    """b: the largest difference of the arms' means within the outcome's sd."""
    noise_sd: tuple[float, float] | None
    """σ₀, σ₁ in the outcome's units; None of 0 and 1."""
    averages: tuple[Average, ...]
    """Empty: blinded, or told with noise for privacy, which widens intervals by itself."""
    seen: tuple[str, ...]
    """A sentence for each verdict that is a problem."""
    verdicts: tuple[Verdict, ...]

    @property
    def degenerate(self) -> str | None:
        """In words, where the effects are not to be used; else None."""
        if not self.seen:
            return None
        return f"The fit is degenerate, and its effects are not to be used. {' '.join(self.seen)} {REMEDY}"

    def sealed(self) -> Plausibility:
        """Without what tells the effect; the verdicts themselves stay, for who opens the effects should know them."""
        rows = tuple(row if row.name == "noise" else row.model_copy(update={
            "value": None, "words": _SEALED[row.verdict == PROBLEM]}) for row in self.verdicts)
        told = [row.words if row.name != "noise" else self.seen[0] for row in rows if row.verdict == PROBLEM]
        return self.model_copy(update={"averages": (), "verdicts": rows, "seen": tuple(dict.fromkeys(told))})


_SEALED = ("The numbers are shown once the effects are opened.",
           "Effects or their intervals lie far beyond what the outcome's spread leaves room for; the numbers are shown "
           "once the effects are opened.")


def averages_of(effects: Mapping[str, Effect]) -> tuple[Average, ...]:
    """Of the average effects by whom they are over."""
    rows = []
    for over, effect in effects.items():
        low, high = effect.interval()
        rows.append(Average(over=over, mean=effect.mean, low=low, high=high))
    return tuple(rows)


def summary(outcome_sd: float, treated: float, noise_sd: tuple[float, float] | None, averages: tuple[Average, ...],
            explained: float | None) -> Plausibility:
    """`treated`: the share of treated people; `explained`: the share of the outcome's variance that predictions of
    people left out explain, None where it is not known."""
    room = outcome_sd / math.sqrt(treated * (1.0 - treated))
    found = [] if noise_sd is None else [_noise(noise_sd, outcome_sd, explained)]
    if averages:
        found += [_size(averages, room, outcome_sd), _width(averages, room, outcome_sd)]
    return Plausibility(outcome_sd=outcome_sd, room=room, noise_sd=noise_sd, averages=averages,
                        seen=tuple(row.words for row in found if row.verdict == PROBLEM),
                        verdicts=tuple(row if row.verdict != PROBLEM else row.model_copy(
                            update={"words": f"{row.words} {REMEDY}"}) for row in found))


def _noise(noise_sd: tuple[float, float], outcome_sd: float, explained: float | None) -> Verdict:
    least = min(noise_sd)
    arm = ("untreated", "treated")[noise_sd.index(least)]
    value = least / outcome_sd
    word = graded(value, NOISE_THRESHOLD, NOISE_PROBLEM)
    words = (f"The noise of the {arm} people's outcomes is {least:.3g}, {100 * value:.2g}% of the outcome's standard "
             f"deviation ({outcome_sd:.3g})")
    if word in (LOOK, PROBLEM):
        if explained is not None and explained >= EXPLAINED:
            word = LOOK
            words += (f"; predictions of people who were left out explain {100 * explained:.0f}% of the outcome's "
                      "variance, so it may be: the outcome is nearly a function of the covariates")
        else:
            words += ("" if explained is None else f", though predictions of people who were left out explain only "
                      f"{100 * max(explained, 0.0):.0f}% of its variance")
            words += ": the model passes through the outcomes rather than near them"
    return Verdict(name="noise", value=value, threshold=NOISE_THRESHOLD, verdict=word, words=f"{words}.")


def _size(averages: tuple[Average, ...], room: float, outcome_sd: float) -> Verdict:
    most = max(averages, key=lambda row: abs(row.mean))
    value = abs(most.mean) / room
    word = graded(value, SIZE_THRESHOLD, SIZE_PROBLEM)
    words = (f"The largest average effect, over {most.who}, is {most.mean:.3g}, {abs(most.mean) / outcome_sd:.2g} "
             f"standard deviations of the outcome; arms further apart than {room / outcome_sd:.2g} would spread the "
             f"outcome more than it is spread.")
    return Verdict(name="size of effects", value=value, threshold=SIZE_THRESHOLD, verdict=word, words=words)


def _width(averages: tuple[Average, ...], room: float, outcome_sd: float) -> Verdict:
    most = max(averages, key=lambda row: row.half)
    value = most.half / room
    word = graded(value, WIDTH_THRESHOLD, WIDTH_PROBLEM)
    words = (f"The widest 95% interval of an average effect, over {most.who}, goes from {most.low:.3g} to "
             f"{most.high:.3g}: {2 * most.half / outcome_sd:.2g} standard deviations of the outcome.")
    return Verdict(name="width of intervals", value=value, threshold=WIDTH_THRESHOLD, verdict=word, words=words)
