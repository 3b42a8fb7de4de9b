"""What goes wrong with a database, in one clear line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from attribution.errors import SattribError

_SQLITE: tuple[tuple[tuple[str, ...], str], ...] = (
    (("SQLITE_BUSY", "SQLITE_LOCKED"), "is locked by another process: try again, or see who has it open (`fuser FILE`)"),
    (("SQLITE_NOTADB",), "is not an archive of sattrib: name another file"),
    (("SQLITE_CORRUPT",), "is damaged: put a backup in its place, or save what is left with `sqlite3 FILE .recover`"),
    (("SQLITE_FULL",), "can't be written: the disk is full"),
    (("SQLITE_READONLY",), "can't be written: the file or its directory is read-only for this user"),
    (
        ("SQLITE_CANTOPEN",),
        "can't be opened: the file and its directory must be writable by this user (SQLite keeps its log beside it)",
    ),
    (("SQLITE_PERM", "SQLITE_AUTH"), "can't be opened: this user may not"),
    (("SQLITE_IOERR",), "can't be read or written: the disk reports an error, see the kernel log"),
)


class ArchiveError(SattribError):
    """The archive can't be used now: locked, full, damaged, unreachable. Nothing of the transaction was kept."""


@contextmanager
def told(where: str) -> Iterator[None]:
    """Turn the database's errors into one line about `where` (a file, or a URL without its password)."""
    try:
        yield
    except (SattribError, IntegrityError, DataError):
        raise  # the latter two are faults of ours, not of the database
    except DBAPIError as error:
        raise _told(error.orig, where) from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise _told(error, where) from error


def _told(error: BaseException | None, where: str) -> SattribError:
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", None) or ""
        for prefixes, text in _SQLITE:
            if name.startswith(prefixes):
                return ArchiveError(f"{where}: {text.replace('FILE', where)}")
    words = str(error).strip().splitlines() or [type(error).__name__]
    return ArchiveError(f"{where}: the database refuses: {words[0]}")
