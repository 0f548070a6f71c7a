"""A result's folder replaced whole or not at all, and bound by digests: a mixture of two results cannot be loaded.

    FOLDER/.new-…    a result that is being written; a crash leaves it, and the next save removes it
    FOLDER/.next     a whole one, all of it on disk: from its rename to this name on it *is* the result, and its files
                     are moved to their places, result.json last; whoever reads or saves next ends what a crash began

result.json has "files", the SHA-256 of every other file of the result, and "digest", that of its own facts. Digests say
that the files are those that were saved together; they are no signature.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedci.bounded import json_file
from fedci.errors import OutputError
from fedci.files import UNFINISHED, sync_folder

NEXT = ".next"
HEAD = "result.json"
SITES = "sites"
NAMES = ("arrays.npz", "effects.csv", "arms.csv", "risks.csv", "rates.csv", "survival.csv", "subgroups.csv",
         "contrasts.csv", "decisions.csv", "trace.csv", "diagnostics.json", SITES,
         HEAD)
"""What a result's folder may hold of the result, in the order in which it takes its place; all else in it is its
owner's."""
FILES, DIGEST = "files", "digest"
BLOCK = 2**20


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """An empty folder to write a result to. It becomes the result of `folder` when the block ends well."""
    folder.mkdir(parents=True, exist_ok=True)
    settle(folder)
    for left in folder.glob(f"{UNFINISHED}*"):
        shutil.rmtree(left)
    new = Path(tempfile.mkdtemp(dir=folder, prefix=UNFINISHED))
    try:
        yield new
        _sync_all(new)
        os.rename(new, folder / NEXT)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    sync_folder(folder)
    settle(folder)


def settle(folder: Path) -> None:
    """Ends a replacement that was begun. OSError where the folder cannot be written; `place` finds its files all the
    same."""
    if (folder / NEXT).is_dir():
        with _locked(folder, fcntl.LOCK_EX):
            _move(folder / NEXT, folder)


def _move(ready: Path, folder: Path) -> None:
    if (ready / HEAD).exists():
        names = {name.partition("/")[0] for name in json_file(ready / HEAD)[FILES]} | {HEAD}
        for name in NAMES:
            if (ready / name).exists():  # one that is not there has taken its place before
                _remove_folder(folder / name)
                os.replace(ready / name, folder / name)
            elif name not in names:  # of the earlier result
                _remove_folder(folder / name)
                (folder / name).unlink(missing_ok=True)
        sync_folder(folder)
    shutil.rmtree(ready, ignore_errors=True)


def _remove_folder(old: Path) -> None:
    if old.is_dir() and not old.is_symlink():
        shutil.rmtree(old)


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Nothing takes its place in the folder while the block reads it."""
    with suppress(OSError):  # a folder that cannot be written: its files are read where they stand
        settle(folder)
    with _locked(folder, fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """One saves, or others read. A folder that is not there has nothing to lock; some file systems have no locks."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


def place(folder: Path, name: str) -> Path:
    """Where a file of the folder's result stands: on the way, if its replacement has not come to an end."""
    ready = folder / NEXT / name
    return ready if ready.exists() else folder / name


def holds_result(folder: Path) -> bool:
    return place(folder, HEAD).exists()


def sealed(facts: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The facts with the digests of all files that stand in the folder, and their own."""
    files = {path.relative_to(folder).as_posix(): _digest(path)
             for path in sorted(folder.rglob("*")) if path.is_file()}
    whole = {**facts, FILES: files}
    return {**whole, DIGEST: _own_digest(whole)}


def verify(folder: Path, facts: Mapping[str, Any]) -> None:
    """OutputError names the first file that is not the one saved with the others. What a site owns may have been taken
    away, and results of before digests have none."""
    if FILES not in facts and DIGEST not in facts:
        return
    if facts.get(DIGEST) != _own_digest({name: value for name, value in facts.items() if name != DIGEST}):
        raise _altered(folder, HEAD)
    known = {*NAMES, *(f"{SITES}/{site}/{name}" for site in facts["sites"] for name in ("rows.npz", "people.csv"))}
    for name, digest in facts[FILES].items():
        path = place(folder, name)
        if name not in known or ".." in Path(name).parts:
            raise _altered(folder, name)
        if path.is_file():
            if _digest(path) != digest:
                raise _altered(folder, name)
        elif not name.startswith(f"{SITES}/"):
            raise OutputError(f"the result in '{folder}' lacks its file '{name}': take the folder from a copy of it, "
                              f"or run the study again")


def verified(folder: Path, name: str) -> Path:
    """Where one file of a result stands, after it was held against its digest; for who reads that file alone."""
    with reading(folder):
        path = place(folder, name)
        try:
            digest = json_file(place(folder, HEAD)).get(FILES, {}).get(name)
        except (OSError, ValueError, AttributeError):  # no result: who reads the file says what it lacks
            return path
    if digest is not None and path.is_file() and _digest(path) != digest:
        raise _altered(folder, name)
    return path


def _altered(folder: Path, name: str) -> OutputError:
    return OutputError(f"the result in '{folder}': its file '{name}' is not the one that was saved with the others "
                       f"(its SHA-256 differs): it was altered, or comes from another result. Take the folder from a "
                       f"copy, or run the study again")


def _own_digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(BLOCK), b""):
            digest.update(part)
    return digest.hexdigest()


def _sync_all(folder: Path) -> None:
    """Every byte and name below the folder is on disk."""
    for at, _, names in os.walk(folder):
        for name in names:
            _sync_file(Path(at) / name)
        sync_folder(Path(at))


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
