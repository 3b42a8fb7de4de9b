"""Seek by time: logs that are far too large to be read, made up on demand, so that every byte read is counted."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime

import pytest

from attribution.connectors.span import PROBE, SLACK, Counted, Times, Window, find_span

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC).timestamp()
WIDTH = 100


class MadeUp:
    """A log of lines of equal length, one every `every` seconds until NOW, that exists only where it is read."""

    def __init__(self, lines: int, every: float, stamp, disorder: float = 0.0) -> None:
        self.lines, self.every, self.stamp, self.disorder = lines, every, stamp, disorder
        self.size, self.read_bytes = lines * WIDTH, 0

    def time(self, number: int) -> float:
        shift = random.Random(number).uniform(-self.disorder, self.disorder) if self.disorder else 0.0
        return NOW - (self.lines - number) * self.every + shift

    def line(self, number: int) -> bytes:
        text = f"{self.stamp(datetime.fromtimestamp(self.time(number), UTC))} line {number}"
        return text.ljust(WIDTH - 1, ".").encode() + b"\n"

    def __call__(self, offset: int, count: int) -> bytes:
        first, last = offset // WIDTH, min(self.lines, (offset + count) // WIDTH + 1)
        data = b"".join(self.line(n) for n in range(first, last))[offset - first * WIDTH :][:count]
        self.read_bytes += len(data)
        return data

    def numbers(self, window: Window) -> tuple[int, int]:
        """The first and the last line in the window."""
        inside = [n for n in range(self.lines) if window.start <= self.time(n) <= window.end] if self.lines <= 200_000 else None
        if inside is not None:
            return inside[0], inside[-1]
        first = self.lines - int((NOW - window.start) / self.every)
        return first, self.lines - int((NOW - window.end) / self.every)


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f+00:00 n1 kernel:")


def slurm(moment: datetime) -> str:
    return moment.strftime("[%Y-%m-%dT%H:%M:%S.%f]")


def syslog(moment: datetime) -> str:
    return moment.strftime("%b %e %H:%M:%S n1 kernel:")


@pytest.mark.parametrize("stamp", [iso, slurm, syslog])
@pytest.mark.parametrize("disorder", [0.0, 30.0])
def test_ten_gigabytes_are_entered_with_a_few_megabytes_read(stamp, disorder):
    log = MadeUp(100_000_000, 0.25, stamp, disorder)  # 10 GB, 290 days
    window = Window(NOW - 40 * 86400, NOW - 40 * 86400 + 600)
    span = find_span(log, log.size, Times("UTC", NOW), window)
    first, last = log.numbers(window)
    assert span.dated
    assert span.begin <= first * WIDTH
    assert span.stop >= (last + 1) * WIDTH
    assert span.stop - span.begin < (last - first) * WIDTH + (2 * SLACK / 0.25) * WIDTH + 5 * PROBE
    assert log.read_bytes < 4 << 20
    assert log(span.begin, 5)[:1] in b"2[NOSAJ"  # a line's beginning


def test_a_log_without_years_that_is_older_than_half_a_year_is_still_in_order():
    log = MadeUp(100_000, 300.0, syslog)  # 347 days
    window = Window(NOW - 3600, NOW)
    span = find_span(log, log.size, Times("UTC", NOW), window)
    assert span.begin >= log.size - 3 * PROBE


@pytest.mark.parametrize("window", [Window(NOW - 9e6, NOW - 8e6), Window(NOW + 4000, NOW + 5000)])
def test_a_window_outside_the_log_is_an_empty_span(window):
    log = MadeUp(10_000, 10.0, iso)
    span = find_span(log, log.size, Times("UTC", NOW), window)
    assert span.dated
    assert span.begin == span.stop


def test_an_open_window_is_the_whole_log():
    log = MadeUp(10_000, 10.0, iso)
    span = find_span(log, log.size, Times("UTC", NOW), Window(None, None))
    assert (span.begin, span.stop) == (0, log.size)


def test_lines_without_dates_give_the_whole_log():
    log = MadeUp(10_000, 10.0, lambda moment: f"[{moment.timestamp() % 1e6:12.6f}]")
    span = find_span(log, log.size, Times("UTC", NOW), Window(NOW - 100, NOW))
    assert not span.dated
    assert (span.begin, span.stop) == (0, log.size)


def test_forged_times_here_and_there_do_not_mislead_it():
    log = MadeUp(1_000_000, 1.0, iso)
    true = log.line

    def forged(number: int) -> bytes:
        if number % 4:
            return true(number)
        return iso(datetime.fromtimestamp(0, UTC)).ljust(WIDTH - 1, ".").encode() + b"\n"

    log.line = forged
    window = Window(NOW - 500_000, NOW - 499_000)
    span = find_span(log, log.size, Times("UTC", NOW), window)
    first, last = 500_000, 501_000
    assert span.begin <= first * WIDTH <= last * WIDTH <= span.stop
    assert span.stop - span.begin < 2000 * WIDTH + 5 * PROBE


def test_a_long_stretch_without_times_makes_the_span_wider_never_narrower():
    log = MadeUp(200_000, 1.0, iso)
    true = log.line
    log.line = lambda n: (b"\tat frame".ljust(WIDTH - 1) + b"\n") if 60_000 < n < 140_000 else true(n)
    for begin in (59_000, 100_000, 139_000):
        window = Window(log.time(begin), log.time(begin + 2000))
        span = find_span(log, log.size, Times("UTC", NOW), window)
        assert span.begin <= begin * WIDTH
        assert span.stop >= (begin + 2000) * WIDTH


def test_local_times_are_read_in_their_zone():
    log = MadeUp(100_000, 1.0, slurm)  # the stamps are UTC's, the zone says they are Berlin's: one hour earlier
    span = find_span(log, log.size, Times("Europe/Berlin", NOW), Window(NOW - 3600 - 600, NOW - 3600, "Europe/Berlin"))
    assert span.stop == log.size
    assert span.begin >= (100_000 - 600) * WIDTH - SLACK * WIDTH - 3 * PROBE


def test_a_sparse_file_of_a_gigabyte_costs_little(tmp_path):
    path = tmp_path / "kern.log"
    with path.open("wb") as file:
        file.write(b"".join(iso(datetime.fromtimestamp(NOW - 90_000 + n, UTC)).encode() + b" old\n" for n in range(1000)))
        file.seek(1 << 30)
        file.write(b"\n" + b"".join(iso(datetime.fromtimestamp(NOW - 600 + n, UTC)).encode() + b" new\n" for n in range(600)))
    fd = os.open(path, os.O_RDONLY)
    read = Counted(fd)
    span = find_span(read, path.stat().st_size, Times("UTC", NOW), Window(NOW - 300, NOW))
    os.close(fd)
    assert span.begin < 1 << 30
    assert span.stop == path.stat().st_size
    assert read.bytes < 40 << 20
