"""Cells as text: what is a number, what is missing, and what is an error that does not show it."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedci.errors import DataError
from fedci.table.source import Source
from support.tables import SMALL


@settings(max_examples=200, deadline=None)
@given(value=st.floats(-1e70, 1e70), form=st.sampled_from(["{!r}", "{:e}", "{:.3f}", " {!r} ", "+{:.17g}"]))
def test_a_number_is_read_as_python_reads_it(value, form):
    text = form.format(abs(value) if form.startswith("+") else value)
    frame = pd.DataFrame({"w": [0, 1], "y": ["3", text], "a": [text, "."], "s": "A", "i": "0"})
    if float(text) == 3:
        frame["y"] = ["2", text]
    table = Source("lyon", frame).read(SMALL)
    assert table.x[0, 0] == float(text)
    assert table.y[1] == float(text)


@pytest.mark.parametrize("word", ["", " ", "NA", "#N/A", "#NV", "NaT", "NULL", "."])
def test_words_of_programs_for_no_value(word):
    frame = pd.DataFrame({"w": [0, 1], "y": [0.0, 2.0], "a": ["1", word], "s": "A", "i": "0"})
    assert Source("lyon", frame).read(SMALL).missing[:, 0].tolist() == [False, True]


@pytest.mark.parametrize(("cell", "fragment"), [
    ("2020-01-31", "holds dates in 1 row (first: row 2); make days of them"), ("31.1.2020", "holds dates"),
    ("1/31/20 00:00", "holds dates"), ("1,5", "decimals with a comma"), ("1,234.5", "parts thousands by a comma"),
    ("80%", "no unit, % or <"), ("unknown", "missing_codes"), (pd.Timestamp("2020-01-31"), "since = another column")])
def test_what_a_cell_holds_instead_of_a_number_is_told(cell, fragment):
    column = ["1", cell] if isinstance(cell, str) else [cell, cell]
    frame = pd.DataFrame({"w": [0, 1], "y": [0.0, 2.0], "a": column, "s": "A", "i": "0"})
    with pytest.raises(DataError) as problem:
        Source("lyon", frame).read(SMALL)
    assert fragment in problem.value.message


@settings(max_examples=200, deadline=None)
@given(text=st.text(min_size=1, max_size=8))
def test_text_is_a_number_missing_or_an_error_that_does_not_show_it(text):
    frame = pd.DataFrame({"w": [0, 1], "y": [0.0, 2.0], "a": ["1", f"§{text}§"], "s": "A", "i": "0"})
    with pytest.raises(DataError) as problem:
        Source("lyon", frame).read(SMALL)
    assert "§" not in problem.value.message
    assert "row 2" in problem.value.message
