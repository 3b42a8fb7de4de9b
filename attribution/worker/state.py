"""What the worker must remember over a restart, in a small SQLite file of its own: comments owed, tries, when what was last done.

Everything else is found again: records in the spool, ends in the accounting, verdicts in the archive.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from attribution.errors import SattribError
from attribution.model import Frozen

_TABLES = """
CREATE TABLE IF NOT EXISTS comments (
    attempt TEXT PRIMARY KEY, job TEXT NOT NULL, raw_id TEXT NOT NULL, dbindex TEXT NOT NULL, line TEXT NOT NULL,
    failed INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL, since REAL NOT NULL, why TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS comments_due ON comments (failed, due);
CREATE TABLE IF NOT EXISTS tries (attempt TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value REAL NOT NULL) STRICT;
"""


class Owed(Frozen, frozen=True):
    """A line that the row of `dbindex` may get. `job` is the id as sacct prints it. Times: epoch seconds, UTC."""

    attempt: str
    job: str
    raw_id: str
    dbindex: str
    line: str
    failed: bool
    since: float
    tries: int = 0
    why: str = ""


class State:
    """The file, open. Its methods block for a moment (a sync to disk): the worker's loop calls them in a thread.

    Raises SattribError where the file can't be used.
    """

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(file, timeout=10.0, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_TABLES)
        except sqlite3.Error as problem:
            raise SattribError(f"{file}: can't be used for the worker's state: {problem}; move it away") from None
        self._file = file

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _run(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    self._db.executemany(sql, rows)
                except BaseException:
                    self._db.execute("ROLLBACK")
                    raise
                self._db.execute("COMMIT")
            except sqlite3.Error as problem:
                raise SattribError(f"{self._file}: {problem}") from None

    def _ask(self, sql: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        with self._lock:
            try:
                return self._db.execute(sql, values).fetchall()
            except sqlite3.Error as problem:
                raise SattribError(f"{self._file}: {problem}") from None

    # ---- comments ----------------------------------------------------------------------------------------------

    def owe(self, lines: Iterable[Owed]) -> None:
        """Remember lines that are to be written; a newer line of an attempt replaces its older one."""
        sql = (
            "INSERT INTO comments (attempt, job, raw_id, dbindex, line, failed, due, since) VALUES (?, ?, ?, ?, ?, ?, 0, ?)"
            " ON CONFLICT (attempt) DO UPDATE SET line = excluded.line, failed = excluded.failed, due = 0, tries = 0"
        )
        self._run(sql, [(o.attempt, o.job, o.raw_id, o.dbindex, o.line, int(o.failed), o.since) for o in lines])

    def due(self, now: float, most: int) -> list[Owed]:
        """Lines to try now: of failed attempts first, then the oldest."""
        sql = (
            "SELECT attempt, job, raw_id, dbindex, line, failed, since, tries, why FROM comments WHERE due <= ?"
            " ORDER BY failed DESC, since, attempt LIMIT ?"
        )
        names = ("attempt", "job", "raw_id", "dbindex", "line", "failed", "since", "tries", "why")
        found = [dict(zip(names, row, strict=True)) for row in self._ask(sql, (now, most))]
        return [Owed(**{**row, "failed": bool(row["failed"])}) for row in found]  # type: ignore[arg-type]

    def later(self, owed: Owed, due: float, why: str) -> None:
        """Try it again at `due`; a line that was replaced meanwhile stays due at once."""
        sql = "UPDATE comments SET due = ?, tries = tries + 1, why = ? WHERE attempt = ? AND line = ?"
        self._run(sql, [(due, why, owed.attempt, owed.line)])

    def settled(self, owed: Iterable[Owed]) -> None:
        """These need nothing more (a line that was replaced meanwhile does)."""
        self._run("DELETE FROM comments WHERE attempt = ? AND line = ?", [(o.attempt, o.line) for o in owed])

    def behind(self) -> tuple[int, float | None]:
        """How many lines are owed, and since when the oldest is."""
        ((count, since),) = self._ask("SELECT count(*), min(since) FROM comments")
        return int(count), float(since) if since is not None else None  # type: ignore[call-overload, arg-type]

    # ---- tries of attempts that no record of the spool counts --------------------------------------------------

    def begin(self, attempt: str) -> int:
        """Count a try before the work that could crash; gives its number."""
        sql = "INSERT INTO tries VALUES (?, 1) ON CONFLICT (attempt) DO UPDATE SET count = count + 1"
        self._run(sql, [(attempt,)])
        return self.tries(attempt)

    def tries(self, attempt: str) -> int:
        """How many were counted."""
        rows = self._ask("SELECT count FROM tries WHERE attempt = ?", (attempt,))
        return int(rows[0][0]) if rows else 0  # type: ignore[call-overload]

    def release(self, attempt: str) -> None:
        """The work was stopped through no fault of the attempt: the try does not count."""
        self._run("UPDATE tries SET count = max(0, count - 1) WHERE attempt = ?", [(attempt,)])

    def forget(self, attempts: Iterable[str]) -> None:
        self._run("DELETE FROM tries WHERE attempt = ?", [(attempt,) for attempt in attempts])

    # ---- moments -----------------------------------------------------------------------------------------------

    def moment(self, name: str) -> float | None:
        """When something was last seen or done (epoch seconds, UTC); None: never."""
        rows = self._ask("SELECT value FROM meta WHERE name = ?", (name,))
        return float(rows[0][0]) if rows else None  # type: ignore[arg-type]

    def set_moment(self, name: str, value: float) -> None:
        self._run("INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", [(name, value)])
