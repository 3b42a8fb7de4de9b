"""Open an archive: a SQLite file on a local disk, or a PostgreSQL URL. The same code serves both."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from attribution.archive import disk, read, schema, write
from attribution.archive.failure import told
from attribution.errors import ConfigError
from attribution.model import Verdict

_BUSY_SECONDS = 10.0
_TRIES = 3
_WRITES = "sattrib_writes"


class Archive:
    """An open archive. Each call is a transaction of its own; close it when done (it is a context manager).

    Raises ArchiveError where the database is locked, full, damaged or gone. Times are epoch seconds, UTC.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        self._engine = engine
        self.where = where

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with told(self.where):
            self._engine.dispose()

    def store(
        self, verdict: Verdict, stored_input: bytes | None, input_hash: str, now: float, aliases: Sequence[str] = ()
    ) -> write.StoredVersion:
        """Keep one verdict, masked, as a new version of its attempt; see `store_all`."""
        finished = write.Finished(verdict=verdict, stored_input=stored_input, input_hash=input_hash, aliases=tuple(aliases))
        return self.store_all((finished,), now)[0]

    def store_all(self, batch: Sequence[write.Finished], now: float) -> tuple[write.StoredVersion, ...]:
        """Keep a batch in one commit: all of it or nothing.

        The same input, rules and engine make no new version: the answer names the version that they made. The stored
        input (JSON, JSON lines or plain text, not compressed) replaces the attempt's older one.
        """
        prepared = [write.prepare(finished) for finished in batch]
        with told(self.where):
            for _ in range(_TRIES):
                with suppress(IntegrityError):
                    return self._store(prepared, now)
                # Another worker stored the same attempt in between: now its version is seen.
            return self._store(prepared, now)

    def _store(self, prepared: list[write.Prepared], now: float) -> tuple[write.StoredVersion, ...]:
        with self._engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
            return tuple(write.store(connection, item, now) for item in prepared)

    def latest(self, job: str) -> tuple[read.StoredVerdict, ...]:
        """The newest verdict of every attempt of a job, oldest attempt first.

        `job` is as a person writes it: 123 (with all its array tasks and het components), 123_4, 123+1, an SLUID, or an
        attempt key. Empty for none.
        """
        with told(self.where), self._engine.connect() as connection:
            return tuple(read.newest(connection, key) for key in read.keys_of(connection, job))

    def known(self, keys: Sequence[str]) -> frozenset[str]:
        """Those of these attempt keys (or older keys) of which there is a verdict."""
        with told(self.where), self._engine.connect() as connection:
            return read.known(connection, keys)

    def version(self, key: str, version: int) -> read.StoredVerdict | None:
        """One version of the attempt with this key (or an older key of it); None where there is none."""
        with told(self.where), self._engine.connect() as connection:
            return read.one(connection, read.resolve(connection, key), version)

    def versions(self, key: str) -> tuple[read.VersionRow, ...]:
        """All versions of an attempt, oldest first, without their evidence."""
        with told(self.where), self._engine.connect() as connection:
            return read.rows(connection, key=read.resolve(connection, key))

    def since(self, time: float, until: float | None = None) -> tuple[read.VersionRow, ...]:
        """The newest version of each attempt, stored at or after `time` and before `until`, in the order stored."""
        with told(self.where), self._engine.connect() as connection:
            return read.rows(connection, since=time, until=until)

    def stored_input(self, key: str) -> read.StoredInput | None:
        """The newest input that was kept for an attempt; None where none was, or its retention is over."""
        with told(self.where), self._engine.connect() as connection:
            return read.stored_input(connection, read.resolve(connection, key))


def open_archive(where: str | os.PathLike[str], *, create: bool = True) -> Archive:
    """Open the archive at a path or a database URL; with `create`, make it where there is none.

    Without `create` a SQLite file is opened read-only. Raises ConfigError for a path or URL that can't be an archive, and
    for one that a newer sattrib wrote; ArchiveError for one that can't be used now.
    """
    text = os.fspath(where)
    url = _url(text) if "://" in text else None
    if url is not None and url.get_backend_name() != "sqlite":
        shown = url.render_as_string(hide_password=True)
        engine = _server(url, shown)
    else:
        file = Path((url.database or "") if url is not None else text)
        shown = str(file)
        engine = _file(file, create=create)
    with told(shown):
        _check(engine, shown, create=create)
    return Archive(engine, shown)


def _url(text: str) -> URL:
    try:
        url = make_url(text)
    except ArgumentError:
        raise ConfigError("the archive's URL can't be read: write postgresql://USER@HOST/DATABASE, or a file") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ConfigError(f"the archive can't be kept in {url.get_backend_name()}: use a SQLite file or PostgreSQL")
    return url


def _server(url: URL, shown: str) -> Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    try:
        return create_engine(url, pool_pre_ping=True, connect_args={"client_encoding": "utf8"})
    except (ImportError, NoSuchModuleError):
        raise ConfigError("needs the Python package psycopg: install it beside sattrib", shown) from None


def _file(file: Path, *, create: bool) -> Engine:
    wal = disk.allows_wal(file)
    if create:
        disk.create(file)
    elif not file.exists():
        raise ConfigError("there is no archive here: `sattrib analyze DIR --archive FILE` makes one", str(file))
    if not file.is_file():
        raise ConfigError("is no regular file: name another one for the archive", str(file))
    engine = create_engine("sqlite://", creator=lambda: _connect(file, create=create, wal=wal), poolclass=NullPool)
    event.listen(engine, "begin", _begin)
    return engine


def _connect(file: Path, *, create: bool, wal: bool) -> sqlite3.Connection:
    name = f"file:{quote(str(file.absolute()))}?mode={'rw' if create else 'ro'}"
    if not create and _is_settled(file):
        name += "&immutable=1"
    connection = sqlite3.connect(name, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys=ON")
    if create:
        if wal:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    return connection


def _is_settled(file: Path) -> bool:
    """Nobody can write beside it and nothing waits in its log: a copy on a read-only medium is read as it is."""
    log = Path(f"{file}-wal")
    return not os.access(file.parent, os.W_OK) and not log.exists()


def _begin(connection: Connection) -> None:
    # A write lock taken at once can be waited for; one that a reader wants later can't.
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check(engine: Engine, shown: str, *, create: bool) -> None:
    with engine.connect() as connection:
        inspector = inspect(connection)
        found = inspector.get_table_names()
        ours = "meta" in found and {column["name"] for column in inspector.get_columns("meta")} == {"name", "value"}
        version = _version(connection) if ours else None
    if version is None:
        if found or not create:
            raise ConfigError("is not an archive of sattrib: name another file or database", shown)
        _make(engine)
    elif version > schema.SCHEMA:
        raise ConfigError(
            f"was written by a newer sattrib (schema {version}, this one knows {schema.SCHEMA}): upgrade sattrib", shown
        )


def _version(connection: Connection) -> int | None:
    value = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == "schema")).scalar()
    return int(value) if value is not None and str(value).isdecimal() else None


def _make(engine: Engine) -> None:
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        schema.tables.create_all(connection)
        if _version(connection) is None:
            connection.execute(insert(schema.meta).values(name="schema", value=str(schema.SCHEMA)))
