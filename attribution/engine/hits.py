"""What a source reader keeps: folded hits, bodies seen before, accumulators that are being fed."""

from __future__ import annotations

from typing import Any

from attribution.engine import lines
from attribution.engine.lines import Line
from attribution.engine.stamps import Stamp
from attribution.model import EmitType

OWN_LINES, RAW_LINES = 200, 5000


class Hit:
    """One folded hit: what matched, where first and last, how often."""

    __slots__ = (
        "count",
        "emit",
        "fields",
        "first",
        "host",
        "last",
        "late",
        "line",
        "own",
        "part",
        "rank",
        "rule",
        "stream",
        "symptom",
        "texts",
    )

    def __init__(
        self, rule: str, symptom: str, emit: EmitType, fields: dict[str, str], line: int, parsed: Line, text: str
    ) -> None:
        self.rule, self.symptom, self.emit, self.fields = rule, symptom, emit, fields
        self.host, self.rank, self.stream = parsed.host, parsed.rank, parsed.stream
        self.line, self.count = line, 1
        # An accumulator may give several events for one line: they are told apart by this.
        self.part = 0
        self.first: Stamp | None = parsed.stamp
        self.last: Stamp | None = parsed.stamp
        self.own = parsed.stamp is not None and parsed.stamp.kind != "delta"
        self.texts: list[tuple[int, str]] = [(line, text)]
        # The last repetition, not yet decoded: a flood must not cost a decode and a parse per line.
        self.late: tuple[int, bytes] | None = None

    def settle(self) -> None:
        """Take in the last repetition that was only counted."""
        if self.late is not None:
            number, raw = self.late
            self.late = None
            text = raw.decode("utf-8", "replace").replace("\x00", "\ufffd").rstrip("\r")
            self.again(number, lines.parse(text), text)
            self.count -= 1

    def again(self, line: int, parsed: Line, text: str) -> None:
        self.count += 1
        self.last = parsed.stamp or self.last
        self.texts[1:] = [(line, text)]


class Open:
    """An accumulator that is being fed."""

    __slots__ = ("hit", "left_own", "left_raw", "lines", "name", "stream")

    def __init__(self, name: str, reader: Any, hit: Hit, stream: str) -> None:
        self.name, self.lines, self.hit, self.stream = name, reader, hit, stream
        self.left_own, self.left_raw = OWN_LINES, RAW_LINES
