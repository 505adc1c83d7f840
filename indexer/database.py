"""SQLite files of the index: one connection a thread, write-ahead log, explicit transactions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indexer import words


class Database:
    """A SQLite file that is created with *schema* when it is new."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        with self.transaction() as db:
            for statement in schema.split(";\n"):
                db.execute(statement)

    def check(self) -> None:
        """Raises sqlite3.DatabaseError when the file is damaged."""
        (found,) = self.db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)

    @property
    def db(self) -> sqlite3.Connection:
        """This thread's connection."""
        found: sqlite3.Connection | None = getattr(self._local, "db", None)
        if found is None:
            found = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30)
            found.create_function("folded", 1, words.folded, deterministic=True)
            found.execute("PRAGMA journal_mode = WAL")
            found.execute("PRAGMA synchronous = NORMAL")
            self._local.db = found
            with self._guard:
                self._opened.append(found)
        return found

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing: commits at the end of the block, rolls back on any error."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield self.db
        except BaseException:
            if self.db.in_transaction:  # a full disk has ended it already
                self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def close(self) -> None:
        """Closes every thread's connection."""
        with self._guard:
            for connection in self._opened:
                connection.close()
            self._opened.clear()
        self._local = threading.local()
