"""A site's table from a query on its own database: PostgreSQL, DuckDB or SQLite, read-only, in chunks (extra `sql`).

    sql:cohort.sql    the query in a file at the site         FEDCI_DATABASE_URL        where the database is
    sql:              the study's query ([source] query)      FEDCI_DATABASE_PASSWORD   its password, if it needs one

Both variables may carry the site's name (FEDCI_DATABASE_URL_LYON). An address that holds a password is refused: an
address ends up in logs and lists of processes. Cells become what a CSV export of the same query would hold, so that
every later check and message is the same. The database's own words are shown only where they cannot quote a cell.
A query may be another's (the study's author's): it can only read tables (`statement`), and the operator is shown it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fedci.errors import SizeError, SourceError, UsageError
from fedci.table.columns import ANY_SIZE, check_cells, check_header, trimmed
from fedci.table.statement import POSTGRES_SETTINGS, REMEDY, check_postgres, check_select, check_shown, read_only
from fedci.table.values import Column, count, told_of

if TYPE_CHECKING:
    import sqlite3

    import duckdb
    import sqlalchemy

SCHEME = "sql:"
ADDRESS, PASSWORD = "FEDCI_DATABASE_URL", "FEDCI_DATABASE_PASSWORD"
MAX_QUERY_BYTES = 2**20
CONNECT_SECONDS = 10
CELL_BYTES = 16
"""What a number is taken to weigh against the policy's `max_file_bytes`."""
EXAMPLES = "postgresql://reader@db.hospital.org/cohort or sqlite:////data/cohort.db"
SHARED_QUERY = "the study's query"
SHOWN = "42"
"""SQLSTATE class whose messages name tables, columns and words of the query, and never a cell."""
HIDING = {"query", "query_table", "json_execute_serialized_sql"}
"""Functions of DuckDB that make a query of a text."""
ALONE: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
"""Settings of DuckDB: no code from elsewhere."""
CLOSED: dict[str, Any] = ALONE | {"enable_external_access": "false"}
READERS = {".csv": "read_csv", ".parquet": "read_parquet"}
SQLITE_SHOWN = re.compile("no such (table|column)|ambiguous column|near |incomplete input|You can only execute one")


@dataclass(frozen=True)
class Query:
    """A query and the site whose database it is for. No address and no password: they are looked up when asked."""

    text: str
    site: str
    place: str
    """Where the query stands, for messages."""

    def __repr__(self) -> str:
        return f"Query of site '{self.site}': {self.place}, {count(len(self.text.splitlines()), 'line')}"

    def shown(self) -> str:
        """What the operator reads before the database is asked."""
        check_shown(self.text)
        return f"{self.place}, which the database is asked:\n" + "\n".join(
            f"    {line.expandtabs()}" for line in self.text.splitlines() if line.strip())

    def names(self) -> list[str]:
        with self._rows(1) as (names, _):
            return names

    def chunks(self, wanted: Sequence[str] | None, rows: int, max_bytes: int) -> Iterator[dict[str, Column]]:
        """The wanted columns, so many rows at a time; a query without rows gives one empty chunk."""
        with self._rows(rows) as (names, parts):
            wanted = check_header(names, wanted)
            places = [names.index(name) for name in wanted]
            seen, count, empty = 0, 0, True
            for part in parts:
                count += len(part)
                if max_bytes < ANY_SIZE:  # read whole
                    check_cells(count, len(wanted))
                chunk = {name: Column(name, _cells([row[k] for row in part]))
                         for name, k in zip(wanted, places, strict=True)}
                seen += sum(_weight(column.cells) for column in chunk.values())
                if seen > max_bytes:
                    raise SizeError(f"{self.place}: the query gives more than policy.max_file_bytes = {max_bytes}. "
                                    "Select only the study's columns and people, or agree on more")
                yield chunk
                empty = False
            if empty:
                yield {name: Column(name, _cells([])) for name in wanted}

    @contextmanager
    def _rows(self, rows: int) -> Iterator[tuple[list[str], Iterator[Sequence[Any]]]]:
        """(names of the columns, chunks of rows) in one read-only transaction that is always rolled back."""
        import sqlalchemy
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        if kind_at(self.site) == "duckdb":
            with told_of(self.place), _duckdb(_address(self.site)[1].database, self.text, rows) as found:
                yield found
            return
        engine = _engine(self.site)
        with told_of(self.place):
            functions = check_select(self.text)
            try:
                with engine.connect().execution_options(**_options(engine, rows)) as connection:
                    if engine.dialect.name == "postgresql":
                        check_postgres(connection, functions)
                    cursor = connection.exec_driver_sql(self.text, execution_options={"no_parameters": True})
                    if not cursor.returns_rows:
                        raise SourceError(f"the query gives no rows. {REMEDY}")
                    yield trimmed(list(cursor.keys())), cursor.partitions(rows)
                    connection.rollback()
            except DBAPIError as problem:
                raise SourceError(_reason(engine, problem)) from None
            except SQLAlchemyError as problem:
                raise SourceError(f"the database could not be read ({type(problem).__name__})") from None
            except sqlalchemy.exc.NoSuchModuleError:
                raise SourceError("this kind of database is not known") from None
            finally:
                engine.dispose()


