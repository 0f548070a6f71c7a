"""Refuters: the study fitted again on data in which the answer is known, or should not change.

    placebo            treatment shuffled within each site           the effect must vanish
    random-cause       a covariate of pure noise is added            the effect must stay
    subset             80% of the people of each site                the effect must stay, within sampling error
    negative-control   an outcome that treatment cannot change       the effect must vanish

Each is judged in standard deviations: z = estimate / sd where it must vanish, z = change / expected change elsewhere.
"""

from __future__ import annotations

import numpy as np

from fedci.diagnostics.heterogeneity import Interval
from fedci.diagnostics.verdict import UNKNOWN, Plain, Verdict, Word, graded

SUBSET = 0.8
Z_THRESHOLD, Z_PROBLEM = 2.0, 3.0
CAUSE_THRESHOLD, CAUSE_PROBLEM = 0.5, 1.0
DIVERGED = "diverged"
"""`optimise.DIVERGED`, whose module loads JAX: diagnostics are read without."""
VANISHES = ("placebo", "negative-control")


class Refuter(Plain):
    """One refuter's row."""

    name: str
    estimate: Interval | None
    """The average effect of the changed study; None while the study is blinded."""
    reference: float | None
    """What it is held against: 0, or the study's own average effect; None while the study is blinded."""
    z: float
    ended: str
    """How its fit ended."""
    verdict: Verdict


def refuter(name: str, mean: float, sd: float, low: float, high: float, ended: str, study_mean: float, study_sd: float,
            about: str = "") -> Refuter:
    """`about`: what the changed data are, for the words."""
    reference = 0.0 if name in VANISHES else study_mean
    scale = {"random-cause": study_sd, "subset": study_sd * np.sqrt(1.0 / SUBSET - 1.0)}.get(name, sd)
    z = float(abs(mean - reference) / scale)
    limits = (CAUSE_THRESHOLD, CAUSE_PROBLEM) if name == "random-cause" else (Z_THRESHOLD, Z_PROBLEM)
    word: Word = UNKNOWN if ended == DIVERGED else graded(z, *limits)
    return Refuter(name=name, estimate=Interval(mean=mean, low=low, high=high), reference=reference, z=z, ended=ended,
                   verdict=Verdict(name=f"refuter: {name}", value=z, threshold=limits[0], verdict=word,
                                   words=_words(name, z, word, about)))


def _words(name: str, z: float, word: str, about: str) -> str:
    measured = {
        "placebo": f"With treatment shuffled within each site the effect is {z:.1f} of its standard deviations from "
                   f"zero.",
        "random-cause": f"A covariate of pure noise moves the effect by {z:.2f} of its standard deviations.",
        "subset": f"On {100 * SUBSET:.0f}% of the people the effect moves by {z:.1f} of the standard deviations to "
                  f"expect.",
        "negative-control": f"On {about or 'the negative control'}, which treatment cannot change, the effect is "
                            f"{z:.1f} of its standard deviations from zero.",
    }[name]
    wrong = {
        "placebo": " The study finds effects where there are none: its intervals are too narrow for these data.",
        "random-cause": " The fit is not stable: more rounds, or fewer covariates for so few people.",
        "subset": " Few people carry the effect: look for outliers, and at each site's own.",
        "negative-control": " Something that was not measured ties treatment to outcomes: the study's own effect is "
                            "probably confounded as well.",
    }[name]
    return measured + {"fine": "", UNKNOWN: " Its fit diverged: this tells nothing."}.get(word, wrong)
