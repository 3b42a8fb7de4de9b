"""When a node prints one thing a million times, each time with another number: count, keep the last few, move on.

A rule (and catalog key) of which enough distinct lines are kept gives a marker: bytes that stand in its lines, with the
key and the device. Further lines that hold it, and that no other rule could want, are counted without being decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attribution.engine import lines
from attribution.engine.hits import LAST, Hit
from attribution.engine.lines import Line
from attribution.engine.rules import Matcher, utf8
from attribution.engine.stamps import Stamp

MOST_MARKERS = 64
SHORTEST = 6
AROUND = 12
# Lines beyond the cap before a rule counts as flooding: few where lines carry no rank, many where ranks share a file.
PATIENCE, PATIENCE_WITH_RANKS = 40, 10_000
MOST_BODIES = 1024
RUN_AHEAD = 256 * 1024
_DIGITS = b"0123456789"


class Floods:
    """The markers of one source, by the rules that a candidate line may match."""

    def __init__(self) -> None:
        self._markers: dict[tuple[str, ...], list[bytes]] = {}
        self._beyond: dict[tuple[str, str], int] = {}
        self.counted: dict[tuple[str, ...], int] = {}
        self.late: dict[tuple[str, ...], deque[tuple[int, bytes]]] = {}

    def swallow(self, raw: bytes, number: int, names: tuple[str, ...]) -> bool:
        """Whether the line belongs to a flood; it is counted then, and kept if it is among the last."""
        for marker in self._markers.get(names, ()):
            if marker in raw:
                self.counted[names] += 1
                self.late[names].append((number, raw))
                return True
        return False

    def beyond(self, names: tuple[str, ...], symptom: str, matcher: Matcher, body: str, *, ranked: bool) -> None:
        """Note a hit beyond its cap; enough of them, of a rule that alone wants the line, make a marker."""
        if len(names) != 1:
            return
        key = (names[0], symptom)
        self._beyond[key] = self._beyond.get(key, 0) + 1
        known = self._markers.setdefault(names, [])
        if self._beyond[key] < (PATIENCE_WITH_RANKS if ranked else PATIENCE) or len(known) >= MOST_MARKERS:
            return
        marker = _marker(matcher, body)
        if len(marker) >= SHORTEST and marker not in known:
            known.append(marker)
            self.counted.setdefault(names, 0)
            self.late.setdefault(names, deque(maxlen=LAST))


def _marker(matcher: Matcher, body: str) -> bytes:
    """The key with what stands around it, or the beginning of the match."""
    raw = utf8(body)
    hit = matcher.pattern.search(raw)
    if hit is None:
        return b""
    if matcher.rule.rows is not None:
        start, end = hit.span(matcher.pattern.groupindex[b"key"])
        return raw[max(0, start - AROUND) : end + 1]
    return raw[hit.start() : min(hit.end(), hit.start() + 2 * AROUND)]


class Known:
    """A body that was seen before, with the prefix (stamp, host, rank) that it last came with."""

    __slots__ = ("hits", "prefix", "rules")

    def __init__(self, prefix: bytes, rules: tuple[str, ...], hits: list[Hit]) -> None:
        self.prefix, self.rules, self.hits = prefix, rules, hits

    def same_second(self, prefix: bytes) -> bool:
        """Whether the prefix is the same but for the fraction of a second."""
        mine = self.prefix
        if prefix == mine:
            return True
        cut = prefix.rfind(b".") + 1
        if cut == 0 or prefix[:cut] != mine[:cut] or prefix[cut:].lstrip(_DIGITS) != mine[cut:].lstrip(_DIGITS):
            return False
        # What stands behind the last dot must be a time's fraction: a host's address ends in a dot and digits too.
        return mine[cut - 4 : cut - 3] == b":" or mine[: cut - 1].rpartition(b"[")[2].strip(_DIGITS + b" ") == b""

    def again(self, number: int, raw: bytes) -> None:
        for hit in self.hits:
            hit.count += 1
            hit.late = (number, raw)


class Repeats:
    """Lines whose body was seen before: counted without being decoded, one after the other."""

    def __init__(self, crosses: Callable[[Stamp | None, Stamp | None], bool]) -> None:
        """`crosses` says whether two stamps may not be folded into one event."""
        self._crosses = crosses
        self._bodies: dict[bytes, Known] = {}
        self._lengths: tuple[int, ...] = ()
        self.length = 0

    def take(self, raw: bytes, number: int, names: tuple[str, ...]) -> bool:
        """Count the line if its body, rules and second were seen before; False where it must be read."""
        for length in self._lengths:
            known = self._bodies.get(raw[length:])
            if known is not None and known.rules == names and known.same_second(raw[:length]):
                known.again(number, raw)
                self.length = length
                return True
        return False

    def remember(self, raw: bytes, parsed: Line, names: tuple[str, ...], hits: list[Hit]) -> None:
        """Keep the body of a line that was read, with what it gave."""
        body = parsed.body.encode("utf-8", "replace")
        length = len(raw) - len(body)
        if length <= 0 or raw[length:] != body:
            return
        if length not in self._lengths:
            self._lengths = (length, *self._lengths[:3])
        if len(self._bodies) >= MOST_BODIES:
            self._bodies.clear()
        self._bodies[body] = Known(raw[:length], names, hits)

    def run(self, block: bytes, at: int, number: int) -> tuple[int, int]:
        """Count the lines from `at` on that repeat known bodies; where it ends, and at which line."""
        length, bodies, last, ahead = self.length, self._bodies, b"", 0
        while length > 0 and at < len(block):
            # One line is looked at first, then more and more: most repeats stand alone.
            stop = block.find(b"\n", at + ahead)
            ahead = min(4 * ahead + 1024, RUN_AHEAD)
            for raw in block[at : len(block) if stop < 0 else stop].split(b"\n"):
                known = bodies.get(raw[length:])
                if known is None:
                    self.length = 0
                    return at, number
                prefix = raw[:length]
                if prefix != last and not known.same_second(prefix) and not self._next_second(known, prefix, raw):
                    self.length = 0
                    return at, number
                last = prefix if prefix == known.prefix else b""
                known.again(number, raw)
                at = min(at + len(raw) + 1, len(block))
                number += 1
            if stop < 0:
                break
        return at, number

    def _next_second(self, known: Known, prefix: bytes, raw: bytes) -> bool:
        """Whether the same body in another second folds into the same events; they take its time then."""
        parsed = lines.parse(raw.decode("utf-8", "replace"))
        if parsed.stamp is None or any(hit.host != parsed.host or hit.rank != parsed.rank for hit in known.hits):
            return False
        for hit in known.hits:
            if hit.late is not None and not hit.late[1].startswith(known.prefix):
                hit.settle()
        if any(self._crosses(hit.last, parsed.stamp) for hit in known.hits):
            return False
        for hit in known.hits:
            hit.last = parsed.stamp
        known.prefix = prefix
        return True
