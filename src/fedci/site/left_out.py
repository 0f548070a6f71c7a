"""What the model says of each person without that person, in the units of the outcome, whatever its type.

    a number       E[y₀], E[y₁], the law of the own outcome and its place in it
    0 and 1        risks; the probability that the outcome is told as 1
    a time         the same of each row of an interval: whether the event falls into it, while they were followed
    a count        rates per unit of exposure; the count that is expected over the person's own
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from fedci.errors import NumericalError
from fedci.model import leave_one_out
from fedci.model.family import Family
from fedci.model.likelihood import BINARY, COUNT
from fedci.model.rows import BetaLaw, Rows, on_device
from fedci.model.shared.interval_rows import SurvivalRows, expanded
from fedci.site.people import Posterior
from fedci.site.prepared import Units
from fedci.table.table import Table


class Predicted(NamedTuple):
    """Of R rows: people, or their intervals."""

    y: np.ndarray
    w: np.ndarray
    arms: np.ndarray
    """[R, 2] E[y₀], E[y₁]; of a count per unit of exposure."""
    mean: np.ndarray
    sd: np.ndarray
    place: np.ndarray
    """P(Y ≤ y); empty where the outcome has no places."""
    person: np.ndarray
    """Whose row it is."""


def predicted(table: Table, units: Units, model: Family, rows: Rows, q: Posterior, beta: BetaLaw) -> Predicted:
    """`beta`: its law for each of some draws."""
    intervals = expanded(table.y, _time(units, table, model), model.intervals) if model.intervals else None
    person = np.arange(table.rows) if intervals is None else intervals.person
    which = leave_one_out.chosen(jax.tree.leaves(q.draws)[0].shape[0])[:len(np.asarray(beta.mean))]
    draws = jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[which]), q.draws)
    out = jax.device_get(leave_one_out.left_out(model, q.vector, rows, draws, beta, q.jitter))
    arms, means, var = (part[:, :len(person)] for part in (out.arms, out.mean, out.var))
    if not (np.isfinite(arms).all() and np.isfinite(means).all() and (var > 0).all()):
        raise NumericalError(f"site '{table.site}': leaving one person out is not stable. Raise model.jitter")
    if intervals is not None and isinstance(rows, SurvivalRows):
        told = _risks(arms, means, var, 0.0)
        share = 1.0 - (1.0 - told[1]) ** intervals.share
        return Predicted(intervals.y, table.w[person], told[0], share, _sd(share), np.zeros(0), person)
    if model.outcome == "binary":
        return Predicted(table.y, table.w, *_risks(arms, means, var, table.added), np.zeros(0), person)
    if model.outcome == "count":
        return Predicted(table.y, table.w, *_counts(table, units, model, draws, arms, means, var), np.zeros(0), person)
    mean, unit = units.y_mean, units.y_sd
    place = model.likelihood.place((table.y - mean) / unit, means, var).mean(0)
    sd = np.sqrt(var.mean(0) + means.var(0))
    return Predicted(table.y, table.w, mean + unit * arms.mean(0), mean + unit * means.mean(0), unit * sd, place,
                     person)


def _time(units: Units, table: Table, model: Family) -> np.ndarray:
    time = units.time(table.time, model.outcome, table.rows)
    if time is None:
        raise AssertionError("the table of such a study has its times")
    return time


def _risks(arms: np.ndarray, means: np.ndarray, var: np.ndarray,
           flips: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From the laws of the log odds. Those of the other arm are taken to be as uncertain as the person's own: what a
    doubly robust effect does not hang on."""
    risks = BINARY.risk(arms, np.broadcast_to(var[..., None], arms.shape)).mean(0)
    told = flips + (1.0 - 2.0 * flips) * BINARY.risk(means, var).mean(0)
    return risks, told, _sd(told)


def _sd(risk: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(risk * (1.0 - risk), 1e-12))


def _counts(table: Table, units: Units, model: Family, draws: Any, arms: np.ndarray, means: np.ndarray,
            var: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Var y = E μ + E μ²/r + Var μ, of μ whose log is Gaussian."""
    size = np.exp([np.asarray(model.unravel(theta)["dispersion"]) for theta in np.asarray(draws.theta)])[:, None]
    exposure = np.exp(_time(units, table, model))
    rates = float(units.timing[0]) * COUNT.risk(arms, np.broadcast_to(var[..., None], arms.shape)).mean(0)
    expected = exposure * COUNT.risk(means, var)
    square = expected**2 * np.exp(var)
    spread = expected + square / size + square - expected**2
    return rates, expected.mean(0), np.sqrt(spread.mean(0) + expected.var(0))
