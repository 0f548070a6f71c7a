"""A site's side of the subgroups: who is in them, of which of them it tells, and sums of effects over their people.

    tells of g   at least `min_difference` people in it, and of each arm none or `min_cell`; and with everybody, the
                 arms and the groups before it no combination singles fewer out (`site.accountant`): so not where few
                 are in all else, nor where two groups differ by few; nor where it, alone or with a group before it,
                 is all but few of those whom the sums of a column count (`table.strays.cells`)

What it does not tell of is 0 in every sum, and counts in nobody's `told`.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from fedci.errors import DisclosureError, NumericalError
from fedci.model.family import Arrays
from fedci.model.rows import Weighed
from fedci.site import accountant
from fedci.site.cohort import Cohort, check_span
from fedci.site.describing import Part
from fedci.site.diagnosing import Here
from fedci.site.prepared import Prepared
from fedci.site.run import Party, Run, required
from fedci.study.policy import Policy
from fedci.table import strays

WAY = "row"


def answer(party: Party, run: Run, ready: Prepared, here: Here, arrays: Arrays) -> Part:
    """In model units: of numbers sums of effects, of all else of risks (or rates) without and with treatment."""
    groups = members(party, run)
    told = tells_of(party, run, groups, counted(run, ready))
    weights = groups * told[:, None]
    sums = weighed(party.name, run, ready, weights.astype(float))
    return Part({"told": told.astype(float), "people": weights.sum(1).astype(float),
                 "effects": np.asarray(sums.sums), "effects_cov": np.asarray(sums.cov).mean(0)})


def weighed(site: str, run: Run, ready: Prepared, weights: np.ndarray) -> Weighed:
    q = required(site, run.posterior, "the effects' draws")
    found = jax.device_get(ready.rows.weighed(ready.model, q.vector, q.draws, weights, q.jitter, q.known))
    if not all(np.isfinite(part).all() for part in found):
        raise NumericalError(f"site '{site}': sums of effects over subgroups are not finite. Raise model.jitter")
    return Weighed(*found)


def members(party: Party, run: Run) -> np.ndarray:
    """[G, n] bool: by the values as they are in the site's table, before rare ones are counted with others."""
    x = party.whole.x[run.rows]
    return np.array([group.holds(x) for group in run.study.groups], bool).reshape(-1, len(x))


def counted(run: Run, ready: Prepared) -> list[np.ndarray]:
    """[n] bool of each set of people whom this study's sums of columns count."""
    away = ~np.isfinite(ready.units.x_sd)
    return strays.cells(run.table.x, run.table.w, run.study.policy.min_cell, away)


def tells_of(party: Party, run: Run, groups: np.ndarray, cells: Sequence[np.ndarray]) -> np.ndarray:
    """[G] bool: of each group in its turn; `cells`: whom sums told of already."""
    policy, w = run.study.policy, run.table.w
    everybody = _cohort(np.arange(len(w)), w)
    known, told = [everybody], np.zeros(len(groups), bool)
    for k, group in enumerate(groups):
        cohort = _cohort(np.flatnonzero(group), w)
        if not group.any() or group.all():  # nobody, or everybody, who is told of already
            told[k] = True
        elif (_is_large(cohort, policy) and _leaves_many(group, groups[:k][told[:k]], cells, w, policy)
              and _stays_hidden(party, run, cohort, known, policy)):
            told[k], known = True, [*known, cohort]
    return told


def _cohort(rows: np.ndarray, w: np.ndarray) -> Cohort:
    return Cohort({WAY: rows.astype(np.uint64)}, w[rows].astype(np.uint8))


def _is_large(cohort: Cohort, policy: Policy) -> bool:
    """By itself; with an arm that is empty the effect there is the model's alone."""
    arms = np.bincount(cohort.arm, minlength=2)
    return len(cohort.arm) >= policy.min_difference and not np.any((arms > 0) & (arms < policy.min_cell))


def _leaves_many(group: np.ndarray, before: np.ndarray, cells: Sequence[np.ndarray], w: np.ndarray,
                 policy: Policy) -> bool:
    """Whether nobody, or many, are left of a cell, or of all others, where the group is taken from it, alone or with
    one before it that has nobody of it."""
    sums = [group, *(group | other for other in before if not np.any(group & other))]
    return all(_is_nobody_or_large(_cohort(np.flatnonzero(rest), w), policy)
               for cell in cells for one in sums for rest in (one != cell, one == cell))


def _is_nobody_or_large(cohort: Cohort, policy: Policy) -> bool:
    return not len(cohort.arm) or _is_large(cohort, policy)


def _stays_hidden(party: Party, run: Run, cohort: Cohort, known: list[Cohort], policy: Policy) -> bool:
    """Beside what this run has told, and whatever the site told before."""
    try:
        if policy.min_difference or policy.min_cell:
            check_span(party.name, cohort, known, policy)
        if party.accountant is not None:
            rows = cohort.prints[WAY].astype(int)
            about = accountant.release(site=party.name, run=run.name, agreed=party.agreed, study=run.study,
                                       whole=party.whole, rows=run.rows[rows], w=run.table.w[rows],
                                       sites=run.contract.sites, part=True)
            party.accountant.admit(about, policy)
    except DisclosureError:
        return False
    return True
