from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
import sample_verdicts as samples

from attribution.archive import disk
from attribution.archive import open as opening
from attribution.archive.open import open_archive
from attribution.errors import ConfigError, SattribError

MOUNTS = """\
/dev/vda / ext4 rw 0 0
srv:/home /home nfs4 rw 0 0
/dev/vdb /home/local xfs rw 0 0
tmpfs /mnt/with\\040space tmpfs rw 0 0
/dev/vdc /twice ext4 rw 0 0
srv:/x /twice nfs rw 0 0
broken
"""


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    file = tmp_path / "verdicts.db"
    with open_archive(file) as archive:
        archive.store(samples.attributed(), b"{}", "a", 1.0)
    return file


def one_line(raised: pytest.ExceptionInfo[SattribError], *words: str) -> None:
    text = str(raised.value)
    assert "\n" not in text
    assert len(text) < 300
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/x", "ext4"), ("/home/ada/x", "nfs4"), ("/home/local/x", "xfs"), ("/home", "nfs4"), ("/homestead", "ext4"),
        ("/mnt/with space/x", "tmpfs"), ("/twice/x", "nfs"),
    ],
)  # fmt: skip
def test_file_system_of_a_path(path: str, kind: str) -> None:
    assert disk.filesystem(Path(path), MOUNTS) == kind


def test_network_file_system_is_refused_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"srv:/x {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(disk.allows_wal, "__defaults__", (mounts,))
    with pytest.raises(ConfigError) as raised:
        open_archive(tmp_path / "verdicts.db")
    one_line(raised, "nfs4", "local disk")
    assert not (tmp_path / "verdicts.db").exists()


def test_parallel_file_system_goes_without_a_write_ahead_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"mgs@tcp:/x {tmp_path} lustre rw 0 0\n")
    monkeypatch.setattr(disk.allows_wal, "__defaults__", (mounts,))
    with open_archive(tmp_path / "verdicts.db") as archive, archive._engine.connect() as connection:
        assert connection.exec_driver_sql("pragma journal_mode").scalar() == "delete"


def test_no_archive_is_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        open_archive(tmp_path / "none.db", create=False)
    one_line(raised, "no archive", "none.db")
    assert not (tmp_path / "none.db").exists()


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        open_archive(tmp_path / "none" / "verdicts.db")
    one_line(raised, "no such directory", "none")


def test_directory_and_fifo_are_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("", "fifo"):
        with pytest.raises(ConfigError) as raised:
            open_archive(tmp_path / name)
        one_line(raised, "regular file")


def test_newer_schema_is_refused(filled: Path) -> None:
    with sqlite3.connect(filled) as db:
        db.execute("update meta set value='2'")
    for create in (True, False):
        with pytest.raises(ConfigError) as raised:
            open_archive(filled, create=create)
        one_line(raised, "newer sattrib", "schema 2", "upgrade")


@pytest.mark.parametrize("create", [True, False])
def test_other_files_are_left_alone(tmp_path: Path, create: bool) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("shopping list\n" * 100)
    with pytest.raises(SattribError) as raised:
        open_archive(text, create=create)
    one_line(raised, "not an archive")
    assert text.read_text() == "shopping list\n" * 100
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("create table meta (id integer)")
    with pytest.raises(ConfigError) as raised:
        open_archive(other, create=create)
    one_line(raised, "not an archive")


def test_damaged_archive(filled: Path) -> None:
    with sqlite3.connect(filled) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    raw = bytearray(filled.read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)
    filled.write_bytes(raw)
    with pytest.raises(SattribError) as raised, open_archive(filled) as archive:
        archive.latest("4242")
    one_line(raised, "damaged", str(filled))


def test_locked_archive(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(filled, isolation_level=None)
    holder.execute("begin immediate")
    with open_archive(filled) as archive:
        with pytest.raises(SattribError) as raised:
            archive.store(samples.attributed(), None, "b", 2.0)
        one_line(raised, "locked", str(filled))
        assert len(archive.latest("4242")) == 1
        holder.execute("rollback")
        assert archive.store(samples.attributed(), None, "b", 2.0).version == 2
    holder.close()


def test_full_disk_keeps_what_was_there(filled: Path) -> None:
    with open_archive(filled) as archive:
        with archive._engine.connect() as connection:
            pages = connection.exec_driver_sql("pragma page_count").scalar()
        real = archive._engine.pool._creator

        def creator(*args):
            connection = real(*args)
            connection.execute(f"pragma max_page_count={pages}")
            return connection

        archive._engine.pool._creator = creator
        with pytest.raises(SattribError) as raised:
            archive.store(samples.wide(), None, "b", 2.0)
        one_line(raised, "disk is full")
        archive._engine.pool._creator = real
        assert [row.version for row in archive.versions("alpha/991")] == [1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_directory(filled: Path) -> None:
    directory = filled.parent
    directory.chmod(0o555)
    try:
        with pytest.raises(ConfigError) as raised:
            open_archive(directory / "new.db")
        one_line(raised, "can't be created")
        with open_archive(filled, create=False) as archive:
            assert len(archive.latest("4242")) == 1
        filled.chmod(0o444)
        with pytest.raises(SattribError) as raised, open_archive(filled) as archive:
            archive.store(samples.attributed(), None, "b", 2.0)
        one_line(raised, str(filled))
    finally:
        directory.chmod(0o755)


def test_reading_changes_nothing(filled: Path) -> None:
    before = filled.read_bytes()
    with open_archive(filled, create=False) as archive:
        assert archive.latest("4242")
        with pytest.raises(SattribError) as raised:
            archive.store(samples.attributed(), None, "b", 2.0)
        one_line(raised, "read-only")
    assert filled.read_bytes() == before


def test_odd_file_names(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "b#c", "d%20e", "f g", "ü"):
        file = tmp_path / name
        open_archive(file).close()
        assert file.is_file()
        open_archive(file, create=False).close()


@pytest.mark.parametrize(
    ("url", "words"),
    [("mysql://u:hunter2@h/d", ["mysql", "PostgreSQL"]), ("://", ["URL"]), ("what://x:hunter2@", ["what"])],
)
def test_other_urls_are_refused(url: str, words: list[str]) -> None:
    with pytest.raises(SattribError) as raised:
        open_archive(url)
    one_line(raised, *words)
    assert "hunter2" not in str(raised.value)


def test_sqlite_url_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.db"
    open_archive(f"sqlite:///{file}").close()
    assert file.is_file()
