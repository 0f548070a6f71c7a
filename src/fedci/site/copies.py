"""What a site's people lack, drawn: sums over them as one law after the other completes them, and their rows.

Where fewer than `min_cell` people of an arm lack a column it is its mean, in all copies: what is drawn for one person
differs from law to law, and what differs in Σ rrᵀ is that person's row times it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedci.model.completed import completed_rows
from fedci.model.completion import Completion, sums_of
from fedci.model.family import Arrays
from fedci.model.rows import Rows
from fedci.protocol import completing, stages
from fedci.protocol.course import Contract, Opening
from fedci.site.describing import Part
from fedci.site.prepared import Prepared, Units
from fedci.table import small_cells
from fedci.table.table import Table


def known_of(units: Units, table: Table, least: int) -> tuple[np.ndarray, np.ndarray]:
    """`Units.known` of the site's people, few gaps filled."""
    v, keys = units.known(table.x, table.w, table.y)
    few, d = small_cells.gaps(table.x, table.w, least), table.x.shape[1]
    v[:, :d] = np.where(few & np.isnan(v[:, :d]), 0.0, v[:, :d])
    return v, keys


def answer(site: str, contract: Contract, opened: Opening, ready: Prepared, table: Table, least: int,
           arrays: Arrays) -> Part:
    """Σ r and Σ rrᵀ in each arm, of the people as each of the laws completes them."""
    gaps = completing.gaps_of(contract.study, opened, len(contract.sites))
    known, step = Completion(gaps, gaps.unpacked(arrays["completing"]), opened.share, contract.seed), arrays["step"]
    v, keys = known_of(ready.units, table, least)
    levels = known.levels_of(site, v, table.w, int(step))
    x = known.people(v, table.w, keys, levels, int(step))
    return Part(sums_of(gaps, x, v, table.w, levels)._asdict())


def rows_of(ready: Prepared, units: Units, table: Table, place: int, least: int) -> Prepared:
    """With completed copies of the rows in place of filled ones; as it is where nothing is drawn."""
    known = units.completion
    if known is None:
        return ready
    v, keys = known_of(units, table, least)
    levels = known.levels_of(table.site, v, table.w)
    own = known.people(v, table.w, keys, levels)
    rows, first = _copies(ready, units, table, place, own)
    return replace(ready, units=units, rows=rows, first=first, levels=levels, own=own)


def _copies(ready: Prepared, units: Units, table: Table, place: int,
            own: np.ndarray) -> tuple[Rows, Rows | None]:
    """(the rows, those that a first stage looks at). Of a large site each copy has inducing inputs of its own."""
    w, y, u, stage = table.w, units.outcome(table.y), np.asarray(ready.rows.u), ready.stage
    copies = [ready.model.rows(x, w, y, u, place, table.added / units.y_sd**2, table.cluster) for x in own]
    if not stage.rows:
        return completed_rows(copies), None
    chosen = stages.chosen(w, stage.rows)
    first = [ready.model.rows_of_stage(rows, chosen, x, w, y) for rows, x in zip(copies, own, strict=True)]
    return completed_rows(copies), completed_rows(first)
