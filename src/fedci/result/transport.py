"""The effect in another population: of a file of people, which stays where it is, or of published means and shares.

    model      draw l: m_l = mean over the people of τ_l(x), at a hospital outside the study; what such a hospital has
               of its own is alike for all its people: sds add, the most it can be
    weighted   the study's people, with weights by which as much is expected of them as of these: their doubly robust
               effects, ψ̄ + γ̂(m̄ − d̄) (`diagnostics.sameness`); at hospitals like the study's
    shift      |mean there − mean here| / sd here of each covariate; who is beyond REACH sds in any of them is outside

The interval widens with the shift as far as the model knows: β's posterior is wider away from the study's people, and
weights that have to be uneven rest on fewer of them. Beyond them the model goes on by its own law, which no data
support: the verdict says where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.diagnostics.verdict import FINE, LOOK, PROBLEM, Verdict, Word
from fedci.effect import Effect
from fedci.errors import UsageError
from fedci.protocol.rule import nobody
from fedci.result.prediction import designs
from fedci.result.result import Result
from fedci.study.options import nearest
from fedci.study.toml import toml_key
from fedci.table.design import design_columns, design_from

if TYPE_CHECKING:
    import pandas as pd

SHIFT, FAR = 0.5, 1.0
"""Of a mean, in the study's sds: from where on it is to be looked at, and a problem."""
REACH, OUTSIDE, MANY = 3.0, 0.05, 0.2
"""Share of people beyond the study's: from where on."""
AT_ONCE = 4096
"""People whose effects are held, of every draw."""


@dataclass(frozen=True, kw_only=True)
class Transported:
    """The average effect over other people."""

    effect: Effect
    """By the model, at one hospital there."""
    weighted: Effect | None
    """By weights and model together; None of a time to an event, and where it was not told."""
    worth: float | None
    """How many of the study's people the weights leave."""
    people: int
    """None of a file: people of nobody with the published moments."""
    columns: tuple[str, ...]
    shift: np.ndarray
    """[d] of each column of the design, in the study's sds; NaN where it does not vary or was not told."""
    outside: float
    verdict: Verdict

    def table(self) -> pd.DataFrame:
        """The shift of each column, the largest first."""
        import pandas as pd

        order = np.argsort(-np.nan_to_num(np.abs(self.shift)))
        return pd.DataFrame({"column": [self.columns[int(k)] for k in order], "shift": self.shift[order]})

    def in_words(self, who: str = "people", alpha: float = 0.05) -> list[str]:
        level, mean = f"{100 * (1 - alpha):g}%", self.effect.mean
        low, high = self.effect.interval(alpha)
        lines = [f"Over {self.people:,} {who} the average effect is {mean:.4g} ({level} interval {low:.4g} to "
                 f"{high:.4g}) by the model, if one hospital treats them, which may differ from the study's as these "
                 f"do from each other."]
        if self.weighted is not None and self.worth is not None:
            low, high = self.weighted.interval(alpha)
            lines.append(f"By weights and model together, at hospitals like the study's: {self.weighted.mean:.4g} "
                         f"({low:.4g} to {high:.4g}). It rests on the study's people, weighted so that as much is "
                         f"expected of them as of these: worth {self.worth:,.0f} people.")
        return [*lines, f"{self.verdict.verdict}: {self.verdict.words}"]

    def plain(self, alpha: float = 0.05) -> dict[str, Any]:
        return {"people": self.people, **_plain(self.effect, alpha), "alpha": alpha,
                "weighted": None if self.weighted is None else {**_plain(self.weighted, alpha), "worth": self.worth},
                "outside": self.outside, "verdict": self.verdict.model_dump(),
                "shift": {name: None if np.isnan(value) else float(value)
                          for name, value in zip(self.columns, self.shift, strict=True)}}


def _plain(effect: Effect, alpha: float) -> dict[str, Any]:
    low, high = effect.interval(alpha)
    return {"mean": effect.mean, "sd": effect.sd, "low": low, "high": high}


def of_people(result: Result, people: Any) -> Transported:
    """Of a frame, or of a file or query as `source.located` gives it: read chunk by chunk, and none of it is kept."""
    import pandas as pd

    if isinstance(people, pd.DataFrame | np.ndarray):
        x = design_from(result.study, people, "there")[0]
    else:
        x = np.concatenate(list(designs(result, people)))
    return _transported(result, x)


