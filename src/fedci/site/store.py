"""The store of a site's accountant: one private file that is only ever added to, each line bound to the one before.

    accountant.jsonl   lines "HASH JSON", HASH = SHA-256(hash of the line before, JSON); the first holds the secret
    accountant.head    {count, hash} after the last line that had to be kept: a store cut at its end disagrees with it
    accountant.lock    held while a line is decided and written: two kits of a site may run at once
    accountant.N.aside what stood here before a restore or a new beginning; nothing is ever deleted

A line that decides anything is on disk, and so is the head, before what it allows leaves. Counts of numbers are added
without waiting for the disk: a crash may lose the last of them and no more.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fedci.errors import OutputError
from fedci.files import sync_folder, whole_file

FILE, HEAD, LOCK = "accountant.jsonl", "accountant.head", "accountant.lock"
FORMAT = 1
PLACE = "FEDCI_SITE_STORE"
"""The environment's word for the folder."""
LOCK_SECONDS = 60.0
GENESIS = "0" * 64
HASH = len(GENESIS)
Line = dict[str, Any]


class Head(NamedTuple):
    lines: int
    hash: str


def place(folder: str | Path | None = None) -> Path:
    """Where the store of this site stands: as said, as the environment says, or the user's own data folder. It does not
    hang on the site's name: that is the coordinator's choice, with every kit anew."""
    if folder or os.environ.get(PLACE):
        return Path(folder or os.environ[PLACE]).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data).expanduser().absolute() / "fedci" / "site"


def exists(folder: Path) -> bool:
    """Whether there is a store, or was: its lock outlives a file that somebody deletes."""
    return any((folder / name).exists() for name in (FILE, HEAD, LOCK))


def create(folder: Path, reason: str = "") -> None:
    """A new store with a secret of its own; `reason`: why it takes the place of one that was lost. What stood here is
    set aside; without a reason it stays (another process was first)."""
    with _locked(folder):
        if not reason and (folder / FILE).exists():
            return
        _set_aside(folder)
        first = {"kind": "store", "format": FORMAT, "secret": secrets.token_hex(32), "time": now(), "reason": reason}
        _place(folder, _sealed(first, GENESIS)[0])


def backup(folder: Path, file: Path) -> int:
    """A copy of the whole store, verified; how many lines it has. An earlier file is replaced whole or not at all."""
    with _locked(folder, create=False):
        lines, _, data = _examined(folder)
        _write(file, data)
    return len(lines)


def restore(folder: Path, file: Path, reason: str = "") -> int:
    """The store from a backup, verified; how many lines it has. OutputError where the store here is whole and not a
    beginning of it: it would be forgotten. What stood here is set aside. `reason`: why a backup that is older than what
    was told must do, kept in the store."""
    lines, data = read_backup(file)
    with _locked(folder):
        if (here := _sound(folder)) is not None and not data.startswith(here):
            raise OutputError(f"the store in '{folder}' is whole, and holds what the backup '{file}' does not: nothing "
                              f"was changed. Keep the store as it is")
        _set_aside(folder)
        note = {"kind": "note", "time": now(), "reason": reason}
        _place(folder, data + (_sealed(note, lines[-1]["hash"])[0] if reason.strip() else b""))
    return len(lines)


def read_backup(file: Path) -> tuple[list[Line], bytes]:
    try:
        data = Path(file).read_bytes()
    except OSError as problem:
        raise OutputError(f"the backup '{file}' cannot be read: {problem.strerror}") from None
    lines, whole, reason = _parsed(data)
    if reason or whole != len(data):
        raise OutputError(f"the backup '{file}' is damaged at line {len(lines) + 1}"
                          f"{f': {reason}' if reason else ''}. Take another one")
    return lines, data


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


