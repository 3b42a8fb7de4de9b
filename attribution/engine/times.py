"""Which times the lines of a source say: its first and last one, and the one that counts for a line without its own."""

from __future__ import annotations

from collections import deque

from attribution.engine import lines
from attribution.engine.stamps import Stamp

LOOK_BACK, HEAD, FIRST_LINES = 40, 400, 200


class Times:
    """Fed with every line's beginning, block by block; where blocks end changes nothing."""

    def __init__(self) -> None:
        # The line that was asked for its time last, the time that counted there, and the line that gave it. What a line's
        # beginning says counts for later lines; a later piece of the same line is asked for the lines before it.
        self._timed: tuple[int, Stamp | None, int] = (0, None, 0)
        self._asked: tuple[int, Stamp | None] = (0, None)
        # The beginnings of the last lines before the block at hand.
        self._heads: deque[bytes] = deque(maxlen=LOOK_BACK)
        # The beginning of a line whose first pieces were read before it ended.
        self.begun = b""
        self._first: Stamp | None = None
        self._first_hit: Stamp | None = None
        self._first_left = FIRST_LINES

    def begin(self, pieces: bytes) -> None:
        """Remember how a line begins that does not end in this block."""
        self.begun = self.begun or pieces[:HEAD]

    def note(self, block: bytes, start: int, stop: int) -> None:
        """Note the time of the source's first lines, and the beginnings of its last ones."""
        if start == stop:
            return
        at = start
        while self._first_left > 0 and self._first is None and at < stop:
            end = block.find(b"\n", at, stop)
            head = (at == 0 and self.begun) or block[at : min(at + HEAD, stop if end < 0 else end)]
            self._first = stamp_of(head)
            at, self._first_left = stop if end < 0 else end + 1, self._first_left - 1
        found: list[bytes] = []
        end = stop - 1 if block[start:stop].endswith(b"\n") else stop
        while end >= start and len(found) < LOOK_BACK:
            begin = block.rfind(b"\n", start, end) + 1 or start
            found.append((begin == 0 and self.begun) or block[begin : min(end, begin + HEAD)])
            end = begin - 1
        self._heads.extend(reversed(found))
        self.begun = b""

    def said(self, number: int, stamp: Stamp, *, first: bool) -> None:
        """A line that a rule may want says its own time; `first`: in its beginning."""
        if first:
            self._timed = (number, stamp, number)
        self._first_hit = self._first_hit or stamp

    def before(self, block: bytes, start: int, number: int) -> Stamp | None:
        """The time of the last of the 40 lines before this one that has one; what was looked at once is not again."""
        if self._asked[0] == number:
            return self._asked[1]
        looked, stamp, giver = self._timed
        own = looked == number
        at, heads = block.rfind(b"\n", 0, start) + 1, reversed(self._heads)
        for line in range(number - 1, max(number - LOOK_BACK, 1) - 1, -1):
            if line == looked:
                break
            if at > 0:
                begin = block.rfind(b"\n", 0, at - 1) + 1
                head = (begin == 0 and self.begun) or block[begin : min(at - 1, begin + HEAD)]
                at = begin
            else:
                head = next(heads, b"")
            found = stamp_of(head)
            if found is not None:
                stamp, giver = found, line
                break
        else:
            stamp = None
        if number - giver > LOOK_BACK:
            stamp = None
        self._asked = (number, stamp)
        if not own:
            self._timed = (number, stamp, giver)
        return stamp

    @property
    def first(self) -> Stamp | None:
        """The first time that the first lines say, else the first line that a rule wanted."""
        return self._first or self._first_hit

    @property
    def last(self) -> Stamp | None:
        """The last time that the last lines say."""
        return next((stamp for head in reversed(self._heads) if (stamp := stamp_of(head)) is not None), None)

    @property
    def dated(self) -> Stamp | None:
        """A stamp that says its year, if the first or the last one does."""
        return next((s for s in (self.first, self.last) if s is not None and s.kind in ("wall", "naive")), None)


def stamp_of(head: bytes) -> Stamp | None:
    """The time that a line says for itself, from its beginning."""
    stamp = lines.only_stamp(head.partition(b"\r")[0].decode("utf-8", "replace"))
    return None if stamp is None or stamp.kind == "delta" else stamp
