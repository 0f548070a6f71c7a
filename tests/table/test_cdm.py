"""A study from an OMOP common data model = the same study from the table that the model was made from."""

from __future__ import annotations

import io
import os
import sqlite3
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI
from fedci.study.omop import Omop
from fedci.study.sections import SharedQuery
from fedci.study.study import Study
from fedci.table.cdm import Attrition, attrition_of, common_of, select_of
from fedci.table.database import ADDRESS
from fedci.table.source import Source, attrition
from support.commanded import told
from support.omop import COMPARATOR, SPEC, STUDY, TARGET, cdm, people
from tests_support import SMALL, frame, study

pytest.importorskip("sqlalchemy", reason="the extra `sql` is not installed")
SQL_SERVER = Path(__file__).parents[1] / "vectors" / "cdm-mssql.sql"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "omop"
SYNTHEA = Path(os.environ.get("FEDCI_OMOP", SHARED)) / "Synthea27Nj_5.4.zip"


@pytest.fixture(params=["sqlite", "duckdb"])
def database(request, tmp_path, monkeypatch):
    """The address of a database with the model in it."""
    monkeypatch.setenv(ADDRESS, stored(request.param, tmp_path / f"cdm.{request.param}", 3))
    return request.param


def stored(kind: str, path: Path, seed: int) -> str:
    """The tables of a model in a file of SQLite or DuckDB; its address."""
    tables = cdm(people(seed))
    if kind == "sqlite":
        with sqlite3.connect(path) as connection:
            for name, rows in tables.items():
                rows.to_sql(name, connection, index=False)
    else:
        duckdb = pytest.importorskip("duckdb", reason="the extra `sql` is not installed")
        with duckdb.connect(str(path)) as connection:
            for name, rows in tables.items():
                connection.register("rows", rows)
                dates = ", ".join(f"CAST({column} AS DATE) AS {column}" for column in rows if column.endswith("_date"))
                connection.execute(f"CREATE TABLE {name} AS SELECT * {f'REPLACE ({dates})' if dates else ''} FROM rows")
    return f"{kind}:///{path}"


def test_the_same_table_as_from_csv(database, tmp_path):
    people(3).to_csv(tmp_path / "lyon.csv", index=False)
    made, same = Source.at(STUDY, "lyon", "sql:").read(STUDY), Source("lyon", tmp_path / "lyon.csv").read(STUDY)
    np.testing.assert_array_equal(made.x, same.x)
    np.testing.assert_array_equal(made.w, same.w)
    np.testing.assert_array_equal(made.y, same.y)


def test_attrition_is_counted_and_shown_at_the_site(database, tmp_path, capsys):
    source, treated = Source.at(STUDY, "lyon", "sql:"), int(people(3).treated.sum())
    assert attrition(STUDY, source) == Attrition(treated + 1, 121 - treated, 1)
    STUDY.write(tmp_path / "study.toml")
    code, out, _ = told(capsys, "check", tmp_path / "study.toml", "sql:", "--site", "lyon")
    assert code == 0
    assert f"attrition: {treated + 1} people in the target cohort" in out


def test_a_cohort_of_nobody_is_told(database):
    plan = STUDY.changed(source=SharedQuery(omop=SPEC | {"target": 7}))
    told = attrition(plan, Source.at(plan, "lyon", "sql:")).in_words()
    assert told.startswith("0 people in the target cohort")
    assert told.endswith("a cohort that holds nobody: is its id right, and the table cohort filled?")


def test_init_proposes_a_study_that_the_model_passes(database, tmp_path, capsys):
    code, _, _ = told(capsys, "init", "sql:", "--omop", f"{TARGET},{COMPARATOR},103", "--policy", "simulation", "--out",
                      tmp_path / "study.toml")
    assert code == 0
    text = (tmp_path / "study.toml").read_text()
    plan = Study.from_toml(text.replace("window = [1, 365]", "window = [1, 90]"))  # what a reviewer would know
    assert [plan.label(one.name) for one in plan.covariates] == [
        "age", "female", "Diabetes", "Cough", "Atorvastatin", "Systolic pressure"]
    table = Source.at(plan, "lyon", "sql:").read(plan)
    np.testing.assert_array_equal(table.w, people(3).treated)
    np.testing.assert_array_equal(table.x[:, 5], people(3).pressure)
    assert told(capsys, "init", "sql:", "--omop", "1,2", "--out", tmp_path / "s.toml")[0] == 2


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_query_on_a_file_is_the_table_that_the_file_holds(kind, tmp_path, monkeypatch):
    pytest.importorskip("duckdb", reason="the extra `sql` is not installed")
    table, path = frame(40, 0).assign(ward=["it's", "b"] * 20), tmp_path / f"it's a{kind}"
    table.to_csv(path, index=False) if kind == ".csv" else table.to_parquet(path)
    monkeypatch.setenv(ADDRESS, f"duckdb:///{path}")
    (tmp_path / "q.sql").write_text("SELECT age, bmi, sex, w, y FROM data WHERE ward = 'b'")
    asked = Source.at(study(), "lyon", f"sql:{tmp_path / 'q.sql'}").read(study())
    same = Source("lyon", table[table.ward == "b"]).read(study())
    np.testing.assert_allclose(asked.x, same.x, rtol=1e-15)
    np.testing.assert_array_equal(asked.w, same.w)


