"""What a table's treatment, outcome, clusters and ids must be, and how many rows of each arm the policy asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from fedci.errors import DataError, SizeError, UsageError
from fedci.study.identity import records
from fedci.study.policy import Policy
from fedci.study.study import Study
from fedci.table.dependence import is_constant
from fedci.table.repeats import copies
from fedci.table.times import checked_count, without_time
from fedci.table.values import (
    MISSING_WORDS,
    Column,
    count,
    level_codes,
    numbers,
    quoted,
    refuse,
    row_list,
    told_of,
    without_missing_words,
    words,
    zeros_and_ones,
)

if TYPE_CHECKING:
    import pandas as pd


ONE_OUTCOME = "have the same outcome here"
"""Said at the site alone: where it is not said, somebody stands apart, perhaps one person."""


class Dropped(NamedTuple):
    """Rows that a study with rows_without = "drop" leaves out, by what they lack."""

    treatment: int = 0
    untreated: int = 0
    """Without their outcome, untreated."""
    treated: int = 0
    """Without their outcome, treated."""

    @property
    def outcome(self) -> int:
        return self.untreated + self.treated

    def in_words(self) -> str:
        """'' where there are none."""
        return ", ".join(f"{count(number, 'row')} without {what}" for number, what in (
            (self.treatment, "treatment"), (self.outcome, "outcome")) if number)


def records_of(study: Study, ids: pd.DataFrame | None) -> list[bytes]:
    if ids is None:
        raise UsageError("the study names no ids, and linkage needs them. Name the columns in ids")
    if len(study.ids) == 1:  # with several columns such a word may be a name
        _check_id_words(ids[study.ids[0]])
    return records({name: ids[name].to_numpy(object) for name in study.ids}, study.linkage.dates)


def _check_id_words(ids: pd.Series) -> None:
    gone = ids.isna() | ids.str.strip().str.lower().isin(MISSING_WORDS)
    if gone.any():
        raise DataError(f"column {ids.name!r} has no id in {row_list(gone.to_numpy())}; linkage needs every id. "
                        "Correct them, drop the rows, or set enabled = false under [linkage] of the study")


def clusters(study: Study, columns: Mapping[str, Column], kept: np.ndarray) -> np.ndarray | None:
    """[n] numbers of clusters, in the order of their names; nobody outside the site learns them."""
    if study.cluster is None:
        return None
    column, most = columns[study.cluster], int(getattr(study.fit_options().model, "exact_rows", 0))
    names = without_missing_words(words(column)).to_numpy()[kept]
    gone = np.array([name is None for name in names], bool)
    if gone.any():
        refuse(column.error(f"names no cluster in {count(int(gone.sum()), 'row')}. Name one for each person, or drop "
                            f"the rows"))
    if len(kept) > most:
        raise SizeError(f"{len(kept)} rows, and with clusters at most model.exact_rows = {most} can be computed on. "
                        f"Set exact_rows = {len(kept)} or more under [model] of the study: time grows with its cube")
    return np.unique(np.where(gone, "", names).astype(str), return_inverse=True)[1].astype(np.int64)


def kept_rows(rows: int, w: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
    """Rows whose treatment and outcome are known, as far as they could be read."""
    gone = [np.isnan(part) for part in (w, y) if part is not None]
    return np.flatnonzero(~np.any([np.zeros(rows, bool), *gone], axis=0))


def dropped_of(w: np.ndarray, y: np.ndarray) -> Dropped:
    without = np.isnan(y)
    return Dropped(int(np.isnan(w).sum()), *(int((without & some).sum()) for some in (w == 0, w > 0)))


def check_people(study: Study, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> list[str]:
    """The policy's limits are of people: whoever stands in the table four times counts once."""
    again = copies(x, w, y)
    if not again.any():
        return []
    with told_of(f"{count(int(again.sum()), 'row')} repeat another in all columns of the study; without them"):
        check_rows(study.policy, int((~again).sum()))
        check_arms(study, w[~again])
    if again.sum() < max(study.policy.min_cell, 1):
        return []
    return ["many rows repeat another in all columns of the study. If people stand in the table more than once, "
            "intervals are too narrow: keep one row of each"]


def check_rows(policy: Policy, rows: int) -> None:
    if rows == 0:
        raise SizeError("the table has a header but no rows. Export it again")
    if rows < policy.min_rows:
        raise SizeError(f"the table has {count(rows, 'row')}, the policy needs "
                        f"{policy.min_rows}. Add rows, or leave the site out")


def treatment(study: Study, column: Column, drop: bool = False) -> np.ndarray:
    """[n]; NaN where it is missing and such rows are dropped."""
    w = (level_codes(column, study.arms, "an arm", "name it in arms, or drop its rows (values = …, missing_codes = …)")
         if study.arms else zeros_and_ones(column, "code the treatment 1 for treated and 0 for not; or say in the "
                                                   'study which words these are: treatment = { name = …, treated = '
                                                   '"…", untreated = "…" }'))
    if not drop:
        _check_known(column, np.isnan(w), "treatment")
    return w


def check_outcome(column: Column, kind: str, y: np.ndarray) -> None:
    check_varies(column.name, kind, y)
    if kind == "numeric" and np.isin(y, (0.0, 1.0)).all():
        raise column.error(f"holds 0 and 1 only, and the study takes its outcome for a number. Write outcome = "
                           f'{{ name = "{column.name}", type = "binary" }} in the study: effects are then differences '
                           f"of risks. A negative control has the type of the outcome")


