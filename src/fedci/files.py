"""Where results go: whether a folder may be written to, and files that only their owner can read, or that are whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fedci.errors import OutputError

LOG_BYTES = 4 * 2**20
"""Of a log, after which it is turned over."""
UNFINISHED = ".new-"
"""How the names begin of what a crash cut short: it is nobody's result."""


def check_folder(folder: str | Path, force: bool) -> Path:
    """The folder a result may be written to (absent, empty, or with `force` an earlier result); nothing is made yet.

    Asked before a fit as well as after it, so that no hours are spent on a result that has no place.
    """
    path = Path(folder)
    try:
        _check(path, force)
    except (OSError, ValueError):
        raise OutputError(f"the folder '{path}' cannot be reached: choose another with --out") from None
    return path


def _check(path: Path, force: bool) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise OutputError(f"'{path}' is a file or a link, needs a folder: choose another with --out")
    if path.is_dir() and any(not inside.name.startswith(UNFINISHED) for inside in path.iterdir()) and not force:
        raise OutputError(f"the folder '{path}' is not empty: choose another with --out, or replace the result in it "
                          f"with --force")
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        raise OutputError(f"'{path}': '{existing}' is no folder that can be written to; choose another with --out")


def private_file(path: Path, mode: str) -> IO[Any]:
    """A file opened for writing that only its owner can read, from its first byte on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(handle, mode) if "b" in mode else os.fdopen(handle, mode, newline="", encoding="utf-8")


def rotate(path: Path, most: int = LOG_BYTES, kept: int = 3) -> None:
    """A log that has grown beyond so many bytes becomes LOG.1, that one LOG.2, and so on; whoever has it open for
    appending goes on with the empty one. What cannot be moved stays: a log is no reason to stop."""
    try:
        if path.stat().st_size <= most:
            return
        for number in range(kept - 1, 0, -1):
            older = path.with_name(f"{path.name}.{number}")
            if older.exists():
                os.replace(older, path.with_name(f"{path.name}.{number + 1}"))
        copy = path.with_name(f"{path.name}.1")
        with path.open("rb") as old, private_file(copy, "wb") as new:
            shutil.copyfileobj(old, new)
        os.truncate(path, 0)
    except OSError:
        return


def plain_cell(text: str) -> str:
    """A cell of someone's table as it may stand in a CSV of ours: what a spreadsheet would run as a formula gets an
    apostrophe before it, with which spreadsheets show it as text. Numbers stay."""
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def write_new(path: Path, text: str, force: bool) -> None:
    """A text file for a person to edit; an earlier one stands unless `force`."""
    if path.exists() and not force:
        raise OutputError(f"'{path}' is there already: choose another --out, or replace it with --force")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise OutputError(f"'{path}' cannot be written: {(problem.strerror or '').lower()}") from None


def make_folder(path: Path) -> None:
    """A private one, where there is none."""
    try:
        path.mkdir(parents=True, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise OutputError(f"the folder '{path}' cannot be made: {(problem.strerror or '').lower()}") from None


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A private file that takes its place when all of it is on disk; until then, and after an error, the earlier one
    stands."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # a crash left it
    try:
        with private_file(new, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """A new name is on disk once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
