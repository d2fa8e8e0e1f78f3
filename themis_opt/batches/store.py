"""The rows of finished runs in one SQLite file, by key: what is committed survives any crash.

One process at a time has the file, which is journalled ahead of writing, and belongs to one format.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from themis_opt.base.documents import make_folder
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

LOCK_SECONDS = 1.0  # for which a process waits until another one has closed the file

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

    Raises InputError if the file cannot be read or written, is damaged, of another program or format, or in use.

    `path`: the file; it is made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        make_folder(path.parent)
        with self._located():
            self.connection = sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)
        try:
            with self._located():
                self._open()
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file free."""
        with self._located():
            with suppress(sqlite3.Error):  # such as a full disk: the journal stays
                self._pragma("journal_mode = DELETE")
            self.connection.close()

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Commit rows, all or none; a row replaces the one with its key.

        Raises InputError if they cannot be written; what was committed before stays.

        `rows`: plain values, with `key`, `code_version` and `status` among them.
        """
        values = [(row["key"], row["code_version"], row["status"], json.dumps(dict(row))) for row in rows]
        with self._located(), self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany(_REPLACE, values)

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
        self._pragma("locking_mode = EXCLUSIVE")  # from the next statement until the connection is closed
        self.connection.execute("BEGIN EXCLUSIVE")
        tables = self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        self.connection.execute("COMMIT")
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
            rule = f"must have format {STORE_FORMAT}"
            raise InputError(rule, field="user_version", value=version, source=str(self.path))
        if self._pragma("quick_check(1)") != "ok":
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
            code = int(getattr(error, "sqlite_errorcode", 0)) & 0xFF  # what kind; the rest of the code tells details
            raise InputError(_RULES.get(code, f"cannot be used: {error}"), source=str(self.path)) from None
