"""A site's side of the diagnostics: sums and thresholded counts, and the checks of what it is asked for.

    propensity   coefficients → log-likelihood, gradient, Hessian          refused where few people carry them
    balance      coefficients → weighted means and variances of the arms   small cells and lopsided weights withheld
    overlap      coefficients → people by preference score                 small counts hidden (`diagnostics.counts`)
    outcome      coefficients, law of β̃ → sums of ψ, residuals, places, calibration bins

Under secure sums `propensity` and most of `outcome` leave masked (`part`). Which arrays answer a kind, which of them
are summed and how often it is asked, `protocol.requests` says.

A coordinator that chooses coefficients at will could make one person outweigh all others: whatever is weighted leaves
only if its effective number of people is at least the policy's `min_cell`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedci.diagnostics import balance, counts, fit, heterogeneity, overlap
from fedci.diagnostics import propensity as propensities
from fedci.errors import DisclosureError, MessageError, NumericalError, SiteError
from fedci.model import leave_one_out
from fedci.model.family import Family
from fedci.model.rows import BetaLaw, Rows
from fedci.protocol.ask import sizes
from fedci.protocol.messages import AskDiagnostic
from fedci.protocol.requests import Shapes, row_of
from fedci.site.people import Posterior
from fedci.study.policy import Policy
from fedci.table.moments import round_digits, small_cells
from fedci.table.table import Table

MAX_SITES = 10_000


@dataclass(frozen=True, kw_only=True)
class Here:
    """What the diagnostics need of a site that knows the common units."""

    table: Table
    policy: Policy
    indicators: np.ndarray
    model: Family
    arrays: Rows
    index: int
    y_mean: float
    y_sd: float
    posterior: Posterior | None
    """Once the effects were asked for."""
    tells_effect: bool = True
    """Whether the study lets the site's own average effect be seen."""
    silent: bool = False
    """Whether the site keeps out of this run's propensity model."""
    masked: bool = False
    """Whether the answer is part of a masked sum: in model units, which keeps it in the sum's range, and unrounded."""

    @property
    def columns(self) -> int:
        return self.table.x.shape[1] + len(self.indicators)

    def rows(self) -> np.ndarray:
        """[n, p] covariates, NaN where missing, and indicators of what is missing."""
        return np.hstack([self.table.x, self.table.missing[:, self.indicators].astype(float)])

    def kinds(self) -> tuple[str, ...]:
        return (*self.table.kinds, *("binary" for _ in self.indicators))


Asked = frozenset[tuple[str, str, str]]
"""(run, kind, digest of the parameters) of what was asked."""


def admitted(past: Asked, request: AskDiagnostic) -> Asked:
    """What this run has been asked for, with this request; SiteError for a second question of a kind.

    Counts at slightly other cuts, or moments at other weights, could be subtracted from the first to tell one person's.
    The propensity model needs a question for each step, and no more.
    """
    digest = hashlib.sha256(b"".join(name.encode() + array.tobytes() for name, array in sorted(request.values.items())))
    asked = frozenset(entry for entry in past if entry[0] == request.run)
    asked |= {(request.run, request.kind, digest.hexdigest())}
    if sum(kind == request.kind for _, kind, _ in asked) > row_of(request).most:
        raise SiteError(f"site '{request.site}': the diagnostic '{request.kind[:20]}' of this run was answered at "
                        f"other parameters, and is not answered at more. Start a new run")
    return asked


def answer(here: Here, request: AskDiagnostic) -> dict[str, np.ndarray]:
    """The named sums of one kind."""
    if request.kind not in KINDS:
        raise SiteError(f"site '{here.table.site}' does not know this kind of diagnostic")
    return KINDS[request.kind](here, request.values)


class Part(NamedTuple):
    """A site's part of a diagnostic that is summed under masks."""

    sums: dict[str, np.ndarray]
    """Zeros where the site adds nothing."""
    own: dict[str, np.ndarray]
    """What the report says of each site, in the clear."""
    withheld: str | None
    """The code of the error for which it adds nothing."""


