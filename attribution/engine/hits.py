"""What a source reader keeps: folded hits, bodies seen before, accumulators that are being fed."""

from __future__ import annotations

from collections import deque
from typing import Any

from attribution.engine import lines
from attribution.engine.lines import Line
from attribution.engine.stamps import Stamp
from attribution.model import EmitType

OWN_LINES, RAW_LINES = 200, 5000
DISTINCT, LAST = 200, 20
# Beyond a source's share of hits: so many more of each rule; beyond so many characters held: only a line's beginning.
FEW, MOST_CHARS, SHORT = 20, 16 << 20, 512
MOST_APP, MOST_OTHER, LEAST = 40_000, 100_000, 1_000


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
        # One line may give several hits of a rule (of its pieces, of an accumulator): they are told apart by this.
        self.part = ""
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
        self.texts[1:] = [(line, text[:SHORT])]


class Kept:
    """The hits that a source keeps: of each rule, symptom and rank the first `DISTINCT` and the last `LAST` bodies.

    Once `most` of them are held, ranks are not told apart any more and few more are kept, so that neither a million
    ranks nor every rule at once fills the memory. The rest is counted in `overflow`.
    """

    def __init__(self, most: int) -> None:
        self.hits: list[Hit] = []
        self.overflow: dict[tuple[str, str], int] = {}
        self._most, self._held, self._chars = most, 0, 0
        self._seen: dict[tuple[str, str, int | None], int] = {}
        self._late: dict[tuple[str, str, int | None], deque[Hit]] = {}

    def keep(self, hit: Hit) -> bool:
        """Take a hit with a new body; False where its kind is beyond the cap."""
        full = self._held >= self._most
        key = (hit.rule, hit.symptom, None if full else hit.rank)
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if self._chars >= MOST_CHARS:
            hit.texts[0] = (hit.line, hit.texts[0][1][:SHORT])
            hit.fields = {key: value[:SHORT] for key, value in hit.fields.items()}
        if seen <= (FEW if full else DISTINCT):
            self._count(hit)
            self.hits.append(hit)
            return True
        self.overflow[key[:2]] = self.overflow.get(key[:2], 0) + 1
        late = self._late.setdefault(key, deque(maxlen=LAST))
        if len(late) < LAST:
            self._count(hit)
        late.append(hit)
        return False

    def _count(self, hit: Hit) -> None:
        self._held += 1
        for text in (hit.texts[0][1], *hit.fields.values()):
            self._chars += len(text) if text.isascii() else 4 * len(text)

    def late(self) -> list[Hit]:
        """The last hits of what was beyond a cap."""
        return [hit for _, queue in sorted(self._late.items(), key=repr) for hit in queue]


class Open:
    """An accumulator that is being fed."""

    __slots__ = ("hit", "left_own", "left_raw", "lines", "name", "stream")

    def __init__(self, name: str, reader: Any, hit: Hit, stream: str) -> None:
        self.name, self.lines, self.hit, self.stream = name, reader, hit, stream
        self.left_own, self.left_raw = OWN_LINES, RAW_LINES