def of_moments(result: Result, published: Mapping[str, Any]) -> Transported:
    """Of a table 1: covariate → its mean (or { mean, sd }), its share of 1, or the shares of its levels. What it does
    not give is as in the study; columns are taken to be independent of each other."""
    layout, study = result.outcome.layout, result.study
    told = layout.columns.count > 0
    mean = np.where(told, layout.columns.values[0], 0.5)
    sd = np.where(told, np.sqrt(layout.columns.values[1]), 0.5)
    known = {covariate.name: covariate for covariate in study.covariates}
    names = design_columns(study)[0]
    for name, given in published.items():
        if name not in known:
            raise UsageError(f"the moments name {name!r}, which is no covariate of the study"
                             f"{nearest(name, known)}; it has {', '.join(known)}")
        covariate = known[name]
        if covariate.type == "categorical":
            shares = _shares(name, given, covariate.levels or ())
            for level, share in shares.items():
                if (column := f"{name}={level}") in names:
                    mean[names.index(column)] = share
            if sum(mean[names.index(column)] for column in covariate.design_columns()) > 1.0 + 1e-9:
                raise UsageError(f"the shares of '{name}', and the study's own of the levels that are not given, are "
                                 f"together more than 1: give all of its levels")
            continue
        at = names.index(name)
        both = given if isinstance(given, Mapping) else {"mean": given}
        if not both.keys() <= {"mean", "sd"} or "mean" not in both:
            raise UsageError(f"the moments of '{name}' are a mean, or {{ mean = …, sd = … }}")
        mean[at] = _number(f"the mean of '{name}'", both["mean"])
        if covariate.type == "binary" and not 0.0 <= mean[at] <= 1.0:
            raise UsageError(f"the share of '{name}' is {mean[at]:g}; it is from 0 to 1")
        low, high = covariate.range or (-np.inf, np.inf)
        if not low <= mean[at] <= high:
            raise UsageError(f"the mean of '{name}' is {mean[at]:g}, and the study says that values are from {low:g} "
                             f"to {high:g} (covariates.{name}.range): is it in the study's unit?")
        sd[at] = _number(f"the sd of '{name}'", both.get("sd", sd[at]))
        if sd[at] < 0.0:
            raise UsageError(f"the sd of '{name}' is {sd[at]:g}: it is 0 or more")
    return _transported(result, nobody(study.covariates, mean, sd, result.outcome.seed))


def _shares(name: str, given: Any, levels: tuple[str, ...]) -> dict[str, float]:
    if not isinstance(given, Mapping) or not {str(level) for level in given} <= set(levels):
        raise UsageError(f"the moments of '{name}' are the shares of its levels {', '.join(levels)}, such as "
                         f"{{ {toml_key(levels[-1])} = 0.2 }}")
    shares = {str(level): _number(f"the share of '{name}' = {level}", share) for level, share in given.items()}
    if not (all(share >= 0.0 for share in shares.values()) and sum(shares.values()) <= 1.0 + 1e-9):
        raise UsageError(f"the shares of '{name}' are from 0 to 1, and together at most 1")
    return shares


def _number(what: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not np.isfinite(given):
        raise UsageError(f"{what} is no number: write it with a decimal point, without quotes")
    return float(given)


def _transported(result: Result, x: np.ndarray) -> Transported:
    if result.many and result.pair is None:
        raise UsageError(f"the study has more than two arms: say which one the effect is of, --arm (and --against), in "
                         f"Python of result.between(ARM, AGAINST); its arms are {', '.join(result.study.arms)}")
    average = _average(result, x)
    columns = result.outcome.layout.columns
    varies = (columns.count > 0) & (columns.values[1] > 0)
    sd = np.where(varies, np.sqrt(columns.values[1]), np.nan)
    away = (x - columns.values[0]) / sd
    shift = np.array([np.nan if np.isnan(part).all() else float(np.nanmean(part)) for part in away.T])
    numeric = np.array([kind == "numeric" for kind in design_columns(result.study)[1]])
    outside = float(np.mean((np.nan_to_num(np.abs(away)) > REACH)[:, numeric].any(1)))
    names = design_columns(result.study)[0]
    weighted, worth = _weighted(result, average)
    return Transported(effect=average, weighted=weighted, worth=worth, people=len(x), columns=names, shift=shift,
                       outside=outside, verdict=_verdict(names, shift, outside))


def _average(result: Result, x: np.ndarray) -> Effect:
    """Over all rows, a part at a time: draws of the effects of a whole registry take more memory than it has."""
    if not len(x):
        raise UsageError("the table of people has no rows: give at least one person")
    parts = (result.effects_at(x[start:start + AT_ONCE]) for start in range(0, len(x), AT_ONCE))
    means, sds = np.sum([(part.means.sum(1), np.sqrt(part.variances).sum(1)) for part in parts], axis=0)
    return Effect(means / len(x), (sds / len(x)) ** 2)


def _weighted(result: Result, average: Effect) -> tuple[Effect | None, float | None]:
    same = None if result.diagnostics is None else result.diagnostics.sameness
    found = None if same is None else same.elsewhere(float(average.mean))
    if found is None:
        return None, None
    mean, se, worth = found
    return Effect(np.array([mean]), np.array([se**2])), worth


def _verdict(names: tuple[str, ...], shift: np.ndarray, outside: float) -> Verdict:
    known = np.nan_to_num(np.abs(shift))
    k = int(known.argmax()) if len(known) else 0
    largest = float(known[k]) if len(known) else 0.0
    word: Word = (PROBLEM if largest > FAR or outside > MANY else
                  LOOK if largest > SHIFT or outside > OUTSIDE else FINE)
    said = (f"These people differ most in {names[k]}, by {largest:.2f} of the study's standard deviations; "
            f"{outside:.1%} are beyond {REACH:g} of them in some covariate.")
    more = {FINE: " They are like the study's people.",
            LOOK: " The model reaches there, with wider intervals: read them as those of a model.",
            PROBLEM: " That is extrapolation: the study has next to nobody like them, and no interval covers what a "
                     "model cannot know there."}
    return Verdict(name="shift of the population", value=largest, threshold=SHIFT, verdict=word,
                   words=said + more[word])
