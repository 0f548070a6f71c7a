"""Columns of the design that say the same, depend on each other, do not vary, or live on different scales."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from fedci.errors import DataError
from fedci.study.study import Study
from fedci.table.alike import Picked, correlation, ends, holds_only, spreads
from fedci.table.values import quoted, refuse

SAME = 1e-10
"""Two columns coincide when 1 − |correlation| is below this."""
DEPENDENT = 1e-12
"""Columns depend linearly when an eigenvalue of their correlation matrix is below this."""
CONSTANT = 1e-12
"""A column is constant when its spread, relative to its largest magnitude, is rounding."""
IS_CONSTANT, COINCIDE, NO_VALUE = "is constant here", "coincide here", "has no value here"
"""Said at the site alone: where it is not said, somebody stands apart, perhaps one person."""
SCALE_RATIO = 1e8
"""Standard deviations further apart than this are a mistake in units."""


def check_design(x: np.ndarray, names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Columns that repeat each other or live on different scales; what is no error comes back as warnings."""
    low, high = ends(x)
    constant = ~(high - low > CONSTANT * np.maximum(np.abs(low), np.abs(high)))  # NaN: all are missing
    two_valued = holds_only(x, low, high) & ~constant
    numeric = np.array([kind == "numeric" for kind in kinds]) & ~constant
    many_valued = numeric & ~two_valued
    _check_scales(Picked(x, numeric), _picked(names, numeric))
    _check_dependence(Picked(x, many_valued), _picked(names, many_valued))
    said = [NO_VALUE if np.isnan(smallest) else IS_CONSTANT for smallest in low]
    return [f"column {name!r} {words}" for name, words, alike in zip(names, said, constant, strict=True) if alike] + [
        f"columns {first!r} and {second!r} {COINCIDE}"
        for first, second in _coinciding(correlation(Picked(x, two_valued), CONSTANT), _picked(names, two_valued))]


def check_types(study: Study, x: np.ndarray, names: Sequence[str], kinds: Sequence[str]) -> None:
    """Noise on sums hides two values of a numeric column the less the rarer one of them is: they stand the further
    apart in its sds."""
    if not study.noises_sums:
        return
    for name, kind, column in zip(names, kinds, x.T, strict=True):
        if kind == "numeric" and _is_two_valued(column) and not is_constant(column):
            refuse(DataError(f"column {name!r} holds two values and is called numeric, and noise on sums "
                             f"(policy.sum_noise) hides less of such a column. Write type = \"binary\" in the study, "
                             f"with values that say which is 0 and which 1"))


def _picked(names: Sequence[str], chosen: np.ndarray) -> list[str]:
    return [name for name, keep in zip(names, chosen, strict=True) if keep]


def is_constant(values: np.ndarray) -> bool:
    """Also true when all values are missing."""
    known = values[~np.isnan(values)]
    return known.size == 0 or bool(np.ptp(known) <= CONSTANT * np.abs(known).max())


def _is_two_valued(values: np.ndarray) -> bool:
    """As an indicator is, whatever the study calls it: two of them may coincide at a small site by chance."""
    known = values[~np.isnan(values)]
    return known.size == 0 or bool(((known == known.min()) | (known == known.max())).all())


def _check_scales(x: Picked, names: Sequence[str]) -> None:
    if not names:
        return
    spread = spreads(x)
    small, large = int(np.argmin(spread)), int(np.argmax(spread))
    if spread[large] > SCALE_RATIO * spread[small]:
        raise DataError(f"columns {names[small]!r} and {names[large]!r} differ in spread by more than "
                        f"{SCALE_RATIO:g} times. Give one of them in another unit")


def _check_dependence(x: Picked, names: Sequence[str]) -> None:
    """Numeric columns that another one, or several together, determine exactly."""
    found = correlation(x, CONSTANT)
    for first, second in _coinciding(found, names):
        raise DataError(f"columns {first!r} and {second!r} say the same: one is the other, perhaps in "
                        "another unit. Remove one from the study")
    if found is None:
        return
    eigenvalues, vectors = np.linalg.eigh(found)
    if eigenvalues[0] < DEPENDENT:
        involved = _picked(names, np.abs(vectors[:, 0]) > 1e-4)  # rounding leaves about 1e-8 in the others
        raise DataError(f"columns {quoted(involved)} depend on each other: one is computed from the rest. "
                        "Remove one from the study")


def _coinciding(found: np.ndarray | None, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of columns with |correlation| = 1."""
    if found is None:
        return []
    return [(names[i], names[j]) for i, j in combinations(range(len(names)), 2) if abs(found[i, j]) > 1 - SAME]
