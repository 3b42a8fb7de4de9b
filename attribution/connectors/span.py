"""Which bytes of a log file belong to a window: found by a binary search over offsets, never by reading from the start.

Logs are only roughly in order, and any line may carry a wrong or forged time: each probe takes the median of the stamps
that it sees, and the span is wider than the window by `SLACK`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from attribution.engine import lines
from attribution.engine.stamps import Zone
from attribution.model import Frozen

PROBE = 64 * 1024
STEP = 1 << 20
FEW = 9
SLACK = 120.0
YEAR = 365 * 86400.0

Read = Callable[[int, int], bytes]


class Window(Frozen, frozen=True):
    """Epoch seconds, UTC; None is open. `zone` is the local time of stamps that name none."""

    start: float | None
    end: float | None
    zone: str = "UTC"


class Span(Frozen, frozen=True):
    """Bytes [begin, stop) of a file. `dated`: its lines have times; without them the span is the whole file."""

    begin: int
    stop: int
    dated: bool
    first: float | None = None
    last: float | None = None


class Times:
    """Times of lines in a file that was last written at `mtime`: a stamp without a year is at most a year older."""

    def __init__(self, zone: str, mtime: float) -> None:
        self._zone = Zone(zone, mtime + 86400 - YEAR / 2)

    def of(self, text: bytes, *, reverse: bool = False) -> float | None:
        """The median time of the first (or last) few lines of `text` that have one."""
        found: list[float] = []
        rows = text.split(b"\n")
        for row in reversed(rows) if reverse else rows:
            stamp = lines.only_stamp(row[:400].decode("utf-8", "replace"))
            when = self._zone.wall(stamp) if stamp is not None else None
            if when is not None:
                found.append(when)
                if len(found) == FEW:
                    break
        return sorted(found)[len(found) // 2] if found else None


def find_span(read: Read, size: int, times: Times, window: Window) -> Span:
    """The bytes of a file of `size` bytes whose lines are in the window. `read(offset, count)` is pread."""
    first = times.of(read(0, PROBE))
    last = times.of(read(max(0, size - PROBE), PROBE), reverse=True)
    if first is None and last is None:
        return Span(0, size, dated=False)
    begin, stop = 0, size
    if window.start is not None and last is not None and last < window.start - SLACK:
        return Span(size, size, dated=True, first=first, last=last)
    if window.end is not None and first is not None and first > window.end + SLACK:
        return Span(0, 0, dated=True, first=first, last=last)
    if window.start is not None:
        begin = _search(read, size, times, window.start - SLACK, late=False)
    if window.end is not None:
        stop = min(size, _search(read, size, times, window.end + SLACK, late=True) + 2 * PROBE)
    return Span(begin, max(begin, stop), dated=True, first=first, last=last)


def _search(read: Read, size: int, times: Times, when: float, *, late: bool) -> int:
    """Where the first line that is not before `when` begins; with `late`, an offset at most PROBE before the last such.

    Where a stretch has no times, `late` says which side it is on: the one that makes the span wider.
    """
    low, high = 0, size
    while high - low > PROBE:
        middle = (low + high) // 2
        found = _time_at(read, times, middle, high)
        if (found < when) if found is not None else late:
            low = middle
        else:
            high = middle
    low = _line_start(read, low)
    return low if late else low + _first_not_before(read(low, 2 * PROBE), times, when)


def _first_not_before(text: bytes, times: Times, when: float) -> int:
    at = 0
    for row in text.split(b"\n"):
        found = times.of(row)
        if found is not None and found >= when:
            return at
        at += len(row) + 1
    return 0


def _time_at(read: Read, times: Times, at: int, stop: int) -> float | None:
    """The time at an offset; looked for in larger pieces where lines without one follow."""
    found = times.of(read(at, PROBE).partition(b"\n")[2])
    if found is None and at + PROBE < stop:
        found = times.of(read(at + PROBE, STEP).partition(b"\n")[2])
    return found


def _line_start(read: Read, at: int) -> int:
    if at == 0:
        return 0
    newline = read(at - 1, PROBE).find(b"\n")
    return at + newline if newline >= 0 else at


class Counted:
    """pread on a descriptor, with the bytes that it gave."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.bytes = 0

    def __call__(self, offset: int, count: int) -> bytes:
        """At most `count` bytes at `offset`. Raises OSError."""
        data = os.pread(self._fd, count, offset)
        self.bytes += len(data)
        return data
