"""One table with a column of sites = a table for each site."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI, Source, UsageError
from fedci.table.parted import parted, parted_file, site_name
from support.commanded import told
from support.tables import as_csv
from tests_support import SMALL, frame, study

PLAN = study(preset="default", options=SMALL | {"optimiser": {"rounds": 2, "draws": 4}})


def both() -> tuple[list[pd.DataFrame], pd.DataFrame]:
    """(each site's table, all people shuffled)."""
    tables = [frame(40, s) for s in range(3)]
    names = ("UK", "New Zealand", "7")
    whole = pd.concat([table.assign(country=name) for table, name in zip(tables, names, strict=True)])
    return tables, whole.sample(frac=1, random_state=1).sort_index(kind="stable")


def test_a_table_by_site_is_a_table_for_each(tmp_path):
    tables, whole = both()
    named = dict(zip(("uk", "new-zealand", "7"), tables, strict=True))
    for sources in (parted(whole, "country"), parted_file(PLAN, as_csv(whole, tmp_path / "a.csv"), "country")):
        assert [source.name for source in sources] == sorted(named)
        for source in sources:
            made, same = source.read(PLAN), Source(source.name, named[source.name]).read(PLAN)
            np.testing.assert_allclose(made.x, same.x, rtol=1e-12)
            np.testing.assert_array_equal(made.w, same.w)
    some = PLAN.changed(sites=("uk", "7"))
    assert [source.name for source in parted_file(some, tmp_path / "a.csv", "country")] == ["7", "uk"]


def test_fit_of_one_table_is_fit_of_its_sites():
    _, whole = both()
    one = FedCI(PLAN).fit(whole, site="country")
    each = FedCI(PLAN).fit(parted(whole, "country"))
    assert one.sites == each.sites
    np.testing.assert_array_equal(one.ate().means, each.ate().means)


@pytest.mark.parametrize(("table", "column", "words"), [
    ([1, 2], "a", "pass a DataFrame"), (pd.DataFrame({"country": ["a"]}), "counry", "did you mean 'country'"),
    (pd.DataFrame({"country": ["a", None]}), "country", "1 row of the table names no"),
    (pd.DataFrame([["a", "b"]], columns=["country", "country"]), "country", "more than once"),
    (pd.DataFrame({"country": ["St. Mary", "St-Mary", "St--Mary"]}), "country", "two of its sites"),
    (pd.DataFrame({"country": ["Ö", "Ä"]}), "country", "would both be called '-'")])
def test_what_cannot_be_parted_is_told(table, column, words):
    with pytest.raises(UsageError, match=words):
        parted(table, column)


def test_blanks_and_capitals_make_no_site_of_their_own():
    sources = parted(pd.DataFrame({"country": ["UK", "uk ", 7, 7.0], "a": range(4)}), "country")
    assert [(source.name, len(source.data)) for source in sources] == [("7", 2), ("uk", 2)]


def test_names_of_sites():
    assert [site_name(word) for word in ("UK", " St. Mary ", 7.0, np.int64(3))] == ["uk", "st--mary", "7", "3"]


def test_run_by_a_column(tmp_path, capsys):
    _, whole = both()
    small = frame(40, 9).iloc[:1].assign(country="tiny")
    as_csv(pd.concat([whole, small]), tmp_path / "a.csv")
    PLAN.changed(policy=PLAN.policy.model_copy(update={"min_rows": 5})).write(tmp_path / "study.toml")
    code, out, err = told(capsys, "run", tmp_path / "study.toml", "--table", tmp_path / "a.csv", "--by", "country",
                          "--out", tmp_path / "r", "--quiet")
    assert code == 0
    assert "120 people at 3 sites" in out
    assert "left out, too small for the policy: tiny" in err
    assert told(capsys, "run", tmp_path / "study.toml", "--table", tmp_path / "a.csv")[0] == 2
    assert told(capsys, "run", tmp_path / "study.toml")[0] == 2
