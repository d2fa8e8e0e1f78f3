"""The rows of finished runs in one SQLite file, by key: what is committed survives any crash.

One process writes, which a lock file beside the store holds to; any number read meanwhile, and see what is committed.
The file is journalled ahead of writing, and belongs to one format.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from themis_opt.base.errors import InputError

APPLICATION = 0x7E815  # what SQLite keeps in the header of the file: that it belongs to this program
STORE_FORMAT = 1  # version of the layout below
_LAYOUT = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY NOT NULL,
    code_version TEXT NOT NULL,
    status TEXT NOT NULL,
    row TEXT NOT NULL
);
CREATE INDEX runs_by_code_version ON runs (code_version);
"""

# Seconds that readers and the writer wait for each other, where the file system has no shared memory for journals
BUSY_SECONDS = 30.0
# Seconds for which a writer tries to get the lock
LOCK_SECONDS = 1.0

MOST_HOLDERS = 10  # how many holders of the lock may leave in front of a writer that tries to get it
_REPLACE = "INSERT OR REPLACE INTO runs (key, code_version, status, row) VALUES (?, ?, ?, ?)"

_RULES = {
    sqlite3.SQLITE_NOTADB: "is no store of runs: not an SQLite file",
    sqlite3.SQLITE_CORRUPT: "is damaged; move it away, or restore a copy",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full; the rows before are kept",
    sqlite3.SQLITE_BUSY: "is in use by another process",
    sqlite3.SQLITE_LOCKED: "is in use by another process",
    sqlite3.SQLITE_READONLY: "cannot be written: it is read-only",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened or made",
}


class RunStore:
    """Rows by key.

    Raises InputError if the file cannot be read or written, is damaged, of another program or format, or written by
    another process.

    `path`: the file; it is made if it is not there, unless it is only read.
    `reading`: whether to read what is committed, while another process may be writing.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self.path, self.reading = path, reading
        self._lock: sqlite3.Connection | None = None
        if not reading:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot be written: {error.strerror}", source=str(path)) from None
            self._lock = self._locked()
        try:
            self._connect()
        except BaseException:
            self._unlock()
            raise

    def _connect(self) -> None:
        place = f"{self.path.absolute().as_uri()}?mode={'ro' if self.reading else 'rwc'}"
        with self._located():
            self.connection = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
        try:
            with self._located():
                self._check_format() if self.reading else self._open()
        except BaseException:
            self.connection.close()
            raise

    @property
    def _lock_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")

    def _locked(self) -> sqlite3.Connection:
        """Hold the lock of the writer: an empty database in use, which every system gives free by itself.

        Who made the file, or opened it before its last holder deleted it, may hold what others do not find, and tries
        again.
        """
        for _ in range(MOST_HOLDERS):
            before = self._lock_identity()
            with self._located():
                lock = self._hold_lock()
            if before is not None and self._lock_identity() == before:
                return lock
            lock.close()
        raise InputError(_RULES[sqlite3.SQLITE_BUSY], source=str(self.path))

    def _lock_identity(self) -> tuple[int, int] | None:
        """Device and number of the lock file; the number of an open file is given to no other."""
        try:
            status = self._lock_path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _hold_lock(self) -> sqlite3.Connection:
        lock = sqlite3.connect(self._lock_path, timeout=LOCK_SECONDS, isolation_level=None)
        try:
            lock.execute("PRAGMA journal_mode = OFF")  # nothing is written to it
            lock.execute("BEGIN EXCLUSIVE")
        except BaseException:
            lock.close()
            raise
        return lock

    def _unlock(self) -> None:
        if self._lock is not None:
            with suppress(OSError):  # some systems keep files that are open
                self._lock_path.unlink()
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file free."""
        try:
            with self._located():
                if not self.reading:
                    with suppress(sqlite3.Error):  # while others read, the journal stays
                        self.connection.execute("PRAGMA busy_timeout = 0")
                        self.connection.execute("PRAGMA journal_mode = DELETE")
                self.connection.close()
        finally:
            self._unlock()

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Commit rows, all or none; a row replaces the one with its key.

        Raises InputError if they cannot be written; what was committed before stays.

        `rows`: plain values, with `key`, `code_version` and `status` among them.
        """
        values = [(row["key"], row["code_version"], row["status"], json.dumps(dict(row))) for row in rows]
        with self._located():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                self.connection.executemany(_REPLACE, values)
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def statuses(self, code_version: str) -> dict[str, str]:
        """Status of every run of a version of the code, by key."""
        with self._located():
            query = "SELECT key, status FROM runs WHERE code_version = ?"
            return dict(self.connection.execute(query, (code_version,)).fetchall())

    def rows(self, code_version: str) -> Iterator[dict[str, Any]]:
        """Every row of a version of the code."""
        with self._located():
            query = "SELECT row FROM runs WHERE code_version = ?"
            for (text,) in self.connection.execute(query, (code_version,)):
                yield self._row(text)

    def _row(self, text: str) -> dict[str, Any]:
        try:
            row = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            row = None
        if not isinstance(row, dict) or "key" not in row:
            raise InputError(_RULES[sqlite3.SQLITE_CORRUPT], source=str(self.path))
        return row

    def _open(self) -> None:
        tables = self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if tables:
            self._check_format()
        self._pragma("journal_mode = WAL")
        self._pragma("synchronous = NORMAL")
        self.connection.execute("BEGIN EXCLUSIVE")
        if not tables:
            self._pragma(f"application_id = {APPLICATION}")
            self._pragma(f"user_version = {STORE_FORMAT}")
            for statement in filter(str.strip, _LAYOUT.split(";")):
                self.connection.execute(statement)
        self.connection.execute("COMMIT")

    def _check_format(self) -> None:
        application, version = self._pragma("application_id"), self._pragma("user_version")
        if application != APPLICATION:
            raise InputError("is no store of runs, but an SQLite file of another program", source=str(self.path))
        if version != STORE_FORMAT:
            raise InputError(
                f"must have format {STORE_FORMAT}", field="user_version", value=version, source=str(self.path)
            )
        damage = self._pragma("quick_check(1)")
        if damage != "ok":
            raise InputError(_RULES[sqlite3.SQLITE_CORRUPT], source=str(self.path))

    def _pragma(self, text: str) -> Any:
        row = self.connection.execute(f"PRAGMA {text}").fetchone()
        return row[0] if row else None

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Say what SQLite has to say in one line that names the file."""
        try:
            yield
        except UnicodeDecodeError:  # what SQLite read, or says about it, is no text
            raise InputError(_RULES[sqlite3.SQLITE_CORRUPT], source=str(self.path)) from None
        except sqlite3.Error as error:
            raise InputError(_RULES.get(_code(error), f"cannot be used: {error}"), source=str(self.path)) from None


def _code(error: sqlite3.Error) -> int:
    """What kind of error it is; the rest of SQLite's code tells details."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