@pytest.mark.parametrize("kind", [".duckdb", ".csv", ".parquet"])
def test_a_duckdb_query_reaches_nothing_but_its_database(kind, tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb", reason="the extra `sql` is not installed")
    path, secret = tmp_path / f"a{kind}", tmp_path / "secret.csv"
    if kind == ".duckdb":
        duckdb.connect(str(path)).close()
    else:
        pd.DataFrame({"a": [1.0]}).to_csv(path) if kind == ".csv" else pd.DataFrame({"a": [1.0]}).to_parquet(path)
    secret.write_text("a\n1\n")
    monkeypatch.setenv(ADDRESS, f"duckdb:///{path}")
    hidden = f"SELECT * FROM read_csv(''{secret}'')"
    for text in (f"SELECT * FROM read_csv('{secret}')", f"SELECT * FROM '{secret}'", f"SELECT * FROM query('{hidden}')",
                 "SELECT * FROM query('SELECT 1 AS a')", "SELECT * FROM Query_Table('t')",
                 "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1 AS a'))",
                 f"SELECT * FROM read_text('{secret}')", f"SELECT * FROM glob('{tmp_path}/*')",
                 f"SELECT * FROM enable_logging(storage='file', storage_path='{tmp_path}')",
                 f"SELECT * FROM enable_profiling(save_location='{tmp_path / 'p'}')"):
        (tmp_path / "q.sql").write_text(text)
        with pytest.raises(Exception, match="site|query") as problem:
            Source.at(STUDY, "lyon", f"sql:{tmp_path / 'q.sql'}").read(STUDY)
        assert type(problem.value).__name__ == "SourceError"
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "q.sql", secret]


def test_sql_servers_words():
    """Compiled and compared as text, with line breaks where SQLAlchemy likes: no such server is here. The text is what
    T-SQL knows: TOP, DATEDIFF and DATEPART, and no LIMIT, EXTRACT or subtracted dates."""
    omop = Omop.model_validate(SPEC | {"cdm": "cdm", "results": "results"})
    told = [select_of(omop, "treated", "event", "mssql"), attrition_of(omop, "mssql"),
            common_of(omop, "measurement", "mssql", 5)]
    assert "\n".join(told).split() == SQL_SERVER.read_text(encoding="utf-8").split()


def test_fits_from_models_are_those_of_their_tables(tmp_path, monkeypatch):
    """Over three sites, each with a database of its own, of either kind: the same bits."""
    plan, sources = STUDY.changed(options=SMALL | {"optimiser": {"rounds": 2, "draws": 4}}), []
    for number, (name, kind) in enumerate((("lyon", "sqlite"), ("oslo", "duckdb"), ("turin", "sqlite"))):
        monkeypatch.setenv(f"{ADDRESS}_{name.upper()}", stored(kind, tmp_path / f"{name}.db", number))
        sources.append((Source.at(plan, name, "sql:"), Source(name, people(number))))
    by_model, by_table = (FedCI(plan).fit([pair[which] for pair in sources]) for which in (0, 1))
    np.testing.assert_array_equal(by_model.ate().means, by_table.ate().means)
    np.testing.assert_array_equal(by_model.effect(people(0), "lyon"), by_table.effect(people(0), "lyon"))


@pytest.mark.skipif(not SYNTHEA.is_file(), reason="the tables of Synthea are not in FEDCI_OMOP or shared/")
def test_the_schema_is_that_of_a_real_model(tmp_path):
    """All features on tables as a CDM 5.4 has them, with three people put into its empty cohorts."""
    duckdb = pytest.importorskip("duckdb", reason="the extra `sql` is not installed")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection, zipfile.ZipFile(SYNTHEA) as files:
        for name in ("PERSON", "COHORT", "CONDITION_OCCURRENCE", "DRUG_EXPOSURE", "MEASUREMENT", "CONCEPT_ANCESTOR"):
            rows = pd.read_csv(io.BytesIO(files.read(f"{name}.csv")), low_memory=False)
            connection.register("rows", rows.astype({column: str for column in rows if column.endswith("_date")}))
            dates = ", ".join(f"TRY_CAST({column} AS DATE) AS {column}" for column in rows if column.endswith("_date"))
            connection.execute(f"CREATE TABLE {name} AS SELECT * {f'REPLACE ({dates})' if dates else ''} FROM rows")
        connection.execute("CREATE OR REPLACE TABLE cohort (cohort_definition_id INTEGER, subject_id INTEGER, "
                           "cohort_start_date DATE, cohort_end_date DATE)")  # it has no rows, and so no types
        for person in (1, 2, 3):
            connection.execute(f"INSERT INTO cohort VALUES ({TARGET if person < 3 else COMPARATOR}, {person}, "
                               "DATE '2013-06-01', DATE '2013-06-01')")
        spec = SPEC | {"features": SPEC["features"] | {"weight": {
            "table": "measurement", "concepts": [3025315], "take": "last", "window": [-3650, 0]}}}
        found = connection.execute(select_of(Omop.model_validate(spec), "treated", "event", "duckdb")).df()
    assert list(found.treated) == [1, 1, 0]
    assert found.age[0] == 2013 - 1998
    assert found.weight[0] == 48.1
