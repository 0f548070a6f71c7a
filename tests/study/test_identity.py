"""One spelling of a person: the published vectors, and the rule behind them."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedci.errors import DataError
from fedci.study.identity import RULE, TEXT, normalise, records

HERE = Path(__file__).parents[1]
VECTORS = json.loads((HERE / "vectors" / "linkage.json").read_text())
PAGE = (HERE.parent / "docs" / "linkage.md").read_text()


# ── the rule ────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("vector", VECTORS["records"], ids=lambda v: v["shows"])
def test_published_vectors(vector):
    record = normalise(vector["fields"], vector["kinds"])
    assert record.hex() == vector["record"]
    assert hmac.digest(bytes.fromhex(VECTORS["key"]), record, hashlib.sha256).hex()[:32] == vector["token"]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda v: v["shows"])
def test_published_refusals(vector):
    with pytest.raises(ValueError, match=vector["because"]) as problem:
        normalise(vector["fields"], vector["kinds"])
    assert all(field not in str(problem.value) for field in vector["fields"] if field)


def test_the_page_shows_the_vectors():
    assert VECTORS["rule"] == RULE
    for vector in VECTORS["records"]:
        cells = (vector["shows"], f"`{_shown(vector['fields'])}`", f"`{vector['record']}`", f"`{vector['token']}`")
        assert f"| {' | '.join(cells)} |" in PAGE
    for vector in VECTORS["refused"]:
        assert f"| {vector['shows']} | `{_shown(vector['fields'])}` | {vector['because']} |" in PAGE


def _shown(fields) -> str:
    return json.dumps(fields).replace("|", "\\|")


named = st.characters(exclude_categories=("Cs", "Cn"))


@given(st.text(named, max_size=8))
def test_the_rule_applied_twice_changes_nothing(text):
    try:
        once = normalise([text], [TEXT])
    except ValueError:
        return
    assert normalise([once[4:].decode()], [TEXT]) == once


@given(st.text(st.characters(max_codepoint=127), min_size=1, max_size=8))
def test_the_short_way_for_plain_ids_is_the_rule(text):
    plain = "".join(c for c in text.lower() if c > " " and c != "\x7f")
    try:
        assert normalise([text], [TEXT]) == len(plain).to_bytes(4, "big") + plain.encode()
    except ValueError:
        assert plain == ""


@given(st.lists(st.text(named, max_size=4), min_size=1, max_size=3),
       st.lists(st.text(named, max_size=4), min_size=1, max_size=3))
def test_fields_do_not_run_into_each_other(one, two):
    try:
        a, b = (normalise(fields, [TEXT] * len(fields)) for fields in (one, two))
    except ValueError:
        return
    apart = [[normalise([field], [TEXT]) for field in fields] for fields in (one, two)]
    assert (a == b) == (apart[0] == apart[1])


@given(st.dates(), st.sampled_from(["%d.%m.%Y", "%Y-%m-%d", "%m/%d/%Y", "%d %m %Y", "%Y年%m月%d日", "%d%m%Y"]))
def test_a_date_is_the_same_in_every_form(day, form):
    parts = {"%Y": f"{day.year:04}", "%m": f"{day.month:02}", "%d": f"{day.day:02}"}
    text = form
    for name, value in parts.items():
        text = text.replace(name, value)
    assert normalise([text], [form])[4:].decode() == day.isoformat()


@pytest.mark.parametrize("columns, dates, fragments", [
    ({"pid": ["a1", None, ""]}, {}, ["'pid'", "no id", "2 rows (first: row 2)"]),
    ({"pid": ["a1", "b2", float("nan")]}, {}, ["'pid'", "1 row (first: row 3)"]),
    ({"pid": ["a1", " ", "\u200b"]}, {}, ["no id", "2 rows (first: row 2)"]),
    ({"pid": ["a1", "b2", "A 1", "B2"]}, {}, ["2 rows repeat", "rows 1 and 3", "pid"]),
    ({"born": ["1.2.1990", "31.2.1990", "x"]}, {"born": "%d.%m.%Y"}, ["'born'", "%d.%m.%Y", "2 rows (first: row 2)"]),
    ({"born": ["01/02/1990", "12/11/2001"]}, {}, ["'born'", "day and month", "dates = { born ="]),
    ({"pid": ["a1", "\U0010fffe"]}, {}, ["'pid'", "Unicode", "row 2"]),
])
def test_what_is_wrong_with_ids_is_told_by_row(columns, dates, fragments):
    with pytest.raises(DataError) as problem:
        records(columns, dates)
    assert all(fragment in str(problem.value) for fragment in fragments), str(problem.value)
    assert not any(cell in str(problem.value) for values in columns.values() for cell in values
                   if isinstance(cell, str) and len(cell.strip()) > 1)
