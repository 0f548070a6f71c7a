"""One SELECT that reads tables, and nothing else, whatever a query's text looks like."""

import sqlite3

import pytest

from fedci.errors import SourceError
from fedci.table.statement import check_select, check_shown, read_only


@pytest.mark.parametrize("text, functions", [
    ("SELECT 1", []),
    ("select a from t;\n", []),
    ("(SELECT 1) UNION ALL (SELECT 2)", ["all"]),
    ("WITH x(a) AS (SELECT 1), y AS MATERIALIZED (SELECT lower('B')) SELECT * FROM x, y",
     ["as", "lower", "materialized", "x"]),
    ("SELECT 'a;b', \"c;d\", $$;$$, $t$; it's $t$ -- ; DROP\n/* ; */ FROM t WHERE f (x) > 2.5e-3", ["f"]),
    ('SELECT x."Pg_Read" /* */ (\'a\'), PG_LS_DIR (\'.\')', ["Pg_Read", "pg_ls_dir"]),
    ("SELECT updated, e.deleted FROM e WHERE born::date > '1950-01-31' AND b <> 'it''s'", []),
])
def test_a_select_passes_and_its_functions_are_named(text, functions):
    assert check_select(text) == sorted(functions)


@pytest.mark.parametrize("text", [
    "", ";", "VACUUM INTO 'x'", "ATTACH 'x' AS y", "PRAGMA user_version = 1", "EXPLAIN SELECT 1", "COPY t TO '/tmp/x'",
    "DO $$ BEGIN END $$", "TABLE t", "VALUES (1)", "SET x = 1", "CALL f()", "SELECT 1; DELETE FROM t",
    "SELECT 1 INTO t", "WITH x AS (DELETE FROM t RETURNING 1) SELECT * FROM x", "WITH x AS (SELECT 1) DELETE FROM t",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT 1",
])
def test_anything_else_is_refused(text):
    with pytest.raises(SourceError, match="Write one SELECT"):
        check_select(text)


@pytest.mark.parametrize("text", [
    r"SELECT E'\'; DELETE FROM t; --'", r"SELECT U&'\0027'", 'SELECT U&"d\\0061"', "SELECT /* /* */ ; DELETE */ 1",
    "SELECT 'abc", 'SELECT "abc', "SELECT $$ abc", "SELECT 1a$x$ ; DELETE FROM t; $x$", "SELECT $1",
    "SELECT 1 /* abc",
])
def test_a_text_that_could_be_read_in_two_ways_is_refused(text):
    with pytest.raises(SourceError, match="cannot be read with certainty"):
        check_select(text)


@pytest.mark.parametrize("text", ["SELECT 1 --\r; DELETE FROM t", "SELECT 1 AS €$x$ ; DELETE FROM t; --$x$"])
def test_what_postgresql_reads_as_two_statements_is_two(text):
    """A comment ends at a carriage return as well; any sign beyond ASCII is part of a name."""
    with pytest.raises(SourceError, match="not one SELECT"):
        check_select(text)


@pytest.mark.parametrize("hidden", ["\x1b[31m", "\u202e", "\x00", "\u200b", "\u2028", "\x7f"])
def test_what_no_screen_shows_is_refused(hidden):
    with pytest.raises(SourceError, match="no screen shows"):
        check_shown(f"SELECT 1 -- {hidden}")
    check_shown("SELECT 1 -- Größe\n\t, 2")


FORBIDDEN = [
    "ATTACH '{other}' AS o", "VACUUM INTO '{other}'", "VACUUM", "PRAGMA user_version = 7", "PRAGMA table_info(t)",
    "SELECT * FROM pragma_table_info('t')", "CREATE TABLE n (a)", "CREATE TEMP TABLE n (a)", "INSERT INTO t VALUES (1)",
    "UPDATE t SET a = 1", "DELETE FROM t", "DROP TABLE t", "ANALYZE", "BEGIN", "SAVEPOINT s",
    "SELECT load_extension('{other}')", "SELECT fts3_tokenizer('simple')", "DETACH main",
    "CREATE VIRTUAL TABLE n USING fts5(a)", "ALTER TABLE t RENAME TO u"]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_the_authorizer_lets_sqlite_compile_nothing_but_reading(tmp_path, text):
    """Even of a file that could be written."""
    with sqlite3.connect(tmp_path / "own.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    before = (tmp_path / "own.db").read_bytes()
    guarded = read_only(sqlite3.connect(tmp_path / "own.db"))
    with pytest.raises(sqlite3.DatabaseError):
        guarded.execute(text.format(other=tmp_path / "other.db")).fetchall()
    guarded.close()
    assert [path.name for path in tmp_path.iterdir()] == ["own.db"]
    assert (tmp_path / "own.db").read_bytes() == before


def test_the_authorizer_lets_reading_pass_and_no_cell_take_all_memory():
    guarded = read_only(sqlite3.connect(":memory:"))
    text = ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) "
            "SELECT sum(i), upper('a') FROM n")
    assert guarded.execute(text).fetchall() == [(15, "A")]
    with pytest.raises(sqlite3.DataError, match="too big"):
        guarded.execute("SELECT zeroblob(1000000000)").fetchall()