def query_at(text: str, site: str, shared: str | Callable[[], str | None] | None) -> Query:
    """From `sql:FILE`, or from `sql:` alone and the study's own query (or what makes it, where it is needed)."""
    _check_extra()
    path = text.removeprefix(SCHEME)
    if re.match(r"[a-z+]+://", path):
        raise UsageError(f"--site or --data {SCHEME}…: give the file that holds the query; the database's address "
                         f"stands in the variable {ADDRESS}, such as {EXAMPLES}")
    if path:
        return Query(_query_file(Path(path)), site, f"query {path}")
    query = shared() if callable(shared) else shared
    if query is None:
        raise UsageError(f"{SCHEME} alone takes the study's query, and this study has none: write {SCHEME}FILE, or "
                         "[source] query in the study")
    return Query(query, site, SHARED_QUERY)


def kind_at(site: str) -> str:
    """Which kind of database the site has."""
    return str(_address(site)[1].get_backend_name())


def _check_extra() -> None:
    from importlib.util import find_spec

    if find_spec("sqlalchemy") is None:
        raise UsageError("a query needs SQLAlchemy: run `pip install 'fedci[sql]'`")


def _query_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_QUERY_BYTES + 1)
        if not data.strip() or len(data) > MAX_QUERY_BYTES:
            raise SourceError(f"query {path}: the file is {'empty' if not data.strip() else 'too large for a query'}")
        return data.decode("utf-8-sig").strip().rstrip(";")
    except UnicodeDecodeError:
        raise SourceError(f"query {path} is not UTF-8 text. Save it again as UTF-8") from None
    except OSError as problem:
        raise SourceError(f"query {path} cannot be read: {(problem.strerror or '').lower()}. Check the path") from None


# ── the connection ──────────────────────────────────────────────────────────────────────────────────────────


def _variable(name: str, site: str) -> tuple[str, str | None]:
    """(the variable that is set, its value): the site's own before the common one."""
    own = f"{name}_{site.upper().replace('-', '_')}"
    return (own, os.environ[own]) if os.environ.get(own) else (name, os.environ.get(name) or None)


def _address(site: str) -> tuple[str, sqlalchemy.URL]:
    """(the variable, the address in it), without a password."""
    import sqlalchemy

    variable, value = _variable(ADDRESS, site)
    if value is None:
        raise UsageError(f"no database is named: set {ADDRESS} (or {ADDRESS}_{site.upper().replace('-', '_')}), such "
                         f"as {EXAMPLES}")
    try:
        url = sqlalchemy.make_url(value)
    except (sqlalchemy.exc.ArgumentError, ValueError):  # its own words repeat the address
        raise UsageError(f"{variable} is no address of a database, such as {EXAMPLES}") from None
    if url.password is not None or any("pass" in key.lower() for key in url.query):
        raise UsageError(f"{variable} holds a password. Take it out, and set {PASSWORD} instead (PostgreSQL's own "
                         "~/.pgpass and PGPASSWORD work too)")
    return variable, url


def _engine(site: str) -> sqlalchemy.Engine:
    variable, url = _address(site)
    return _made(url, variable, _variable(PASSWORD, site)[1])


def _made(url: sqlalchemy.URL, variable: str, password: str | None) -> sqlalchemy.Engine:
    import sqlalchemy
    from sqlalchemy.pool import NullPool

    kind = url.get_backend_name()
    if kind == "sqlite":
        return sqlalchemy.create_engine("sqlite://", creator=lambda: _sqlite(url.database), poolclass=NullPool)
    if kind == "postgresql":
        _check_driver()
        url = url.set(drivername="postgresql+psycopg")
        url = url if password is None else url.set(password=password)
        settings = " ".join([*map(str, [url.query.get("options", "")]), POSTGRES_SETTINGS]).strip()
        return sqlalchemy.create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args={
            "connect_timeout": CONNECT_SECONDS, "options": settings})
    raise UsageError(f"{variable} names a database of the kind {kind!r}; fedci reads PostgreSQL, DuckDB and SQLite, "
                     "where it can make sure that nothing is written. Export the table as CSV or Parquet instead")


def _check_driver() -> None:
    from importlib.util import find_spec

    if find_spec("psycopg") is None:
        raise UsageError("PostgreSQL needs psycopg: run `pip install 'fedci[sql]'`")


