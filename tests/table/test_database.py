"""Tables from queries: a real PostgreSQL, started here from Debian's packages, and SQLite; cell for cell what the same
query exported as CSV would give."""

import datetime
import decimal
import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedci import Source
from fedci.cli import commands, fitting
from fedci.errors import DataError, FedciError, SizeError, SourceError, UsageError
from fedci.study.sections import SharedQuery
from fedci.study.study import Study
from fedci.table.columns import read_chunks, read_columns
from fedci.table.database import ADDRESS, PASSWORD, Query, query_at
from fedci.table.source import absolute, attrition
from support import omop
from tests_support import frame, study

PORT = 1  # only names the socket's file: nothing listens on a network
SECRET = "s3cret-word"


def binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


def other_user() -> str | None:
    """PostgreSQL does not run as root."""
    if os.geteuid():
        return None
    return next((name for name in ("postgres", "nobody") if _exists(name)), None)


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
        return True
    except KeyError:
        return False


@pytest.fixture(scope="module")
def server():
    """The socket's folder of a server that lives as long as this module."""
    tools, user = binaries(), other_user()
    if tools is None:
        pytest.skip("PostgreSQL's programs are not under /usr/lib/postgresql: apt-get install postgresql")
    if os.geteuid() == 0 and user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody'")
    folder = Path(tempfile.mkdtemp(prefix="fedci-pg-"))  # a socket's path must be short
    prefix = ["runuser", "-u", user, "--"] if user else []
    if user:
        shutil.chown(folder, user)
    folder.chmod(0o755)

    def call(*words, **more):
        return subprocess.run([*prefix, *map(str, words)], check=True, capture_output=True, text=True, timeout=60,
                              cwd="/", **more)

    data = folder / "data"
    try:
        call(tools / "initdb", "-D", data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
        (data / "pg_hba.conf").write_text("local all reader scram-sha-256\nlocal all all trust\n")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c port={PORT} -c fsync=off"
        call(tools / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-t", "40", "-o", options, "start")
        yield folder
    finally:
        if (data / "postmaster.pid").exists():
            call(tools / "pg_ctl", "-D", data, "-m", "immediate", "-w", "-t", "20", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def people() -> pd.DataFrame:
    """A hospital's table with one column of each kind."""
    table = frame(60, 0)
    day = datetime.date(1950, 1, 31)
    return table.assign(
        dose=[None if i == 4 else decimal.Decimal(i).scaleb(-1) for i in range(60)],
        smoker=[i % 3 == 0 for i in range(60)],
        person=[f"{i:05d}" for i in range(60)], born=[day + datetime.timedelta(days=37 * i) for i in range(60)],
        stage=["I", "II", "NA"] * 20)


COLUMNS = ("age double precision, bmi double precision, sex smallint, w integer, y double precision, "
           "dose numeric(8,2), smoker boolean, person text, born date, stage varchar(9)")


@pytest.fixture(scope="module")
def postgres(server):
    """The address of a database with the table `people`, for a user that needs a password."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(f"host={server} port={PORT} user=owner dbname=postgres") as connection:
        connection.execute(f"CREATE TABLE people ({COLUMNS})")
        rows = people().astype(object).where(people().notna(), None)
        marks = ", ".join(["%s"] * rows.shape[1])
        connection.cursor().executemany(f"INSERT INTO people VALUES ({marks})", rows.values.tolist())
        connection.execute(f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'")
        connection.execute("GRANT ALL ON people TO reader")
    return f"postgresql://reader@/postgres?host={server}&port={PORT}"


@pytest.fixture
def at_postgres(postgres, monkeypatch):
    monkeypatch.setenv(ADDRESS, postgres)
    monkeypatch.setenv(PASSWORD, SECRET)


@pytest.fixture
def at_sqlite(tmp_path, monkeypatch):
    table = people().assign(dose=lambda t: t.dose.astype(float), born=lambda t: t.born.astype(str))
    with sqlite3.connect(tmp_path / "cohort.db") as connection:
        table.to_sql("people", connection, index=False)
    monkeypatch.setenv(ADDRESS, f"sqlite:///{tmp_path / 'cohort.db'}")


def query(text="SELECT * FROM people", site="lyon"):
    return Query(text, site, "query test.sql")


def plan(**changes) -> Study:
    covariates = {"age": {}, "bmi": {}, "dose": {"missing": "impute"}, "sex": "binary", "smoker": "binary",
                  "stage": {"type": "categorical", "levels": ["I", "II"], "missing": "impute"}}
    return study(**({"covariates": covariates, "ids": ["person", "born"], "linkage": {"dates": {"born": "%Y-%m-%d"}}}
                    | changes))


def same_table(a, b):
    for part in ("x", "w", "y"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))
    assert a.warnings == b.warnings
    pd.testing.assert_frame_equal(a.ids, b.ids)


@pytest.mark.parametrize("where", ["at_postgres", "at_sqlite"])
def test_a_query_gives_the_table_that_its_csv_export_gives(where, request, tmp_path):
    request.getfixturevalue(where)
    table = people().assign(smoker=lambda t: t.smoker.map({True: "true", False: "false"}))
    table.to_csv(tmp_path / "lyon.csv", index=False)
    exported = Source("lyon", tmp_path / "lyon.csv").read(plan())
    asked = Source("lyon", query("SELECT * FROM people -- 100% of them: yes")).read(plan())
    same_table(asked, exported)
    assert asked.missing.sum() == 1 + 20  # one dose; twenty stages that say NA


def test_chunks_are_the_whole(at_postgres):
    whole = read_columns(query(), None, 2**40)
    parts = list(read_chunks(query(), ["age", "person"], 7))
    assert [len(part["age"].cells) for part in parts] == [7] * 8 + [4]
    assert [cell for part in parts for cell in part["person"].cells.to_pylist()] == whole["person"].cells.to_pylist()


def test_nothing_can_be_written(at_postgres, tmp_path):
    for text in ("DELETE FROM people RETURNING age", "UPDATE people SET age = 1", "DROP TABLE people",
                 "SELECT 1 AS age; DELETE FROM people"):
        with pytest.raises(SourceError):
            list(query(text).chunks(None, 10, 2**40))
    assert len(read_columns(query(), None, 2**40)["age"].cells) == 60


def test_nothing_can_be_written_in_sqlite(at_sqlite):
    for text in ("DELETE FROM people", "DROP TABLE people", "SELECT 1 AS age; DELETE FROM people"):
        with pytest.raises(SourceError):
            list(query(text).chunks(None, 10, 2**40))
    assert len(read_columns(query(), None, 2**40)["age"].cells) == 60


def test_no_statement_of_sqlite_leaves_a_file(at_sqlite, tmp_path):
    """`VACUUM INTO` passed as read-only: a study's author got a copy of the site's database at a path of his choice."""
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    copy = tmp_path / "copy.db"
    for text in (f"VACUUM INTO '{copy}'", f"/* SELECT */ VACUUM main INTO '{copy}'", f"ATTACH '{copy}' AS other",
                 "PRAGMA journal_mode = WAL", "PRAGMA table_info(people)", f"SELECT load_extension('{copy}')",
                 "SELECT name FROM pragma_database_list", "EXPLAIN SELECT age FROM people",
                 "WITH a AS (SELECT 1) DELETE FROM people", "CREATE TEMP TABLE t AS SELECT * FROM people"):
        for ask in (query(text).names, lambda text=text: list(query(text).chunks(None, 10, 2**40))):
            with pytest.raises(SourceError, match="Write one SELECT"):
                ask()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_nothing_but_tables_can_be_read_in_postgresql(at_postgres, server):
    """No files of the server, no queries that a function runs, no second statement after the transaction."""
    for text in ("SELECT pg_read_file('/etc/passwd') AS age", 'SELECT "pg_read_file" /* */ (\'/etc/passwd\') AS age',
                 "SELECT pg_ls_dir('.') AS age", "SELECT lo_import('/etc/passwd') AS age", "SELECT pg_sleep(9) AS age",
                 "SELECT query_to_xml('SELECT pg_read_file(''x'')', true, true, '') AS age",
                 "SELECT set_config('transaction_read_only', 'off', false) AS age"):
        with pytest.raises(SourceError, match="holds to be volatile"):
            list(query(text).chunks(None, 10, 2**40))
    for text in ("COPY people TO '/tmp/people'", "SELECT 1 AS age; COMMIT; DELETE FROM people",
                 "SELECT age INTO x FROM people", "SELECT 1 AS age --\r; COMMIT; DELETE FROM people",
                 "EXPLAIN ANALYZE DELETE FROM people",
                 "EXPLAIN ANALYZE DELETE FROM people",
                 "WITH gone AS (DELETE FROM people RETURNING age) SELECT age FROM gone",
                 "DO $$ BEGIN DELETE FROM people; END $$"):
        with pytest.raises(SourceError, match="Write one SELECT"):
            list(query(text).chunks(None, 10, 2**40))
    assert len(read_columns(query("SELECT age, random() AS u FROM people"), None, 2**40)["age"].cells) == 60


def test_a_role_that_may_touch_files_of_the_server_is_refused(postgres, server, monkeypatch):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(f"host={server} port={PORT} user=owner dbname=postgres") as connection:
        connection.execute("CREATE ROLE filer LOGIN IN ROLE pg_read_server_files")
        connection.execute("GRANT SELECT ON people TO filer")
    for role in ("owner", "filer"):
        monkeypatch.setenv(ADDRESS, postgres.replace("reader@", f"{role}@"))
        with pytest.raises(SourceError, match=f"role '{role}' is a superuser, or may read and write files"):
            query().names()


def test_a_query_that_escapes_its_check_still_finds_a_session_that_only_reads(at_postgres, monkeypatch):
    from fedci.table import database

    monkeypatch.setattr(database, "check_select", lambda text: [])
    for text in ("SELECT 1 AS age; COMMIT; DELETE FROM people", "SELECT 1 AS age; ROLLBACK; DELETE FROM people"):
        with pytest.raises(SourceError):
            list(query(text).chunks(None, 10, 2**40))
    monkeypatch.undo()


def test_the_operator_is_shown_the_query_before_it_is_asked(at_sqlite, tmp_path, capsys, monkeypatch):
    shared = plan(source={"query": "SELECT *\n  FROM people"}, ids=[], linkage={})
    shared.write(tmp_path / "study.toml")
    monkeypatch.setattr(Query, "_rows", lambda *_: (_ for _ in ()).throw(SourceError("asked")))
    for words in (["check", str(tmp_path / "study.toml"), "sql:", "--site", "lyon"],
                  ["run", str(tmp_path / "study.toml"), "--site", "lyon=sql:", "--out", str(tmp_path / "out")]):
        with pytest.raises(SystemExit):
            commands.main(words)
        said = capsys.readouterr().err
        shown = "site 'lyon': the study's query, which the database is asked:\n    SELECT *\n      FROM people"
        assert said.index(shown) < said.index("error")


@pytest.mark.parametrize("text, said", [
    ("SELECT * FROM peple", "does not understand the query"),
    ("SELECT age FORM people WHERE", "does not understand the query"),
    ("SELECT person::integer / 0 AS age FROM people", "stopped at the query"),
    ("SELECT ('word' || person)::integer AS age FROM people", "stopped at the query"),
])
def test_what_is_wrong_with_a_query_is_told_without_a_cell(at_postgres, text, said):
    with pytest.raises(SourceError) as problem:
        list(query(text).chunks(None, 10, 2**40))
    assert said in str(problem.value)
    assert "00000" not in str(problem.value)  # the first person's id
    assert SECRET not in str(problem.value)


def test_a_password_in_the_address_is_refused_and_not_repeated(postgres, monkeypatch, capsys, tmp_path):
    for address in (postgres.replace("reader@", f"reader:{SECRET}@"), postgres + f"&password={SECRET}"):
        monkeypatch.setenv(ADDRESS, address)
        with pytest.raises(UsageError, match="holds a password") as problem:
            query().names()
        assert SECRET not in str(problem.value)
    study().write(tmp_path / "study.toml")
    place = f"sql:postgresql://me:{SECRET}@db/x"
    for words in (["check", str(tmp_path / "study.toml"), place],
                  ["run", str(tmp_path / "study.toml"), "--site", f"a={place}", "--out", "x"]):
        with pytest.raises(SystemExit) as left:
            commands.main(words)
        assert left.value.code == 2
        assert SECRET not in capsys.readouterr().err


def test_a_wrong_password_and_no_server_are_told_plainly(postgres, monkeypatch):
    monkeypatch.setenv(ADDRESS, postgres)
    monkeypatch.setenv(PASSWORD, "wrong-word")
    with pytest.raises(SourceError, match="no connection to") as problem:
        query().names()
    assert "wrong-word" not in str(problem.value)
    monkeypatch.setenv(ADDRESS, "postgresql://reader@/postgres?host=/nowhere")
    with pytest.raises(SourceError, match="no connection to"):
        query().names()


@pytest.mark.parametrize("address, said", [
    (None, "no database is named"), ("nonsense", "no address of a database"), ("mysql://host/db", "reads PostgreSQL"),
    ("sqlite:////nowhere/cohort.db", "no SQLite file"),
])
def test_an_address_that_cannot_be_used_is_told(address, said, monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    if address:
        monkeypatch.setenv(ADDRESS, address)
    with pytest.raises(FedciError, match=said):
        query().names()


def test_each_site_may_have_a_database_of_its_own(at_sqlite, tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / "other.db") as connection:
        people()[["age"]][:5].to_sql("people", connection, index=False)
    monkeypatch.setenv(f"{ADDRESS}_LA_PAZ", f"sqlite:///{tmp_path / 'other.db'}")
    assert query(site="la-paz").names() == ["age"]
    assert len(query(site="lyon").names()) == 10


def test_what_the_query_lacks_is_named_like_a_files(at_sqlite):
    with pytest.raises(DataError, match="'bmi' is missing"):
        Source("lyon", query("SELECT age, sex, w, y FROM people")).read(study())
    with pytest.raises(SizeError, match="header but no rows"):
        Source("lyon", query("SELECT age, bmi, sex, w, y FROM people WHERE age < 0")).read(study())
    with pytest.raises(SizeError, match="max_file_bytes"):
        Source("lyon", query()).read(study(policy={"name": "simulation", "max_file_bytes": 500}))


def test_the_studys_own_query_travels_with_it(at_sqlite, tmp_path, capsys):
    shared = plan(source={"query": "SELECT * FROM people"}, ids=[], linkage={})
    shared.write(tmp_path / "study.toml")
    assert Study.read(tmp_path / "study.toml") == shared
    assert shared.hash() != shared.model_copy(update={"source": None}).hash()
    with pytest.raises(SystemExit) as left:
        commands.main(["check", str(tmp_path / "study.toml"), "sql:", "--site", "lyon", "--json"])
    assert left.value.code == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 60
    with pytest.raises(UsageError, match="this study has none"):
        query_at("sql:", "lyon", None)
    with pytest.raises(FedciError, match="holds a query .or omop. and nothing else"):
        plan(source={"query": "SELECT 1", "url": "postgresql://db/x"})


def test_a_run_asks_once_and_fits_what_it_was_told(at_sqlite, tmp_path, capsys, monkeypatch):
    """A query may answer differently each time: the rows that were checked, that name the checkpoint and that are
    fitted are those of one answer."""
    study(options={"optimiser": {"rounds": 2}, "prediction": {"draws": 8}}).write(tmp_path / "study.toml")
    (tmp_path / "cohort.sql").write_text("SELECT age, bmi, sex, w, y + (random() % 1000) / 1e6 AS y FROM people")
    answers, marked, read, mark = [], [], Source.read, fitting._fingerprint
    monkeypatch.setattr(Source, "read", lambda source, plan: answers.append(read(source, plan)) or answers[-1])
    monkeypatch.setattr(fitting, "_fingerprint", lambda tables: marked.extend(tables) or mark(tables))
    with pytest.raises(SystemExit) as left:
        commands.main(["run", str(tmp_path / "study.toml"), "--site", f"lyon=sql:{tmp_path / 'cohort.sql'}", "--out",
                       str(tmp_path / "out"), "--quiet"])
    assert left.value.code == 0, capsys.readouterr().err
    assert marked == answers
    assert len(answers) == 1
    with np.load(tmp_path / "out" / "sites" / "lyon" / "rows.npz") as fitted:
        np.testing.assert_array_equal(fitted["y"], answers[0].y)


def test_init_and_check_from_a_query_file(at_sqlite, tmp_path, capsys):
    (tmp_path / "cohort.sql").write_text("SELECT age, bmi, sex, w AS treated, y AS outcome FROM people;\n")
    for words in (["init", f"sql:{tmp_path / 'cohort.sql'}", "--out", str(tmp_path / "study.toml")],
                  ["check", str(tmp_path / "study.toml"), f"sql:{tmp_path / 'cohort.sql'}", "--sites", "2"]):
        with pytest.raises(SystemExit) as left:
            commands.main(words)
        said = capsys.readouterr()
        assert left.value.code in (0, 3), said.err  # 3: two sites are too few for the standard policy
    assert "at least 3 sites" in said.err


def test_a_sites_place_is_the_same_from_another_folder(at_sqlite, tmp_path, monkeypatch):
    """`fedci site run --data sql:cohort.sql` hands its place to a process of the engine, which runs elsewhere."""
    (tmp_path / "cohort.sql").write_text("SELECT * FROM people")
    monkeypatch.chdir(tmp_path)
    place = absolute("sql:cohort.sql")
    monkeypatch.chdir("/")
    assert Source.at(plan(), "lyon", place).read(plan()).rows == 60
    assert absolute("sql:") == "sql:"
    assert absolute(Path("cohort.csv")) == "/cohort.csv"


def test_a_common_data_model_in_postgresql_gives_the_table_of_its_csv(at_postgres, server, tmp_path):
    psycopg = pytest.importorskip("psycopg")
    kinds = {"i": "bigint", "f": "double precision", "O": "text"}
    with psycopg.connect(f"host={server} port={PORT} user=owner dbname=postgres") as connection:
        connection.execute("CREATE SCHEMA cdm")
        for name, rows in omop.cdm(omop.people(3)).items():
            types = ", ".join(f"{column} {'date' if column.endswith('_date') else kinds[rows[column].dtype.kind]}"
                              for column in rows)
            connection.execute(f"CREATE TABLE cdm.{name} ({types})")
            marks = ", ".join(["%s"] * rows.shape[1])
            values = rows.astype(object).values.tolist()
            connection.cursor().executemany(f"INSERT INTO cdm.{name} VALUES ({marks})", values)
        connection.execute("GRANT USAGE ON SCHEMA cdm TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA cdm TO reader")
    plan = omop.STUDY.changed(source=SharedQuery(omop=omop.SPEC | {"cdm": "cdm"}))
    omop.people(3).to_csv(tmp_path / "lyon.csv", index=False)
    made, same = Source.at(plan, "lyon", "sql:").read(plan), Source("lyon", tmp_path / "lyon.csv").read(plan)
    for part in ("x", "w", "y"):
        np.testing.assert_array_equal(getattr(made, part), getattr(same, part))
    assert attrition(plan, Source.at(plan, "lyon", "sql:")).both == 1