class Store:
    """The lines of a store, read as they come. `lines` are those read so far; `begin` and `add` come under the lock."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.lines: list[Line] = []
        self._size = 0
        self._inode = -1
        with self.locked():
            pass

    @property
    def secret(self) -> bytes:
        return bytes.fromhex(self.lines[0]["secret"])

    @property
    def since(self) -> str:
        """When an operator last said, with a reason, that what was told before is not known here; empty: never."""
        return max((line["time"] for line in self.lines if line["kind"] in ("store", "note") and line["reason"]),
                   default="")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """With all that other processes have added; OutputError where the store is gone or damaged."""
        with _locked(self.folder, create=False):
            self._refresh()
            yield

    def add(self, line: Mapping[str, Any], durable: bool = True) -> Line:
        """One line more; `durable`: on disk, with its head, when this returns."""
        data, entry = _sealed(line, self.lines[-1]["hash"])
        try:
            handle = os.open(self.folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            try:
                _write_all(handle, data)
                if durable:
                    os.fsync(handle)
            finally:
                os.close(handle)
            if durable:
                _write_head(self.folder, Head(len(self.lines) + 1, entry["hash"]))
        except OSError as problem:
            raise _unwritable(self.folder, problem) from None
        self.lines.append(entry)
        self._size += len(data)
        return entry

    def _refresh(self) -> None:
        try:
            status = os.stat(self.folder / FILE)
        except OSError:
            raise missing(self.folder) from None
        if status.st_ino == self._inode and status.st_size == self._size:
            return
        if self.lines and (status.st_ino != self._inode or status.st_size < self._size):
            raise damaged(self.folder, "it was replaced while the site ran. Start the site again")
        if self.lines:
            self._read_on()
            return
        lines, torn, data = _examined(self.folder)
        if torn:
            _cut(self.folder, len(data))
        self.lines, self._size, self._inode = lines, len(data), status.st_ino

    def _read_on(self) -> None:
        """What another process added."""
        with (self.folder / FILE).open("rb") as file:
            file.seek(self._size)
            data = file.read()
        lines, whole, reason = _parsed(data, self.lines[-1]["hash"])
        if reason:
            raise damaged(self.folder, f"line {len(self.lines) + len(lines) + 1}: {reason}")
        if whole < len(data):  # the other one died while it wrote
            _cut(self.folder, self._size + whole)
        self.lines += lines
        self._size += whole


# --- words


def missing(folder: Path) -> OutputError:
    return OutputError(f"the store of what this site has told is not in '{folder}'. {REMEDY}")


def damaged(folder: Path, reason: str) -> OutputError:
    return OutputError(f"the store of what this site has told, in '{folder}', is damaged: {reason}. {REMEDY}")


REMEDY = ("Nothing is sent without it: who was told of, and who may be told of next, stands there. If it stands "
          "elsewhere, name its folder with --store or FEDCI_SITE_STORE; else bring it back with `fedci site store "
          "restore BACKUP`. If there is no backup, `fedci site store new --reason \"…\"` begins anew, and the ledger "
          "says so: then nobody can see that a later study differs by few people from an earlier one")


# --- the file


def _parsed(data: bytes, previous: str = GENESIS) -> tuple[list[Line], int, str]:
    """(the sound lines from the start, how many bytes they take, what is wrong with the next; empty: it is none, or cut
    short)."""
    lines: list[Line] = []
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        line, reason = _line(data[at:end], previous, first=previous == GENESIS)
        if line is None:
            return lines, at, reason
        lines.append(line)
        previous, at = line["hash"], end + 1
    return lines, at, ""


def _line(data: bytes, previous: str, first: bool) -> tuple[Line | None, str]:
    written, body = data[:HASH], data[HASH + 1:]
    if data[HASH:HASH + 1] != b" " or written != _hash(previous, body).encode():
        return None, "the line was changed, or does not follow the one before it"
    try:
        line = json.loads(body)
    except (ValueError, RecursionError):
        return None, "the line cannot be read"
    if not isinstance(line, dict) or (line.get("kind") == "store") != first:
        return None, "the line is none of a store"
    if first and line.get("format") != FORMAT:
        return None, "it was written by another version of fedci"
    return line | {"hash": written.decode()}, ""


def _hash(previous: str, body: bytes) -> str:
    return hashlib.sha256(previous.encode() + body).hexdigest()


def _sealed(line: Mapping[str, Any], previous: str) -> tuple[bytes, Line]:
    body = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    digest = _hash(previous, body)
    return digest.encode() + b" " + body + b"\n", {**line, "hash": digest}


def _examined(folder: Path) -> tuple[list[Line], bytes, bytes]:
    """(the lines, what a crash left of another one, the bytes of the whole ones); OutputError where it is not whole."""
    try:
        data = (folder / FILE).read_bytes()
    except FileNotFoundError:
        raise missing(folder) from None
    except OSError as problem:
        raise OutputError(f"the store in '{folder}' cannot be read: {problem.strerror}") from None
    lines, whole, reason = _parsed(data)
    if reason or not lines:
        raise damaged(folder, f"line {len(lines) + 1}: {reason or 'it is not there'}")
    head = _read_head(folder)
    if head is None:
        raise damaged(folder, f"{HEAD} is missing or cannot be read")
    if head.lines > len(lines):
        raise damaged(folder, f"{head.lines} lines were written and it holds {len(lines)}")
    if head.lines < 1 or lines[head.lines - 1]["hash"] != head.hash:
        raise damaged(folder, f"{HEAD} knows another line {head.lines}")
    return lines, data[whole:], data[:whole]


def _sound(folder: Path) -> bytes | None:
    """The bytes of the store here, if there is one and it is whole."""
    with contextlib.suppress(OutputError):
        return _examined(folder)[2]
    return None


def _read_head(folder: Path) -> Head | None:
    try:
        written = json.loads((folder / HEAD).read_bytes())
        head = Head(written["count"], written["hash"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return head if type(head.lines) is int and isinstance(head.hash, str) else None


def _write_head(folder: Path, head: Head) -> None:
    with whole_file(folder / HEAD) as file:
        file.write(json.dumps({"count": head.lines, "hash": head.hash}).encode() + b"\n")


def _place(folder: Path, data: bytes) -> None:
    """The file and its head; a crash between the two shows as a head that knows another line, or none."""
    lines = _parsed(data)[0]
    try:
        _write(folder / FILE, data)
        _write_head(folder, Head(len(lines), lines[-1]["hash"]))
    except OSError as problem:
        raise _unwritable(folder, problem) from None


def _write(path: Path, data: bytes) -> None:
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as problem:
        raise OutputError(f"'{path}' cannot be written: {(problem.strerror or '').lower()}. Choose another place, or "
                          f"make room") from None


def _set_aside(folder: Path) -> None:
    number = next(n for n in range(1, 10**6) if not (folder / f"accountant.{n}.aside").exists())
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder / FILE, folder / f"accountant.{number}.aside")
    (folder / HEAD).unlink(missing_ok=True)
    sync_folder(folder)


def _cut(folder: Path, size: int) -> None:
    """Off the line that a crash cut short: what it would have allowed was not sent."""
    with (folder / FILE).open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def _unwritable(folder: Path, problem: OSError) -> OutputError:
    return OutputError(f"the store in '{folder}' cannot be written: {problem.strerror}. Nothing was sent. Mend the "
                       f"folder or the disk, and start the site again")


def _write_all(handle: int, data: bytes) -> None:
    """A full disk may take a part without an error."""
    while data:
        data = data[os.write(handle, data):]


@contextmanager
def _locked(folder: Path, create: bool = True) -> Iterator[None]:
    """One process at a time decides; the others wait a little."""
    if not create and not exists(folder):
        raise missing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as problem:
        raise _unwritable(folder, problem) from None
    try:
        _wait_for(handle, folder)
        yield
    finally:
        os.close(handle)


def _wait_for(handle: int, folder: Path) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() > until:
                raise OutputError(f"the store in '{folder}' is in use by another process, for {LOCK_SECONDS:g} s: end "
                                  f"it, and start this again") from None
        time.sleep(0.01)
