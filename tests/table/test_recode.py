"""Recoded by the study = recoded by hand with pandas; and what a coding does not expect is told with its row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedci.errors import DataError, SizeError, StudyError
from fedci.study.coding import Coding
from fedci.study.study import Study
from fedci.table.columns import from_frame
from fedci.table.problems import problems
from fedci.table.recode import coded_chunks, in_words, own_columns, recoded
from fedci.table.source import Source
from fedci.table.values import numbers
from support.tables import as_csv

ROWS = 80


def raw() -> pd.DataFrame:
    """A hospital's table as a hospital has it."""
    rng = np.random.default_rng(5)
    day = pd.Timestamp("2020-02-27") + pd.to_timedelta(rng.integers(0, 40, ROWS), unit="D")
    table = pd.DataFrame({
        "RXASP ": rng.permutation(["Y", "N"] * (ROWS // 2)), "OUT": rng.choice(["1", "2", "3", "4", "9"], ROWS),
        "SEX": rng.choice(["M", "F", "U"], ROWS, p=[0.5, 0.4, 0.1]), " RSBP": rng.integers(90, 220, ROWS).astype(str),
        "RCONSC": rng.choice(["F", "D", "U"], ROWS), "D1": rng.choice(["Y", "N", "C"], ROWS),
        "D2": rng.choice(["Y", "N"], ROWS), "temp": np.round(rng.normal(98.6, 1, ROWS), 1),
        "onset": day.strftime("%d.%m.%Y"),
        "admitted": (day + pd.to_timedelta(rng.integers(0, 9, ROWS), unit="D")).strftime("%d.%m.%Y"),
        "weight": np.round(rng.uniform(50, 100, ROWS), 1), "height": np.round(rng.uniform(1.5, 2.0, ROWS), 2)})
    table.loc[3, " RSBP"] = "999"
    table.loc[4, " RSBP"] = ""
    return table


STUDY = Study(
    treatment={"name": "RXASP", "treated": "Y"}, rows_without="drop", missing="impute", policy="simulation",
    outcome={"name": "OUT", "type": "binary", "values": {1: 1, 2: 1, 3: 0, 4: 0}, "missing_codes": [9]},
    covariates={"SEX": {"type": "binary", "values": {"M": 1, "F": 0}, "missing_codes": ["U"]},
                "RSBP": {"missing_codes": [999], "range": [50, 250], "unit": "mmHg"},
                "consc": {"type": "categorical", "column": "RCONSC", "levels": ["F", "not"],
                          "merge": {"not": ["D", "U"]}},
                "high": {"type": "categorical", "column": "RSBP", "missing_codes": [999], "cuts": [120, 160]},
                "deficits": {"columns": ["D1", "D2"], "combine": "sum", "values": {"Y": 1, "N": 0},
                             "missing_codes": ["C"]},
                "celsius": {"column": "temp", "factor": 5 / 9, "offset": -160 / 9},
                "waited": {"column": "admitted", "date": "%d.%m.%Y", "since": "onset"},
                "index": {"columns": ["weight", "height"], "combine": "ratio"}})


def by_hand() -> pd.DataFrame:
    """The same with pandas, as a statistician at every site had to write it."""
    table = raw().rename(columns=str.strip)
    pressure = pd.to_numeric(table.RSBP.replace({"999": "", "": None})).astype(float)
    yes = {"Y": 1.0, "N": 0.0}
    days = [pd.to_datetime(table[name], format="%d.%m.%Y") for name in ("admitted", "onset")]
    return pd.DataFrame({
        "RXASP": table.RXASP.map(yes), "OUT": table.OUT.map({"1": 1.0, "2": 1.0, "3": 0.0, "4": 0.0}),
        "SEX": table.SEX.map({"M": 1.0, "F": 0.0}), "RSBP": pressure,
        "consc": table.RCONSC.map({"F": "F", "D": "not", "U": "not"}),
        "high": pd.cut(pressure, [-np.inf, 120, 160, np.inf], right=False,
                       labels=["<120", "120 to <160", ">=160"]).astype(object),
        "deficits": table.D1.map(yes) + table.D2.map(yes), "celsius": table.temp * (5 / 9) - 160 / 9,
        "waited": (days[0] - days[1]).dt.days.astype(float), "index": table.weight / table.height})


PLAIN = Study(treatment="RXASP", outcome={"name": "OUT", "type": "binary"}, policy="simulation", missing="impute",
              covariates={"SEX": "binary", "RSBP": {}, "consc": {"type": "categorical", "levels": ["F", "not"]},
                          "high": {"type": "categorical", "levels": ["<120", "120 to <160", ">=160"]},
                          "deficits": {}, "celsius": {}, "waited": {}, "index": {}})


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_recoded_is_recoded_by_hand(form, tmp_path):
    data = raw()
    if form == "csv":
        data = as_csv(data, tmp_path / "raw.csv")
    elif form == "parquet":
        data.to_parquet(path := tmp_path / "raw.parquet")
        data = path
    made = Source("lyon", data).read(STUDY)
    hand = by_hand()
    kept = hand.index[hand.OUT.notna()]
    same = Source("lyon", hand.loc[kept].reset_index(drop=True)).read(PLAIN)
    for name in ("w", "y", "missing"):
        np.testing.assert_array_equal(getattr(made, name), getattr(same, name))
    np.testing.assert_allclose(made.x, same.x, rtol=0, atol=1e-12)
    assert made.columns == same.columns
    np.testing.assert_array_equal(made.lines, kept)
    w = hand.RXASP[hand.OUT.isna()]
    assert made.dropped == (0, (w == 0).sum(), (w == 1).sum())


def test_chunks_are_the_whole(tmp_path):
    path = as_csv(raw(), tmp_path / "raw.csv")
    names = [c.name for c in STUDY.covariates]
    parts = list(coded_chunks(path, STUDY, names, ["RCONSC"], 7))
    waited = np.concatenate([numbers(part["waited"], "") for part in parts])
    np.testing.assert_array_equal(waited, by_hand().waited)
    assert [cell for part in parts for cell in part["=RCONSC"].cells.to_pylist()] == list(raw().RCONSC)


def made(coding: dict, **columns) -> list:
    return recoded(Coding(**coding), from_frame(pd.DataFrame(columns), None), "x").cells.to_pylist()


def test_each_step():
    assert made({"missing_codes": [99, "U"]}, x=["1", "99", "99.0", " U "]) == ["1", None, None, None]
    assert made({"missing_codes": [99]}, x=[1.0, 99.0]) == [1.0, None]
    assert made({"values": {"none": 0, "some": 1}}, x=["none", "some", None, "NA"]) == [0.0, 1.0, None, None]
    assert made({"values": {"1": "mild", "2": "severe"}}, x=[1, 2, 1]) == ["mild", "severe", "mild"]
    assert made({"merge": {"other": ["C", "D"]}}, x=["A", "C", "D", None]) == ["A", "other", "other", None]
    assert made({"treated": ["L", "H"], "untreated": "N"}, x=["L", "H", "N", None]) == [1.0, 1.0, 0.0, None]
    assert made({"treated": "Y"}, x=["Y", "n", "Y"]) == [1.0, 0.0, 1.0]
    assert made({"treated": True}, x=[True, False]) == [1.0, 0.0]
    assert made({"cuts": [1, 2], "labels": ["a", "b", "c"]}, x=[0.5, 1, 1.5, 2, None]) == ["a", "b", "b", "c", None]
    assert made({"columns": ["a", "b"], "combine": "any"}, a=[1, 0, 0, None], b=[0, 0, None, 1]) == [1.0, 0.0, None, 1]
    assert made({"columns": ["a", "b"], "combine": "all"}, a=[1, 0, 1, None], b=[1, 1, None, 0]) == [1.0, 0.0, None, 0]
    assert made({"columns": ["a", "b"], "combine": "difference", "factor": 2.0}, a=[3, 1], b=[1, 4]) == [4.0, -6.0]
    for combine, value in (("mean", 3.0), ("minimum", 2.0), ("maximum", 4.0), ("product", 8.0), ("sum", 6.0)):
        assert made({"columns": ["a", "b"], "combine": combine}, a=[2.0], b=[4.0]) == [value]


def test_dates_of_every_kind():
    days = {"date": "%Y-%m-%d", "since": "s"}
    assert made(days, x=["2020-03-01", "2020-03-01 12:30:00", None], s=["2020-02-28"] * 3) == [2.0, 2.0, None]
    stamps = pd.to_datetime(["2020-03-01", "2020-03-02"])
    assert made(days, x=stamps, s=pd.to_datetime(["2020-02-28"] * 2)) == [2.0, 3.0]
    assert made({"date": "%d.%m.%Y", "since": "s"}, x=["1.3.2020"], s=["01.02.2020"]) == [29.0]


@pytest.mark.parametrize(("coding", "columns", "told"), [
    ({"values": {"Y": 1, "N": 0}}, {"x": ["Y", "Q"]}, "a code that the study does not list in 1 row (first: row 2)"),
    ({"treated": "Y"}, {"x": ["Y", "N", "U"]}, "2 other words beside those of the treated (Y)"),
    ({"treated": "Y", "untreated": "N"}, {"x": ["Y", "N", "U"]}, "does not list in 1 row (first: row 3)"),
    ({"date": "%d.%m.%Y", "since": "s"}, {"x": ["31.02.2020"], "s": ["1.1.2020"]}, "no date of the form %d.%m.%Y"),
    ({"columns": ["a", "b"], "combine": "ratio"}, {"a": [1.0], "b": [0.0]}, "values of 0 in 1 row"),
    ({"columns": ["a", "b"], "combine": "any"}, {"a": [1, 2], "b": [0, 0]}, "other than 0 and 1 in 1 row"),
    ({"factor": 2.0}, {"x": ["1", "many"]}, "holds text in 1 row (first: row 2)"),
    ({"cuts": [1.0]}, {"x": ["1,5"]}, "decimals with a comma"),
])
def test_what_a_coding_does_not_expect_is_told(coding, columns, told):
    with pytest.raises(DataError) as problem:
        made(coding, **columns)
    assert told in problem.value.message
    assert "Q" not in problem.value.message.replace("Quote", "")
    assert "many" not in problem.value.message


def test_all_problems_of_codings_at_once(tmp_path):
    table = raw().drop(columns="weight").rename(columns=str.strip)
    table.loc[7, "SEX"] = "X"
    table.loc[9, "onset"] = "yesterday"
    table.loc[11, "D2"] = "perhaps"
    told = [problem.message for problem in problems(STUDY, Source("lyon", as_csv(table, tmp_path / "a.csv")))]
    assert [sum(word in line for line in told) for word in ("'weight'", "'SEX'", "'onset'", "'D2'")] == [1, 1, 1, 1]
    assert len(told) == 4


# ── a site's own names


def test_a_sites_own_names_give_the_same_table(tmp_path, monkeypatch):
    own = raw().rename(columns=str.strip).rename(columns={"SEX": "geschlecht"})
    own["temp"] = own["temp"] * 10
    own["D2"] = own["D2"].map({"Y": "ja", "N": "nein"})
    path = as_csv(own, tmp_path / "own.csv")
    file = tmp_path / "columns.toml"
    file.write_text('SEX = "geschlecht"\ntemp = { factor = 0.1 }\nD2 = { values = { ja = "Y", nein = "N" } }\n')
    mine = Source.at(STUDY, "lyon", path, file)
    np.testing.assert_allclose(mine.read(STUDY).x, Source("lyon", raw()).read(STUDY).x, rtol=1e-12)
    assert not problems(STUDY, mine)
    assert ("SEX", "here: from geschlecht") in in_words(STUDY, mine.columns)
    monkeypatch.setenv("FEDCI_COLUMNS_LYON", str(file))
    assert own_columns("lyon", STUDY) == dict(mine.columns)
    assert own_columns("oslo", STUDY) == {}


def test_a_sites_file_names_what_the_study_reads(tmp_path):
    file = tmp_path / "columns.toml"
    file.write_text('SEXX = "geschlecht"\n')
    with pytest.raises(StudyError, match="reads no column 'SEXX', did you mean 'SEX'"):
        own_columns("lyon", STUDY, file)


def test_rows_without_outcome_are_refused_unless_the_study_drops_them():
    table = by_hand()
    with pytest.raises(DataError, match='rows_without = "drop"'):
        Source("lyon", table).read(PLAIN)
    told = [problem.message for problem in problems(PLAIN, Source("lyon", table))]
    assert len(told) == 1
    assert not problems(PLAIN.changed(rows_without="drop"), Source("lyon", table))


# ── all problems at once, and people rather than rows


def test_what_is_wrong_with_some_cells_does_not_hide_what_is_wrong_with_others(tmp_path):
    """Missing columns, wrong codes, text beside missing cells, ranges: each by its own line, with its own row."""
    table = by_hand().astype(object).drop(columns="waited")
    table.loc[2, "OUT"] = "text"
    table.loc[5, "SEX"] = 7
    table.loc[6, "consc"] = "elsewhere"
    table.loc[7, "celsius"] = "hot"
    table.loc[8, "celsius"] = ""
    table.loc[9, "celsius"] = 900.0
    plan = Study(treatment="RXASP", outcome={"name": "OUT", "type": "binary"}, policy="simulation",
                 covariates={"SEX": {"type": "binary", "missing": "impute"}, "waited": {},
                             "celsius": {"range": [30, 45]}, "consc": {"type": "categorical", "levels": ["F", "not"]}})
    told = [problem.message for problem in problems(plan, Source("lyon", as_csv(table, tmp_path / "a.csv")))]
    wanted = ("column 'waited' is missing", "column 'OUT' holds text in 1 row (first: row 3)",
              "column 'OUT' has no value",
              "column 'SEX' holds values other than 0 and 1 in 1 row (first: row 6)",
              "column 'consc' holds a level that the study does not have in 1 row (first: row 7)",
              "column 'celsius' holds text in 1 row (first: row 8)", "column 'celsius' has 1 missing value",
              "column 'celsius' holds values outside the range [30, 45] in 1 row (first: row 10)")
    assert [sum(words in line for line in told) for words in wanted] == [1] * len(wanted)
    assert len(told) == len(wanted)


def test_repeated_rows_are_found_said_and_count_once():
    rng = np.random.default_rng(2)
    once = pd.DataFrame({"w": np.arange(60) % 2, "y": rng.normal(size=60), "a": rng.normal(size=60)})
    plan = Study(treatment="w", outcome="y", covariates=["a"], policy="simulation")
    assert Source("lyon", once).read(plan).warnings == ()
    fourfold = pd.concat([once] * 4, ignore_index=True)
    assert "keep one row of each" in Source("lyon", fourfold).read(plan).warnings[0]
    strict = Study(treatment="w", outcome="y", covariates=["a"],
                   policy={"name": "custom", "min_rows": 100, "secure_sum": False})
    with pytest.raises(SizeError, match="180 rows repeat another .* has 60 rows, the policy needs 100"):
        Source("lyon", fourfold).read(strict)
    assert [problem.code for problem in problems(strict, Source("lyon", fourfold))] == ["size"]
    coarse = pd.DataFrame({"w": np.arange(80) % 2, "y": np.arange(80) % 5 * 1.0, "a": np.arange(80) % 3})
    assert Source("lyon", coarse).read(plan).warnings == ()


def test_clusters_are_numbered_and_travel_with_their_people():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"w": np.arange(60) % 2, "y": rng.normal(size=60), "a": rng.normal(size=60),
                          "school": np.array(["b", "a", "c"])[np.arange(60) // 20]})
    plan = Study(treatment="w", outcome="y", covariates=["a"], cluster="school", policy="simulation")
    made = Source("lyon", table).read(plan)
    np.testing.assert_array_equal(made.cluster, np.array([1, 0, 2])[np.arange(60) // 20])
    np.testing.assert_array_equal(made.take(np.array([40, 0])).cluster, [2, 1])
    assert Study.from_toml(plan.to_toml()) == plan
    assert plan.hash() != plan.changed(cluster=None).hash()
    table.loc[5, "school"] = None
    assert "names no cluster in 1 row" in problems(plan, Source("lyon", table))[0].message
    few = plan.changed(options={"model": {"exact_rows": 50}})
    with pytest.raises(SizeError, match="exact_rows = 60 or more"):
        Source("lyon", table.fillna("a")).read(few)
    with pytest.raises(StudyError, match="knows no clusters"):
        Study(treatment="w", outcome="y", covariates=["a"], cluster="school", preset="classic")


def test_a_chunk_tells_of_rows_by_the_tables_own_numbers(tmp_path):
    """Of what a coding does not expect, and of what a covariate cannot be."""
    table = raw().rename(columns=str.strip).assign(SEX="M")
    for column, cell in (("SEX", "?"), ("weight", "heavy")):
        spoilt = table.astype({column: object})
        spoilt.loc[44, column] = cell
        with pytest.raises(DataError, match=r"\(first: row 45\)"):
            list(coded_chunks(as_csv(spoilt, tmp_path / "a.csv"), STUDY, ["SEX", "index"], (), 7))
