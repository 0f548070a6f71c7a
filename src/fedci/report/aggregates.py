"""What the coordinator can say of effects without a row: along each covariate, and over a population like the study's.

    along x_j     E[τ(x)] at the pooled means of the other covariates, x_j over its range (or each level); of what is no
                  number also the risk, or the rate, in each arm there
    population    people drawn with the pooled means, spreads and shares, columns independent: how effects are spread

Both use the draws of the shared part (β, θ; or Θ, g) that the coordinator holds anyway, and the moments the sites told.
The bands hold the uncertainty of that part, not what is a single site's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedci.bounded import json_file
from fedci.files import whole_file
from fedci.result.result import Result
from fedci.study.covariate import Covariate

FILE = "aggregates.json"
FORMAT = 4
GRID = 25
PEOPLE = 800
BINS = 24
BAND = (0.025, 0.975)


def aggregates(result: Result, folder: Path | None = None,
               done: Callable[[int], None] = lambda steps: None) -> dict[str, Any]:
    """{'curves': […], 'population': {…}, 'drivers': […] or None, 'thresholds': […] or None}; kept in the result's
    folder, and found again there for the same run."""
    if folder is not None and (stored := _read(folder / FILE, result)) is not None:
        return stored
    made: dict[str, Any] = {"format": FORMAT, "run": result.outcome.run}
    along, people = _paths(result), _people(result)
    at = sum(len(path.x) for path in along)
    rows = np.vstack([*(path.x for path in along), people])  # at once: one program
    levels = None if result.of_numbers else result.shared_rates_at(rows)
    drawn = result.shared_effects_at(rows) if levels is None else levels.treated - levels.untreated
    arms = {} if levels is None else {"untreated": levels.untreated[:, :at], "treated": levels.treated[:, :at]}
    parts: dict[str, Callable[[], Any]] = {
        "curves": lambda: list(_curves(along, drawn[:, :at], result.study.said, arms)),
        "population": lambda: _spread(drawn[:, at:]),
        "drivers": lambda: _drivers(result), "thresholds": lambda: _thresholds(result)}
    for steps, (name, make) in enumerate(parts.items(), 2):
        made[name] = make()
        done(steps)
    if folder is not None:
        with whole_file(folder / FILE) as file:
            file.write(json.dumps(made).encode())
    return made


def _drivers(result: Result) -> list[dict[str, Any]] | None:
    """`Result.drivers` as plain rows."""
    table = result.drivers()
    return None if table is None else [
        {"part": row.part, "outcome": float(row.outcome), "effect": float(row.effect), "covariates": row.covariates}
        for row in table.itertuples()]


def _thresholds(result: Result) -> list[dict[str, Any]] | None:
    """`Result.thresholds` as plain rows."""
    table = result.thresholds(BAND[0] + 1.0 - BAND[1])
    return None if table is None else table.to_dict("records")


def _read(path: Path, result: Result) -> dict[str, Any] | None:
    try:
        stored = json_file(path)
        return stored if (stored["format"], stored["run"]) == (FORMAT, result.outcome.run) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Pooled:
    """Pooled mean and sd of each design column; a column that stayed at the sites is taken as ½."""

    def __init__(self, result: Result):
        columns = result.outcome.layout.columns
        untold = columns.count == 0
        self.mean = np.where(untold, 0.5, columns.values[0])
        self.sd = np.where(untold, 0.5, np.sqrt(columns.values[1]))
        self.places: dict[str, slice] = {}
        at = 0
        for covariate in result.study.covariates:
            self.places[covariate.name] = slice(at, at + len(covariate.design_columns()))
            at = self.places[covariate.name].stop


class _Path(NamedTuple):
    """Where effects along a covariate are computed."""

    covariate: Covariate
    values: list[Any]
    """Of the covariate."""
    x: np.ndarray
    """The rows of the design there."""


def _paths(result: Result) -> list[_Path]:
    pooled = Pooled(result)
    return [_Path(covariate, *_path(covariate, pooled)) for covariate in result.study.covariates]


def _curves(along: Sequence[_Path], drawn: np.ndarray, said: Callable[[str], str],
            arms: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    """One for each covariate, as it is `said`: where, the effect there, and its band. `drawn` [L, rows of all paths];
    `arms`: likewise what is expected in each arm, of what is no number."""
    at = 0
    for covariate, values, x in along:
        here, at = slice(at, at + len(x)), at + len(x)
        yield {"covariate": said(covariate.name), "type": covariate.type, "at": values,
               **_band(drawn[:, here], "effect"),
               **({"arms": {name: _band(part[:, here], "mean") for name, part in arms.items()}} if arms else {})}


def _band(drawn: np.ndarray, name: str) -> dict[str, list[float]]:
    low, high = np.quantile(drawn, BAND, axis=0)
    return {name: drawn.mean(0).tolist(), "low": low.tolist(), "high": high.tolist()}


def _path(covariate: Covariate, pooled: Pooled) -> tuple[list[Any], np.ndarray]:
    """(values of the covariate, the rows of the design there)."""
    place = pooled.places[covariate.name]
    if covariate.type == "numeric":
        mean, sd = pooled.mean[place.start], pooled.sd[place.start]
        low, high = np.clip([mean - 2 * sd, mean + 2 * sd], *(covariate.range or (-np.inf, np.inf)))
        values = np.linspace(low, high, GRID)
        block = values[:, None]
    else:
        values = np.array(covariate.levels if covariate.type == "categorical" else ["0", "1"])
        block = np.eye(len(values))[:, 1:]
    x = np.tile(pooled.mean, (len(block), 1))
    x[:, place] = block
    return values.tolist(), x


def _spread(drawn: np.ndarray) -> dict[str, Any]:
    """How effects [L, people] are spread over people like the study's: shares in bins, averaged over the draws, with
    bands."""
    low, high = np.quantile(drawn, [0.001, 0.999])
    edges = np.linspace(low, high, BINS + 1) if high > low else np.linspace(low - 0.5, low + 0.5, BINS + 1)
    shares = np.stack([np.histogram(np.clip(draw, edges[0], edges[-1]), edges)[0] / drawn.shape[1] for draw in drawn])
    below, above = np.quantile(shares, BAND, axis=0)
    means = drawn.mean(1)
    return {"edges": edges.tolist(), "share": shares.mean(0).tolist(), "low": below.tolist(), "high": above.tolist(),
            **_above_zero(drawn), "sd": float(drawn.std(1).mean()), "mean": float(means.mean())}


def _above_zero(drawn: np.ndarray) -> dict[str, float]:
    """Share of people whose expected effect is above zero, and what the draws leave of it: where effects are alike and
    their level is not known, everybody or nobody."""
    low, high = np.quantile((drawn > 0).mean(1), BAND)
    return {"positive": float((drawn.mean(0) > 0).mean()), "positive_low": float(low), "positive_high": float(high)}


def _people(result: Result) -> np.ndarray:
    """[PEOPLE, d] of nobody: independent columns with the pooled moments."""
    rng, pooled = np.random.default_rng(np.random.SeedSequence((result.outcome.seed, 8))), Pooled(result)
    x = np.empty((PEOPLE, len(pooled.mean)))
    for covariate in result.study.covariates:
        place = pooled.places[covariate.name]
        if covariate.type == "numeric":
            drawn = pooled.mean[place.start] + pooled.sd[place.start] * rng.standard_normal(PEOPLE)
            x[:, place.start] = np.clip(drawn, *(covariate.range or (-np.inf, np.inf)))
        else:
            shares = np.clip(pooled.mean[place], 0.0, 1.0)
            cuts = np.cumsum(shares / max(shares.sum(), 1.0))
            chosen = (rng.uniform(size=PEOPLE)[:, None] > cuts).sum(1)
            x[:, place] = np.eye(len(cuts) + 1)[chosen][:, :-1]
    return x