def part(here: Here, request: AskDiagnostic) -> Part:
    """A site that may not tell adds nothing, and says so: without its answer the sum of the others would not open."""
    row = row_of(request)
    try:
        sums = answer(replace(here, masked=True), request)
        own = {name: sums.pop(name) for name in row.by_site}
        return Part(sums, own, None)
    except (DisclosureError, NumericalError) as problem:
        measured = sizes(request.values, here.model)
        return Part(_zeros(row.summed_shapes(measured)), _zeros(row.own_shapes(measured)), problem.code)


def _zeros(shapes: Shapes) -> dict[str, np.ndarray]:
    return {name: np.zeros(shape) for name, shape in shapes.items()}


# --- what was asked

def _take(here: Here, values: dict[str, np.ndarray], shapes: Shapes) -> list[np.ndarray]:
    """The parameters in order; MessageError where one is missing, or has another shape or type. −1: any length."""
    if values.keys() != shapes.keys():
        raise MessageError(f"site '{here.table.site}': a diagnostic needs {', '.join(shapes)} and nothing else")
    for name, shape in shapes.items():
        array = values[name]
        fits = len(array.shape) == len(shape) and all(b in (a, -1) for a, b in zip(array.shape, shape, strict=True))
        if not fits or array.dtype != np.float64 or not np.isfinite(array).all():
            raise MessageError(f"site '{here.table.site}': {name} of a diagnostic has shape {array.shape} and type "
                               f"{array.dtype}, needs {shape}, float64 and finite numbers")
    return [values[name] for name in shapes]


