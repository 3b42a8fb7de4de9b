"""A job's output file, from an open descriptor: what of it belongs to this attempt.

A file may be shared by attempts (`--open-mode=append`, requeue). What an earlier attempt left is cut off at slurmstepd's
mark of its end, or where lines say that they are far older; a program's own stamps may be in any time zone, so that only
what is off by more than the widest difference between two zones is believed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from attribution.connectors.order import Answer, Order
from attribution.connectors.span import PROBE, Counted, Span, Times, Window, find_span
from attribution.engine.select import Selector
from attribution.engine.stamps import ISO, Zone, from_iso

BLOCK = 1 << 20
ZONES = 14 * 3600.0
# Clocks of a file server and of the controller differ.
CLOCKS = 60.0
LATE = 300.0
# slurmstepd_job.c and req.c print it when Slurm ends a job: "*** JOB 7 ON n1 CANCELLED AT 2026-03-02T05:00:00 DUE TO … ***".
_MARK = re.compile(
    rb"(?m)^[^\n]{0,40}slurmstepd: error: \*\*\* (?:JOB|STEP) \S{1,40} ON \S{1,255} [^\n]{0,80}?AT (\S{19})[^\n]*\n?"
)


def read_output(fd: int, order: Order, selector: Selector) -> Answer:
    """Feed the attempt's part of the file to `selector`. Raises OSError where reading stops."""
    state = os.fstat(fd)
    if order.began is not None and state.st_mtime < order.began - CLOCKS:
        return Answer("stale", "not written to since the attempt began")
    if state.st_size == 0:
        return Answer("empty", "nothing was printed")
    read = Counted(fd)
    notes: list[str] = []
    span = _span(read, state, order)
    if span.begin > 0:
        notes.append(f"the first {span.begin} bytes are older than the attempt")
    partial = False
    pieces = [(span.begin, span.stop)]
    if span.stop - span.begin > order.limit:
        head = order.limit // 8
        pieces = [(span.begin, span.begin + head), (span.stop - (order.limit - head), span.stop)]
        partial = True
        notes.append(f"{pieces[1][0] - pieces[0][1]} bytes in the middle were not read (collect.max_mb)")
    left_out = _feed(read, pieces, order, selector)
    if left_out:
        notes.append(f"{left_out} bytes before the mark of an earlier attempt's end were left out")
    if order.ended is not None and state.st_mtime > order.ended + LATE:
        partial = True
        notes.append("written to after the attempt ended: lines of a later run may be among these")
    return Answer("partial" if partial else "read", "; ".join(notes), bytes=read.bytes)


def _span(read: Counted, state: os.stat_result, order: Order) -> Span:
    """The whole file, unless its lines say that they are of another time altogether."""
    whole = Span(0, state.st_size, dated=False)
    times = Times(order.zone, state.st_mtime)
    if not (_mostly_dated(read(0, PROBE), times) and _mostly_dated(read(max(0, state.st_size - PROBE), PROBE), times)):
        return whole
    start = None if order.began is None else order.began - ZONES
    end = None if order.ended is None else order.ended + ZONES
    found = find_span(read, state.st_size, times, Window(start, end, order.zone))
    return found if found.stop > found.begin else whole


def _mostly_dated(text: bytes, times: Times) -> bool:
    rows = text.split(b"\n")[1:-1][:40]
    return len(rows) > 4 and sum(times.of(row) is not None for row in rows) * 2 > len(rows)


def _feed(read: Counted, pieces: list[tuple[int, int]], order: Order, selector: Selector) -> int:
    """Feed the bytes; returns how many were dropped because an earlier attempt had printed them."""
    zone = Zone(order.zone, None)
    dropped = fed = 0
    for number, (begin, stop) in enumerate(pieces):
        if number:
            selector.feed(b"\n")
        for block in _blocks(read, begin, stop):
            at = _after_marks(block, order.began, zone)
            if at:
                selector.restart()
                dropped, fed = dropped + fed + at, 0
            selector.feed(block[at:])
            fed += len(block) - at
    return dropped


def _blocks(read: Counted, begin: int, stop: int) -> Iterator[bytes]:
    """Blocks that end at a line's end, where lines are not longer than a block."""
    rest = b""
    while begin < stop and (piece := read(begin, min(BLOCK, stop - begin))):
        begin += len(piece)
        rest += piece
        cut = rest.rfind(b"\n") + 1 or (len(rest) if len(rest) > 4 * BLOCK else 0)
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def _after_marks(block: bytes, began: float | None, zone: Zone) -> int:
    """Where the bytes of this attempt begin: after the last mark from before its start."""
    if began is None or b"slurmstepd: error: *** " not in block:
        return 0
    at = 0
    for mark in _MARK.finditer(block):
        found = ISO.fullmatch(mark[1].decode("ascii", "replace"))
        stamp = from_iso(found) if found else None
        when = zone.wall(stamp) if stamp is not None else None
        if when is not None and when < began - 1:
            at = mark.end()
    return at