def _sqlite(database: str | None) -> sqlite3.Connection:
    """A connection that cannot write, to a file that must be there."""
    import sqlite3
    from urllib.parse import quote

    if not database or database == ":memory:" or not Path(database).is_file():
        raise SourceError(f"there is no SQLite file {database!r}. Write sqlite:////absolute/path.db")
    return read_only(sqlite3.connect(f"file:{quote(str(Path(database).resolve()))}?mode=ro", uri=True))


@contextmanager
def _duckdb(database: str | None, text: str, rows: int) -> Iterator[tuple[list[str], Iterator[Sequence[Any]]]]:
    """A file of DuckDB, or a CSV or Parquet file as its table `data`, opened to be read: the query reaches no other
    file, no network and no setting."""
    from importlib.util import find_spec

    if find_spec("duckdb") is None:
        raise UsageError("DuckDB needs its package: run `pip install 'fedci[sql]'`")
    import duckdb

    if not database or not Path(database).is_file():
        raise SourceError(f"there is no DuckDB file {database!r}. Write duckdb:////absolute/path.duckdb, or the path "
                          f"of a .csv or .parquet file, which the query sees as the table data")
    if hidden := sorted(HIDING.intersection(map(str.lower, check_select(text)))):
        raise SourceError(f"the query calls {hidden[0]}, which runs a query of its own that nobody is shown. {REMEDY}")
    reader = READERS.get(Path(database).suffix.lower())
    connection = (duckdb.connect(database, read_only=True, config=CLOSED | {"lock_configuration": "true"})
                  if reader is None else duckdb.connect(":memory:", config=ALONE))
    try:
        if reader is not None:
            _see(connection, reader, Path(database).resolve())
        cursor = connection.execute(text)
        yield [part[0] for part in cursor.description or ()], iter(lambda: cursor.fetchmany(rows), [])
    except (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException) as problem:
        raise SourceError(f"the database does not understand the query: {str(problem).splitlines()[0]}. Correct it"
                          ) from None
    except duckdb.PermissionException:
        raise SourceError(f"the query would do more than read tables. {REMEDY}") from None
    except duckdb.Error as problem:
        raise SourceError(f"the database stopped at the query ({type(problem).__name__})") from None
    finally:
        connection.close()


def _see(connection: duckdb.DuckDBPyConnection, reader: str, path: Path) -> None:
    """The file as the table `data`; from then on nothing else can be opened, and no setting changed."""
    named = "'" + str(path).replace("'", "''") + "'"
    connection.execute(f"SET allowed_paths = [{named}]")
    connection.execute("SET enable_external_access = false")
    connection.execute(f"CREATE VIEW data AS SELECT * FROM {reader}({named})")
    connection.execute("SET lock_configuration = true")


def _options(engine: sqlalchemy.Engine, rows: int) -> dict[str, Any]:
    streaming = {"stream_results": True, "max_row_buffer": rows}
    return streaming | ({"postgresql_readonly": True} if engine.dialect.name == "postgresql" else {})


def _reason(engine: sqlalchemy.Engine, problem: sqlalchemy.exc.DBAPIError) -> str:
    """Why the database did not answer. Its own words only where they cannot hold a cell or a secret."""
    state, words = getattr(problem.orig, "sqlstate", None), " ".join(str(problem.orig).split())
    if state is None and engine.dialect.name == "postgresql":
        url = engine.url
        return (f"no connection to {url.host or 'the local server'}, database {url.database!r}, as "
                f"{url.username or 'the default user'!r}. Is the address right, the server there, and {PASSWORD} set?")
    if state == "25006" or "readonly database" in words or words.startswith("not authorized"):
        return f"the query would do more than read tables. {REMEDY}"
    if (state or "").startswith(SHOWN) or SQLITE_SHOWN.match(words):
        primary = getattr(getattr(problem.orig, "diag", None), "message_primary", None) or words
        return f"the database does not understand the query: {primary}. Correct it"
    return f"the database stopped at the query ({type(problem.orig).__name__}{f', {state}' if state else ''})"


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────────


def _cells(values: Sequence[Any]) -> pa.ChunkedArray:
    """Whole and floating-point numbers as they are; everything else as the text that a CSV export would hold."""
    known = [value for value in values if value is not None]
    if known and all(type(value) is float for value in known):
        return pa.chunked_array([pa.array(values, pa.float64())])
    if known and all(type(value) is int and -(2**63) <= value < 2**63 for value in known):
        return pa.chunked_array([pa.array(values, pa.int64())])
    return pa.chunked_array([pa.array([_text(value) for value in values], pa.large_string())])


def _text(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case Decimal():
            return format(value, "f") if value.is_finite() else str(value)
        case datetime():
            return str(value)
        case bytes() | memoryview():
            return "\\x" + bytes(value).hex()
        case _:
            return str(value)


def _weight(cells: pa.ChunkedArray) -> int:
    return cells.nbytes if pa.types.is_large_string(cells.type) else CELL_BYTES * len(cells)