def _design(here: Here, centre: np.ndarray, spread: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """[n, p + m] standardised rows (missing: the mean) with the site's own intercept."""
    sites = len(coefficients) - here.columns
    if not here.index < sites <= MAX_SITES or not (spread > 0).all():
        raise MessageError(f"site '{here.table.site}': the coefficients of a diagnostic do not fit the study's columns "
                           f"and sites, or a spread is not above 0")
    return propensities.with_intercept(np.nan_to_num((here.rows() - centre) / spread, nan=0.0), here.index, sites)


def _shapes(here: Here, *more: tuple[str, tuple[int, ...]]) -> Shapes:
    p = here.columns
    return {"centre": (p,), "spread": (p,), "coefficients": (-1,), **dict(more)}


# --- the kinds

def _propensity(here: Here, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    centre, spread, coefficients = _take(here, values, _shapes(here))
    design = _design(here, centre, spread, coefficients)
    if here.silent:
        raise DisclosureError(f"site '{here.table.site}' withheld its part of this run's propensity model before")
    _check_columns(here)
    e = propensities.scores(design, coefficients)
    carried = propensities.effective(e * (1.0 - e)), propensities.effective(np.abs(here.table.w - e))
    if min(carried) < here.policy.min_cell:
        raise DisclosureError(
            f"site '{here.table.site}': the propensity model's sums would rest on fewer than {here.policy.min_cell} "
            f"people's worth: nearly everybody's treatment is decided by the covariates. The diagnostics go on without "
            f"the site")
    return propensities.sums(design, here.table.w, coefficients)._asdict()


def _check_columns(here: Here) -> None:
    limit = here.policy.statistics_per_row
    if here.columns + 1 > limit * here.table.rows:
        raise DisclosureError(f"site '{here.table.site}': the propensity model has {here.columns + 1} columns for "
                              f"{here.table.rows} people; the policy allows {limit:g} columns per person in the clear")


def _balance(here: Here, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Under each weighting; of covariates whose small cells in an arm could be told, and of weights that few people
    carry, nothing."""
    centre, spread, coefficients, share = _take(here, values, _shapes(here, ("share", ())))
    w, x = here.table.w, (here.rows() - centre) / spread
    e = np.clip(propensities.scores(_design(here, centre, spread, coefficients), coefficients), 1e-9, 1 - 1e-9)
    omega = balance.weights(w, e, float(np.clip(share, 1e-9, 1 - 1e-9)))
    moments, arms = balance.arm_moments(x, w, omega), np.stack([w == 0, w == 1]).astype(float).T
    weight, square = omega @ arms, omega**2 @ arms
    carried = np.array([[propensities.effective(weights[w == arm]) for arm in (0, 1)] for weights in omega])
    carries = np.array([True, *(carried[1:].min(1) >= here.policy.min_cell)])
    shown = _moments_told(here, moments._replace(size=_without_small_gaps(here, w, moments.size, weight)),
                          carries[:, None] & ~_small(here, w)[None])
    return shown | {"weight": np.where(carries[:, None], weight, 0.0),
                    "square": np.where(carries[:, None], square, 0.0)}


def _small(here: Here, group: np.ndarray) -> np.ndarray:
    """[p] 0/1 columns with a small cell in one of the two groups: withheld in both, or one tells the other."""
    x, kinds = here.rows(), here.kinds()
    return np.any([small_cells(x[group == member], kinds, here.policy.min_cell) for member in (0, 1)], axis=0)


def _without_small_gaps(here: Here, group: np.ndarray, size: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """[S, 2, p] Σω over known values; over all people where so few values are missing that their number may not be told
    (the mean then counts a little too much when sites are pooled)."""
    gone = np.stack([np.isnan(here.rows()[group == member]).sum(0) for member in (0, 1)])
    untold = ((gone > 0) & (gone < here.policy.min_cell)).any(0)
    return np.where(untold, weight[:, :, None], size)


def _moments_told(here: Here, moments: balance.ArmMoments, shown: np.ndarray) -> dict[str, np.ndarray]:
    digits, seen = here.policy.moment_digits, shown[:, None, :]
    return {"size": np.where(seen, moments.size, 0.0), "mean": round_digits(np.where(seen, moments.mean, 0.0), digits),
            "variance": round_digits(np.where(seen, moments.variance, 0.0), digits), "told": shown}


def _overlap(here: Here, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    centre, spread, coefficients = _take(here, values, _shapes(here))
    w, least = here.table.w, here.policy.min_cell
    e = propensities.scores(_design(here, centre, spread, coefficients), coefficients)
    place = overlap.bin_of(overlap.preference(e, float(w.mean())))
    arms = [np.bincount(place[w == arm], minlength=overlap.BINS) for arm in (0, 1)]
    nested = [counts.hide_nested(arm, overlap.GROUP, least) for arm in arms]
    hidden, totals, totals_hidden = (np.stack(part) for part in zip(*nested, strict=True))
    outside = np.isin(overlap.GROUP[place], overlap.OUTSIDE).astype(float)
    side = np.where(place < overlap.BINS // 2, -1.0, 1.0)
    where = balance.arm_moments(side[:, None] * (here.rows() - centre) / spread, outside, np.ones((1, len(w))))
    tails_told = not totals_hidden[:, list(overlap.OUTSIDE)].any()
    enough = min(outside.sum(), (1 - outside).sum()) >= max(least, 1)
    shown = (tails_told and enough) & ~_small(here, outside)[None]
    people = np.array([[np.sum(1 - outside), np.sum(outside)]])
    tails = _moments_told(here, where._replace(size=_without_small_gaps(here, outside, where.size, people)), shown)
    where_told = {"where_size": tails["size"][0, 1], "where_mean": tails["mean"][0, 1], "where_told": tails["told"][0]}
    return {"counts": counts.told(np.stack(arms), hidden), "hidden": hidden,
            "totals": counts.told(totals, totals_hidden), "totals_hidden": totals_hidden, **where_told}


def _outcome(here: Here, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Sums over the site's people of what the model says of each without them; without coefficients no effect."""
    q = here.model.columns
    if here.posterior is None:
        raise SiteError(f"site '{here.table.site}' was asked out of turn: it waits for the effects' draws first")
    asked = _shapes(here, ("edges", (fit.CALIBRATION_BINS - 1,)), ("beta_mean", (-1, q)), ("beta_root", (-1, q, q)))
    centre, spread, coefficients, edges, mean, root = _take(here, values, asked)
    arms, predicted, sd, place = _left_out(here, here.posterior, mean, root)
    t, least = here.table, here.policy.min_cell
    centred, unit = (here.y_mean, here.y_sd) if here.masked else (0.0, 1.0)
    residuals, bins, line = fit.site_fit_sums((t.y - centred) / unit, t.w, (predicted - centred) / unit, sd / unit,
                                              (np.sort(edges) - centred) / unit)
    places = fit.place_counts(place)
    places_hidden, bins_hidden = counts.hide(places, least), counts.hide(bins[:, 0], least)
    effect, share = np.zeros(3), np.zeros(2)
    if len(coefficients) and here.tells_effect and not here.silent:
        e = propensities.scores(_design(here, centre, spread, coefficients), coefficients)
        psi, share = heterogeneity.influence(t.w, t.y, arms, e), np.array([t.rows, e.sum()])
        if _tells_own_effect(here, e):
            effect = np.array([len(psi), psi.sum(), psi @ psi])
    fitted = fit.SiteFit(
        residuals=_rounded(here, residuals), places=counts.told(places, places_hidden), places_hidden=places_hidden,
        bins=np.where(bins_hidden[:, None], 0.0, bins if here.masked else _rounded(here, bins)),
        bins_hidden=bins_hidden, line=line)
    parts = fit.site_part(fitted) if here.masked else fitted
    return {"effect": effect, "residuals": fitted.residuals} | parts._asdict() | {"treated_share": share}


def _tells_own_effect(here: Here, e: np.ndarray) -> bool:
    """Whether both arms are here, and the weights of ψ rest on min_cell people's worth in each: else Σψ² would tell one
    person's residual."""
    w, weights = here.table.w, heterogeneity.weights(here.table.w, e)
    return all(np.any(w == arm) and propensities.effective(weights[w == arm]) >= here.policy.min_cell for arm in (0, 1))


def _rounded(here: Here, rows: np.ndarray) -> np.ndarray:
    """Counts in the first column as they are, sums to the policy's digits."""
    return np.column_stack([rows[:, 0], round_digits(rows[:, 1:], here.policy.moment_digits)])


def _left_out(here: Here, q: Posterior, mean: np.ndarray,
              root: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(E[y₀], E[y₁] [n, 2]; predictive mean, sd and probability of the own outcome [n]), each person left out, in the
    outcome's units."""
    n, count = here.table.rows, len(mean)
    every = jax.tree.leaves(q.draws)[0].shape[0]
    which = leave_one_out.chosen(every)[:count]
    if len(which) != count or len(root) != count:
        raise MessageError(f"site '{here.table.site}': the law of β is not that of the draws it was given")
    draws = jax.tree.map(lambda leaf: leaf[jnp.asarray(which)], q.draws)
    beta = BetaLaw(jnp.asarray(mean), jnp.asarray(root))
    left_out = jax.device_get(leave_one_out.left_out(here.model, q.vector, here.arrays, draws, beta, q.jitter))
    arms, means, var = left_out.arms[:, :n], left_out.mean[:, :n], left_out.var[:, :n]
    if not (np.isfinite(arms).all() and np.isfinite(means).all() and (var > 0).all()):
        raise NumericalError(f"site '{here.table.site}': leaving one person out is not stable. Raise model.jitter")
    y = (here.table.y - here.y_mean) / here.y_sd
    place = here.model.likelihood.place(y, means, var).mean(0)
    sd = np.sqrt(var.mean(0) + means.var(0))
    return (here.y_mean + here.y_sd * arms.mean(0), here.y_mean + here.y_sd * means.mean(0), here.y_sd * sd, place)


KINDS: Mapping[str, Callable[[Here, dict[str, np.ndarray]], dict[str, np.ndarray]]] = {
    "propensity": _propensity, "balance": _balance, "overlap": _overlap, "outcome": _outcome}
"""What computes each kind; the rows of `protocol.requests` say what of it leaves."""
