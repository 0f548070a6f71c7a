"""Times to an event and exposures as a site's columns hold them, checked.

Of followed people y is 1 where the event ended the time and lay within the last horizon, and the time ends there at the
latest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedci.study.study import Study
from fedci.table.values import Column, numbers, row_list


def checked_time(column: Column, role: str, kept: np.ndarray) -> np.ndarray:
    """[n] of a time (`role`: what it is) of the rows that stay, known and not negative; an exposure is above 0."""
    whole = numbers(column, f"the {role} must be numeric. Correct the cells")
    time = np.full(len(whole), 1.0)
    time[kept] = whole[kept]
    for wrong, words in ((np.isnan(time), "has no value in {}"), (np.isinf(time), "is infinite in {}"),
                         (time < 0, "is negative in {}"),
                         ((time == 0) & (role == "exposure"), "is 0 in {}")):
        if wrong.any():
            raise column.error(f"{words.format(row_list(wrong))}; without its {role} a row cannot be used. Correct the "
                               f"cells, or drop the rows")
    return time[kept]


def checked_count(column: Column, y: np.ndarray) -> np.ndarray:
    wrong = (y < 0) | (y != np.round(y)) & ~np.isnan(y)
    if wrong.any():
        raise column.error(f"holds no counts in {row_list(wrong)}: 0, 1, 2, … are. Correct the cells, or leave out "
                           f"type = \"count\"")
    return y


def outcome_time(study: Study, columns: Mapping[str, Column], kept: np.ndarray) -> np.ndarray | None:
    """[n] how long a person was followed, or counted; none where the study has no such column."""
    if study.time is not None:
        return np.minimum(checked_time(columns[study.time], "time", kept), study.horizons[-1])
    return None if study.exposure is None else checked_time(columns[study.exposure], "exposure", kept)


def without_time(study: Study, columns: Mapping[str, Column], y: np.ndarray) -> np.ndarray:
    """[n] y, unknown where the time or the exposure that belongs to it is."""
    name = study.time or study.exposure
    if name is None or name not in columns:
        return y
    return np.where(np.isnan(numbers(columns[name], "a time must be numeric. Correct the cells")), np.nan, y)


def within_horizon(study: Study, columns: Mapping[str, Column], y: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """[n] 1 where the event lay within the last horizon; of all else the outcome as it is."""
    if study.time is None:
        return y
    return np.asarray(y * (checked_time(columns[study.time], "time", kept) <= study.horizons[-1]))
