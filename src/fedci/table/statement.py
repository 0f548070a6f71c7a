"""What may be asked of a site's database: one SELECT that reads tables, whoever wrote it.

SQLite       an authorizer that SQLite asks about every part of the statement while it is compiled: reading, and
             functions but those that reach files. No ATTACH, no VACUUM INTO, no PRAGMA, no writing, whatever the text
             looks like.
PostgreSQL   the text must be one SELECT (or WITH … SELECT), in a read-only transaction; no function is called that the
             server itself holds to be volatile (such may read or write files of the server, run a query of their own,
             or reach another server); and the role must not be one that may touch files of the server.

The operator sees the text before it is asked, so it must be all printable.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from fedci.errors import SourceError

if TYPE_CHECKING:
    import sqlalchemy

REMEDY = "Write one SELECT that reads tables"
WRITING = {"insert", "update", "delete", "merge", "replace"}
VERBS = WRITING | {"select", "values", "table"}
_TOKEN = re.compile(r"""
    (?P<skip>    [\ \t\r\n]+ | --[^\r\n]* | /\*(?:(?!\*/|/\*).)*\*/ )
  | (?P<refused> /\* | [eE]' | [uU]&['"] )
  | (?P<text>    '(?:[^']|'')*'
               | \$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?)\$.*?\$(?P=tag)\$ )
  | (?P<quoted>  "(?:[^"]|"")*" )
  | (?P<word>    [A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]* )
  | (?P<number>  [0-9][0-9.]*(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_$\x80-\U0010ffff]) )
  | (?P<sign>    [^'"$0-9] )
""", re.VERBOSE | re.DOTALL)
"""As PostgreSQL's own scanner divides a text; what fits none is refused."""

# ── the text ────────────────────────────────────────────────────────────────────────────────────────────────


def check_shown(text: str) -> None:
    """What an operator reads on the screen is what the database is asked."""
    if not all(letter.isprintable() or letter in "\t\r\n" for letter in text):
        raise SourceError("the query holds characters that no screen shows (control or bidirectional ones). "
                          "Remove them")


def check_select(text: str) -> list[str]:
    """The functions that a PostgreSQL query names; SourceError where it is not one SELECT.

    E'…' and U&'…' are refused, and comments within comments: where these end is a matter of settings, and a text that
    is read differently here and there could hide a second statement.
    """
    check_shown(text)
    tokens = list(_tokens(text))
    while tokens and tokens[-1] == ";":
        tokens.pop()
    words = [token.lower() for token in tokens]
    verb = next((word for word in words if word != "("), "")
    if ";" in words or verb not in ("select", "with"):
        raise SourceError(f"the query is not one SELECT. {REMEDY}")
    if verb == "with" and _main_verb(words) != "select":
        raise SourceError(f"the query's WITH does not end in a SELECT. {REMEDY}")
    if "into" in words or any(before == "(" and word in WRITING for before, word in pairwise(words)):
        raise SourceError(f"the query would write. {REMEDY}")
    return sorted({_name(token) for token, after in pairwise(tokens)
                   if after == "(" and (token[0] == '"' or token[0].isalpha() or token[0] == "_")})


def _tokens(text: str) -> Iterator[str]:
    """Words, quoted names, signs; a text or a number is one token whose content does not matter."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup == "refused":
            raise SourceError("the query cannot be read with certainty: a quotation mark or comment that does not "
                              "close, E'…', U&'…', or a comment within a comment. Write it without")
        if match["skip"] is None:
            yield "''" if match["text"] is not None else match[0]
        at = match.end()


def _main_verb(words: list[str]) -> str:
    """Of WITH …: the first verb outside all parentheses."""
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in VERBS:
            return word
    return ""


def _name(token: str) -> str:
    """As PostgreSQL knows it."""
    return token[1:-1].replace('""', '"') if token[0] == '"' else token.lower()


# ── SQLite ──────────────────────────────────────────────────────────────────────────────────────────────────

READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
REACHING = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "fsdir", "zipfile"}
"""Functions of SQLite and of its shell that reach beyond the database."""
LONGEST_CELL = 2**24
"""Bytes of one cell, or of a cell's making: `zeroblob(1e9)` takes no memory."""


def read_only(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, which from now on compiles statements that read and no others."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_CELL)
    connection.set_authorizer(_allowed)
    return connection


def _allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        fine = (second or "").lower() not in REACHING
    elif action == sqlite3.SQLITE_PRAGMA:  # SQLAlchemy asks for this one when it connects
        fine = (first, second) == ("read_uncommitted", None)
    else:
        fine = action in READING
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


# ── PostgreSQL ──────────────────────────────────────────────────────────────────────────────────────────────

POSTGRES_SETTINGS = "-c default_transaction_read_only=on -c standard_conforming_strings=on"
HARMLESS = ("random", "clock_timestamp", "timeofday", "gen_random_uuid")
"""Volatile only in that they answer differently each time."""
FILE_ROLES = ("pg_read_server_files", "pg_write_server_files", "pg_execute_server_program")
_ROLE = f"""SELECT current_user, (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) OR EXISTS (
    SELECT FROM pg_catalog.pg_roles
    WHERE rolname IN {FILE_ROLES} AND pg_catalog.pg_has_role(current_user, oid, 'MEMBER'))"""
_VOLATILE = """SELECT DISTINCT proname::text FROM pg_catalog.pg_proc
    WHERE proname = ANY(%s) AND provolatile = 'v' AND proname <> ALL(%s) ORDER BY 1"""


def check_postgres(connection: sqlalchemy.Connection, functions: list[str]) -> None:
    """The role, and the functions that the query names, by the server's own catalogue."""
    role, powerful = connection.exec_driver_sql(_ROLE).one()
    if powerful:
        raise SourceError(f"the role {role!r} is a superuser, or may read and write files of the server. Make a role "
                          f"that may only read the study's tables (docs/study.md), and name it in the address")
    volatile = connection.exec_driver_sql(_VOLATILE, (functions, list(HARMLESS))).scalars().all() if functions else []
    if volatile:
        raise SourceError(f"the query calls {', '.join(volatile)}, which PostgreSQL holds to be volatile: such "
                          f"functions may do more than read tables. Leave it out; a function of your own that only "
                          f"reads, declare STABLE")
