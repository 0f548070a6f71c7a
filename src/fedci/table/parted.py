"""One table of all people with a column that names their site: a source for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fedci.errors import UsageError
from fedci.study.coding import code_word
from fedci.study.options import nearest
from fedci.study.study import Study
from fedci.table.columns import read_columns
from fedci.table.source import Source
from fedci.table.values import count

if TYPE_CHECKING:
    import pandas as pd


def parted(table: Any, column: str) -> list[Source]:
    """Of a frame; sites are named in small letters, in their order."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        raise UsageError(f"site={column!r} is for one table of all people, and got {type(table).__name__}: pass a "
                         f"DataFrame")
    names = [str(name).strip() for name in table.columns]
    if names.count(column) > 1:
        raise UsageError(f"site={column!r}: the column stands more than once in the table. Remove or rename the copies")
    if column not in names:
        raise UsageError(f"site={column!r}: the table has no such column{nearest(column, names)}")
    where = table.iloc[:, names.index(column)]
    if where.isna().any():
        raise UsageError(f"site={column!r}: {count(int(where.isna().sum()), 'row')} of the table "
                         f"{'names' if where.isna().sum() == 1 else 'name'} no site. Drop them, or name one")
    _check_apart(where, column)
    return [Source(str(name), rows.reset_index(drop=True)) for name, rows in table.groupby(where.map(site_name))]


def _check_apart(where: pd.Series, column: str) -> None:
    """That no two sites become one by their names; blanks around them, and capitals, tell none apart."""
    meant: dict[str, str] = {}
    for word in where.unique():
        if meant.setdefault(site_name(word), _spelt(word)) != _spelt(word):
            raise UsageError(f"site={column!r}: two of its sites would both be called {site_name(word)!r}, for of a "
                             f"site's name only a-z, 0-9 and '-' are kept. Rename one in the table")


def parted_file(study: Study, data: Any, column: str) -> list[Source]:
    """Of a file or a query, the columns that the study reads; with `sites` in the study, those sites alone."""
    wanted = tuple(dict.fromkeys((*study.reads(), column)))
    cells = read_columns(data, wanted, study.policy.max_file_bytes)
    frame: pd.DataFrame = pa.table({name: cells[name].cells for name in wanted}).to_pandas()
    return [source for source in parted(frame, column) if not study.sites or source.name in study.sites]


def site_name(word: Any) -> str:
    """A word of a table as a site's name: small letters, digits and '-'."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in _spelt(word))[:40] or "-"


def _spelt(word: Any) -> str:
    return str(code_word(word.item() if hasattr(word, "item") else word)).strip().lower()
