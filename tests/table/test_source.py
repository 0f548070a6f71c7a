"""A site's data by the site's name, whatever form they come in."""

from dataclasses import replace

import numpy as np
import pytest

from fedci.errors import StudyError
from fedci.table.source import Source, _in_an_order
from support.tables import ROWS, read, study, told


def test_a_site_must_be_the_studys(frame):
    told(frame, StudyError, sites=["oslo"])
    with pytest.raises(StudyError, match="a-z"):
        Source("Lyon", frame)


def test_a_source_shows_where_its_data_are_and_no_cell(frame, tmp_path):
    assert Source("lyon", frame).shown() == f"Source 'lyon': {ROWS} rows × {len(frame.columns)} columns"
    assert Source("lyon", tmp_path / "lyon.csv").shown() == f"Source 'lyon': {tmp_path}/lyon.csv"
    assert Source("lyon", frame).query == ""


def test_the_order_that_a_query_gives_rows_in_is_no_matter(frame):
    table = read(frame)
    mixed = table.take(np.random.default_rng(0).permutation(ROWS))
    one, other = _in_an_order(table), _in_an_order(mixed)
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(table.y[one.lines], one.y)  # and each row knows where it stood
    assert replace(one, lines=None).rows == ROWS


def test_people_outside_the_fit_are_read_as_the_table_is(frame):
    table, (x, w, y) = read(frame), Source("lyon", frame).read_people(study())
    np.testing.assert_array_equal(x, table.x)
    np.testing.assert_array_equal(w, table.w)
    np.testing.assert_array_equal(y, table.y)