def control_of(column: Column, kind: str, kept: np.ndarray) -> np.ndarray:
    """A negative control of the rows that stay: it must be known of all of them."""
    y = finite_outcome(column, kind, drop=True)[kept]
    _check_known(column, np.isnan(y), "negative control")
    check_outcome(column, kind, y)
    return y


def one_outcome(study: Study, w: np.ndarray, y: np.ndarray) -> list[str]:
    """Arms without an event, or without anybody spared: their risk rests on the model and on other sites. A whole site
    may be so: to leave it out would be to overstate the risk."""
    if study.outcome_type == "numeric":
        return []
    return [f"all {word} rows {ONE_OUTCOME}" for arm, word in enumerate(_arm_words(study))
            if (w == arm).any() and np.ptp(y[w == arm]) == 0]


def check_varies(name: str, kind: str, y: np.ndarray) -> None:
    """A site where nobody has an event tells that it is rare; whether all sites are so is seen from their sum."""
    if kind == "numeric" and is_constant(y):
        raise DataError(f"column {name!r} is constant, so no effect can be seen in it. Check the export, or the study")


def known_outcome(study: Study, columns: Mapping[str, Column], drop: bool) -> np.ndarray:
    """[n] of all rows; where rows are dropped, NaN without an outcome, or without the time that belongs to it."""
    y = finite_outcome(columns[study.outcome], study.outcome_type, drop)
    return without_time(study, columns, y) if drop else y


def finite_outcome(column: Column, kind: str, drop: bool = False) -> np.ndarray:
    y = (zeros_and_ones(column, "code a binary outcome 1 where it happened and 0 where it did not; or say in the study "
                                "what each cell means: outcome = { …, values = { yes = 1, no = 0 } }")
         if kind in ("binary", "survival") else numbers(column, "the outcome must be numeric. Correct the cells"))
    if not drop:
        _check_known(column, np.isnan(y), "outcome")
    return checked_count(column, y) if kind == "count" else y


def _check_known(column: Column, gone: np.ndarray, role: str) -> None:
    if gone.any():
        refuse(column.error(f"has no value in {row_list(gone)}; without its {role} a row cannot be used. "
                            'Drop the rows, or set rows_without = "drop" in the study'))


def _arm_words(study: Study) -> tuple[str, ...]:
    return tuple(f"'{arm}'" for arm in study.arms) or ("untreated", "treated")


def check_arms(study: Study, w: np.ndarray) -> list[str]:
    """All arms, each large enough. One alone (of more than two, one that is missing), where that is allowed, is a
    warning."""
    policy, name = study.policy, study.treatment
    if study.arms:
        return _check_many_arms(study, w)
    rows_of = {"treated": int(w.sum()), "untreated": int((1 - w).sum())}
    present = [arm for arm, rows in rows_of.items() if rows]
    if len(present) == 1 and not policy.allow_single_arm:
        raise DataError(f"column {name!r} has only {present[0]} rows, and both arms are needed. "
                        "Leave the site out; or agree on a [policy] of the name \"custom\" with allow_single_arm = "
                        "true, which each site has to allow by itself")
    for arm in present:
        if rows_of[arm] < policy.min_arm_rows:
            raise SizeError(f"column {name!r} has {count(rows_of[arm], f'{arm} row')}, the policy needs "
                            f"{policy.min_arm_rows}. Add rows, or leave the site out")
    alone = present if len(present) == 1 else []
    return [f"all rows are {arm}; effects here rest on the other sites" for arm in alone]


def _check_many_arms(study: Study, w: np.ndarray) -> list[str]:
    policy, name = study.policy, study.treatment
    rows_of = {arm: int((w == place).sum()) for place, arm in enumerate(study.arms)}
    absent = [arm for arm, rows in rows_of.items() if not rows]
    if absent and not policy.allow_single_arm:
        raise DataError(f"column {name!r}: nobody got {quoted(absent)}, and the study has the arms "
                        f"{quoted(study.arms)}, each of which every site needs. Check the spelling, leave the site or "
                        f"the arm out; or agree on a [policy] of the name \"custom\" with allow_single_arm = true, "
                        f"which each site has to allow by itself")
    for arm, rows in rows_of.items():
        if rows and rows < policy.min_arm_rows:
            raise SizeError(f"column {name!r} has {count(rows, 'row')} of the arm {arm!r}, the policy needs "
                            f"{policy.min_arm_rows}. Add rows, or leave the site out")
    return [f"nobody got {arm!r}; what it does rests on the other sites" for arm in absent]


def check_level_shares(study: Study, rows: int) -> None:
    most, at_all = int(study.policy.max_level_share * rows), study.policy.max_levels
    for covariate in study.covariates:
        count = len(covariate.levels or ())
        if count > at_all:  # of a site that allows fewer than the study
            raise DataError(f"column {covariate.name!r} has {count} levels in the study; this site's policy.max_levels "
                            f"is {at_all}. Merge levels")
        if count > most:
            raise DataError(f"column {covariate.name!r} has {count} levels in the study; for {rows} rows "
                            f"policy.max_level_share allows {most}. Merge levels, or add rows")


def ids_of(study: Study, columns: Mapping[str, Column]) -> pd.DataFrame | None:
    """Text as it stands, leading zeros kept. Floating-point numbers have lost digits, and are refused."""
    if not study.ids:
        return None
    import pandas as pd

    for name in study.ids:
        if pa.types.is_floating(columns[name].cells.type):
            raise columns[name].error("holds ids as floating-point numbers, which lose digits. Store text")
    return pd.DataFrame({name: words(columns[name]).to_pandas() for name in study.ids})
