"""A job's output: what of a file belongs to the attempt."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."


@pytest.fixture
def app(read, tmp_path, now):
    """Reads a text as an output file that was last written `age` seconds before the end."""

    def run(text, age=0.0, **order):
        path = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(path, (now - age, now - age))
        return read(os.open(path, os.O_RDONLY), kind="app", **order)

    return run


def mark(at, now, job=6):
    when = datetime.fromtimestamp(now + at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return (
        f"slurmstepd: error: *** JOB {job} ON n1 CANCELLED AT {when} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
    )


def test_a_small_file_is_read_whole(app):
    answer, kept = app(f"start\n{XID}\nend\n")
    assert (answer.state, answer.reason, answer.lines) == ("read", "", 3)
    assert XID in kept


def test_a_file_from_before_the_start_is_stale_and_none_of_it_is_taken(app):
    answer, kept = app(XID + "\n", age=4000)
    assert (answer.state, kept) == ("stale", "")


def test_an_empty_file_is_empty(app):
    assert app("")[0].state == "empty"


def test_what_stands_before_an_earlier_attempts_mark_is_left_out(app, now):
    answer, kept = app(f"old {XID}\n" + mark(-4000, now) + f"new {XID}\n")
    assert "old" not in kept
    assert "new" in kept
    assert "mark of an earlier attempt" in answer.reason
    assert answer.state == "read"


def test_the_attempts_own_mark_cuts_nothing(app, now):
    answer, kept = app(f"mine {XID}\n" + mark(-1, now, job=7) + f"late {XID}\n")
    assert "mine" in kept
    assert "late" in kept
    assert answer.reason == ""


def test_marks_in_different_blocks_are_found(app, now):
    text = f"a {XID}\n" + "x\n" * 900_000 + mark(-9000, now) + f"b {XID}\n" + "y\n" * 900_000 + mark(-5000, now) + f"c {XID}\n"
    kept = app(text)[1]
    assert [line.split()[0] for line in kept.splitlines() if "Xid" in line] == ["c"]


def test_lines_that_are_days_older_are_cut_off(app, now):
    def line(at, text):
        return datetime.fromtimestamp(now + at, UTC).strftime("%Y-%m-%d %H:%M:%S,123 ") + text + "\n"

    old = "".join(line(-400_000 + n, f"old step {n}") for n in range(20_000)) + line(-350_000, f"old {XID}")
    answer, kept = app(old + "".join(line(-3000 + n, f"step {n}") for n in range(2000)) + line(-5, f"new {XID}"))
    assert "old NVRM" not in kept
    assert "new NVRM" in kept
    assert "older than the attempt" in answer.reason


def test_stamps_of_another_zone_cut_nothing(app, now):
    """A program in Tokyo time under a controller in UTC: nine hours off, and still this attempt's."""

    def line(at, text):
        return datetime.fromtimestamp(now + at + 9 * 3600, UTC).strftime("%Y-%m-%d %H:%M:%S ") + text + "\n"

    answer, kept = app("".join(line(-3000 + n, f"step {n}") for n in range(100)) + line(-5, XID))
    assert "Xid" in kept
    assert answer.reason == ""


def test_of_a_file_beyond_the_limit_head_and_tail_are_read(app):
    answer, kept = app(
        f"head {XID}\n" + "step\n" * 400_000 + f"middle {XID}\n" + "step\n" * 400_000 + f"tail {XID}\n", limit=200_000
    )
    assert answer.state == "partial"
    assert "in the middle were not read" in answer.reason
    assert [line.split()[0] for line in kept.splitlines() if "Xid" in line] == ["head", "tail"]
    assert answer.bytes < 400_000


def test_a_file_that_is_written_after_the_end_is_only_partly_the_attempts(app):
    answer, _ = app(f"{XID}\n", age=-4000)
    assert answer.state == "partial"
    assert "later run" in answer.reason


@pytest.mark.parametrize("text", [b"\x00" * 100_000, os.urandom(200_000), b"x" * 5_000_000, b"\n" * 100_000, b"\xff\xfe" * 999])
def test_binary_and_endless_lines_are_taken_as_they_are(app, text):
    answer, kept = app(text + b"\n" + XID.encode() + b"\n" + text)
    assert answer.state == "read"
    assert XID in kept


def test_two_gigabytes_without_a_line_end_stay_in_memory_bounds(read, tmp_path, now):
    path = tmp_path / "hole"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    os.utime(path, (now, now))
    answer, kept = read(os.open(path, os.O_RDONLY), kind="app")
    assert answer.state == "partial"
    assert answer.bytes < 70 << 20
    assert len(kept) < 1 << 20
