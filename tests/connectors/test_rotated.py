"""Logs on disk as logrotate leaves them, and what else may lie there."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat

import pytest


@pytest.fixture
def write(tmp_path, now):
    """A file whose last line is `age` seconds before now."""

    def make(name, text, age=0.0):
        path = tmp_path / "logs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(path, (now - age, now - age))
        return path

    return make


def test_only_the_window_and_only_what_rules_want_is_kept(read, write, xid, quiet):
    lines = [quiet(at) if at % 600 else xid(at) for at in range(-60_000, 15_000, 5)]
    answer, kept = read(path=str(write("kern.log", "".join(lines))))
    assert (answer.state, answer.reason) == ("read", "")
    assert answer.lines < 4500 / 5 + 4000
    hits = [line for line in kept.splitlines(keepends=True) if "Xid" in line]
    assert [line for line in hits if line in [xid(at) for at in range(-4200, 301, 600)]] == [
        xid(at) for at in range(-4200, 301, 600)
    ]
    assert len(kept.splitlines()) <= len(hits) + 2


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".1", bytes), ("-20261129", bytes), ("-20261129.gz", gzip.compress), (".2.gz", gzip.compress), (".1.xz", lzma.compress),
     (".2026-11-29.bz2", bz2.compress), ("-20261129-1764410000", bytes)],
)  # fmt: skip
def test_rotated_files_are_read_in_the_order_of_time(read, write, xid, suffix, pack):
    log = write("kern.log", xid(-60, " new"))
    write("kern.log" + suffix, pack(xid(-1800, " old").encode()), age=1000)
    answer, kept = read(path=str(log))
    assert answer.state == "read"
    assert kept == xid(-1800, " old") + xid(-60, " new")


def test_files_that_ended_before_the_window_and_strangers_are_not_opened(read, write, xid):
    log = write("kern.log", xid(-60))
    write("kern.log.9.gz", b"not gzip at all", age=90_000)
    write("kern.log.save", "x" + xid(-70))
    write("kern.log-old.txt", "x" + xid(-70))
    write("kern.logger", "x" + xid(-70))
    answer, kept = read(path=str(log))
    assert (answer.state, kept) == ("read", xid(-60))


def test_a_file_under_two_names_is_read_once(read, write, xid, now):
    log = write("kern.log", xid(-60))
    os.link(log, log.with_name("kern.log.1"))
    (log.with_name("kern.log.2")).symlink_to("kern.log")
    assert read(path=str(log))[1] == xid(-60)


def test_a_log_that_is_a_link_is_followed(read, write, xid):
    log = write("kern.log-today", xid(-60))
    log.with_name("kern.log").symlink_to(log.name)
    assert read(path=str(log.with_name("kern.log")))[1] == xid(-60)


def test_a_broken_archive_is_partial_and_the_rest_is_read(read, write, xid):
    log = write("kern.log", xid(-60))
    write("kern.log.1.gz", gzip.compress(xid(-1800).encode() * 5000)[:150], age=100)
    answer, kept = read(path=str(log))
    assert answer.state == "partial"
    assert "kern.log.1.gz" in answer.reason
    assert xid(-60) in kept


def test_a_large_archive_gives_its_window(read, write, xid, quiet):
    text = "".join(quiet(at) for at in range(-300_000, -6000)) + xid(-3000) + "".join(quiet(at) for at in range(6000, 60_000))
    log = write("kern.log", xid(-60))
    write("kern.log.1.gz", gzip.compress(text.encode(), 1), age=10)
    answer, kept = read(path=str(log))
    assert answer.state == "read"
    assert xid(-3000) in kept
    assert answer.bytes < 3 << 20


@pytest.mark.parametrize("make", ["missing", "directory", "fifo", "no_parent", "dangling", "device"])
def test_what_is_no_log_is_said(read, tmp_path, make):
    path = tmp_path / "logs" / "kern.log"
    if make != "no_parent":
        path.parent.mkdir()
    if make == "directory":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "dangling":
        path.symlink_to("nowhere")
    elif make == "device":
        path.symlink_to("/dev/zero")
    answer, kept = read(path=str(path))
    assert answer.state == ("denied" if make in ("directory", "fifo", "device") else "unreachable")
    assert str(path) in answer.reason
    assert kept is None


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root may read everything; the denied log is covered through sattrib-open's tests"
)
def test_a_log_without_permission_is_denied(read, write, xid):
    log = write("kern.log", xid(-60))
    log.chmod(0)
    assert read(path=str(log))[0].state == "denied"
    log.chmod(stat.S_IRUSR)


def test_empty_stale_and_quiet_are_different_things(read, write, xid, quiet, now):
    assert read(path=str(write("a.log", "")))[0].state == "empty"
    assert read(path=str(write("b.log", xid(-90_000), age=90_000)))[0].state == "stale"
    answer, kept = read(path=str(write("c.log", quiet(-90_000) * 9 + quiet(40_000) * 9)))
    assert answer.state in ("read", "empty")
    assert "Xid" not in kept
    answer, kept = read(path=str(write("d.log", quiet(-100) + quiet(-50))))
    assert answer.state == "read"
    assert kept == quiet(-100) + quiet(-50)  # the first and the last line say what was looked at


def test_more_than_the_limit_is_partial_and_the_latest_is_read(read, write, xid, quiet):
    lines = "".join(quiet(-4000 + n / 10) for n in range(40_000)) + xid(-10)
    answer, kept = read(path=str(write("kern.log", lines)), limit=100_000)
    assert answer.state == "partial"
    assert "max_mb" in answer.reason
    assert answer.bytes <= 100_000 + 64
    assert xid(-10) in kept


def test_lines_out_of_order_near_the_edges_are_kept(read, write, xid, quiet):
    text = "".join(quiet(at) for at in range(-50_000, -4480)) + quiet(-4600) * 3 + xid(-4490) + quiet(-4510) * 5
    text += (
        "".join(quiet(at) for at in range(-4480, 290))
        + quiet(350) * 3
        + xid(295)
        + "".join(quiet(at) for at in range(330, 50_000))
    )
    kept = read(path=str(write("kern.log", text)))[1]
    assert xid(-4490) in kept
    assert xid(295) in kept


def test_a_flood_is_capped_and_named(read, write, xid):
    answer, kept = read(path=str(write("kern.log", "".join(xid(-3000 + n / 100, f" {n}") for n in range(100_000)))))
    assert answer.state == "partial"
    assert answer.cut
    assert len(kept.splitlines()) == 220  # the first 200 and the last 20
    assert kept.splitlines()[-1].endswith(" 99999")


def test_lines_that_only_name_other_jobs_are_left_out_of_slurms_logs(read, write, now):
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(now - 60, UTC).strftime("[%Y-%m-%dT%H:%M:%S.000] ")
    keep = [
        "Nodes n1 not responding",
        "JobId=7 n9 Xid",
        "node n1 JobId=8",
        "_job_complete: JobId=5_2(7) x",
        "JobId=8 on n[1-4] x",
    ]
    drop = ["JobId=8 x", "StepId=8.0 on n9", "_job_complete: JobId=5_3(8) x", "job 70 on n11 x"]
    log = write(
        "slurmctld.log",
        "".join(f"{at}error: {text} {n} NVRM: Xid (PCI:0000:3b:00): 79, x\n" for n, text in enumerate([*keep, *drop, "end"])),
    )
    from attribution.connectors.foreign import Foreign

    foreign = Foreign(("7", "5_2"), ("n1", "n2"))
    assert [foreign(line.encode()) for line in [*keep, *drop]] == [False] * len(keep) + [True] * len(drop)
    assert read(path=str(log), kind="slurmctld", jobs=("7",), nodes="n1")[0].state == "read"
