"""Which lines of a source are worth carrying: what a file, a node, journald or Loki gives for the rules' needles.

Property, tested on every case: the verdict from the selection equals the verdict from the whole log.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable

from attribution.engine import lines
from attribution.engine.hits import DISTINCT, LAST, RAW_LINES
from attribution.engine.lines import MAX_LINE
from attribution.engine.rules import RuleSet
from attribution.engine.source import MAX_TAIL, TAIL_KEPT
from attribution.engine.times import HEAD, LOOK_BACK, stamp_of
from attribution.model import Frozen

SELECTED_MOST = 16 << 20
TAIL_LINES = 3000
# Beyond so many hits of the same rules, and so many ranks, lines are not told apart any more.
FLOOD, MOST_KEYS = 20_000, 1024
# Lines that can name a rank; only these are parsed for it.
_RANKED = re.compile(rb"ank|(?:^|[\] ]) {0,5}\d{1,7}: |<std(?:out|err)>")

Key = tuple[tuple[str, ...], int | None]
# By the place of its first byte: the line's number, and the line or, where carriage returns stand in it, one piece.
Kept = dict[int, tuple[int, bytes]]


class Selection(Frozen, frozen=True, kw_only=True):
    """Kept lines as (number, text), the rules of which a cap cut hits, and how many lines and bytes were looked at."""

    lines: tuple[tuple[int, bytes], ...]
    cut: tuple[str, ...]
    total: int
    bytes: int = 0


def needle_lists(rules: RuleSet, kinds: Iterable[str]) -> tuple[list[str], list[str]]:
    """(needles of rules that need their own line only, needles of rules that need lines around it)."""
    plain: set[str] = set()
    context: set[str] = set()
    for kind in kinds:
        for needle, names in rules.needles(kind).items():
            for name in names:
                (context if context_of(rules, name)[1] or context_of(rules, name)[0] else plain).add(needle)
    return sorted(plain - context), sorted(context)


def context_of(rules: RuleSet, name: str) -> tuple[int, int]:
    """Lines before and after a hit that the rule needs; accumulators need what they may be fed."""
    if name in rules.accumulators:
        return 0, RAW_LINES
    rule = rules.matchers[name].rule
    return rule.before, rule.after


class Selector:
    """Selects while blocks come in. Holds the kept lines (at most `most` bytes), one block, and the source's tail.

    Kept are: per set of rules and rank the first `keep` hits and the last `last`; the lines around a hit that a rule
    needs; for a hit without a time the last line before it that has one; the tail where progress rules look; and the
    first and the last line, which say what was looked at. Lines that `foreign` is true for are no hits.
    """

    def __init__(
        self,
        rules: RuleSet,
        kind: str,
        *,
        keep: int = DISTINCT,
        last: int = LAST,
        after: int = RAW_LINES,
        most: int = SELECTED_MOST,
        foreign: Callable[[bytes], bool] | None = None,
    ) -> None:
        self._rules, self._prefilter, self._printed = rules, rules.prefilter(kind), lines.printed((kind,))
        self._progress = bool(rules.progress(kind))
        self._keep, self._last, self._after, self._most, self._foreign = keep, last, after, most, foreign
        self._around: dict[tuple[str, ...], tuple[int, int]] = {}
        self.restart()

    def restart(self) -> None:
        """Forget all that was kept: what came so far does not belong to this attempt."""
        self._kept: Kept = {}
        self._late: dict[Key, deque[Kept]] = {}
        self._counts: dict[Key, int] = {}
        self._cut: set[str] = set()
        self._held = self._held_late = self._number = self.bytes = 0
        self._floods: dict[tuple[str, ...], int] = {}
        # The line that was looked at last and what its time is; and the line whose pieces asked last for the time before it.
        self._timed: tuple[int, Kept] = (-1, {})
        self._asked: tuple[int, Kept] = (-1, {})
        self._until = -1
        # How many bytes came before the text at hand.
        self._base = 0
        self._carry = self._pending = self._tail = b""
        self._latest: tuple[int, tuple[int, bytes]] = (0, (0, b""))
        self._in_line = False

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def feed(self, block: bytes) -> None:
        """Take the next bytes of the source."""
        self.bytes += len(block)
        data = self._pending + block
        cut = data.rfind(b"\n") + 1
        self._pending = data[cut:]
        if cut:
            self._whole(data[:cut])
        if len(self._pending) > MAX_TAIL:
            # A line that never ends: one byte more than is matched, so that the reader still says that it was cut.
            cut = self._pending.rfind(b"\r") + 1 if self._printed else 0
            if cut:
                self._whole(self._pending[:cut])
            self._pending = self._pending[cut:][: MAX_LINE + 1]

    def finish(self) -> Selection:
        """What is worth carrying. Nothing can be fed after it."""
        if self._pending or self._in_line:
            self._whole(self._pending + b"\n")
            self._pending = b""
        for queue in self._late.values():
            for piece in queue:
                self._kept.update(piece)
        if self._progress:
            self._keep_tail()
        if self._number:
            self._kept.setdefault(*self._latest)
        pieces: dict[int, list[bytes]] = {}
        for _, (number, raw) in sorted(self._kept.items()):
            pieces.setdefault(number, []).append(raw)
        return Selection(
            lines=tuple((number, b"".join(found)) for number, found in pieces.items()),
            cut=tuple(sorted(self._cut)),
            total=self._number,
            bytes=self.bytes,
        )

    def _whole(self, data: bytes) -> None:
        """Lines to their end; or the pieces of one that has not ended."""
        text, skip = self._carry + data, len(self._carry)
        if self._base + skip == 0:
            self._put(*self._at(text, self._piece(text, 0), 0))
        at, number = skip, self._number
        for start, end, names in self._prefilter.candidates(text):
            if start < skip:
                continue
            self._follow(text, at, start, number)
            number += text.count(b"\n", at, start)
            at = start
            raw = text[start:end]
            if self._foreign is None or not self._foreign(raw):
                self._hit(text, start, raw, number, names)
        self._follow(text, at, len(text), number)
        self._number += data.count(b"\n")
        self._in_line = not data.endswith(b"\n")
        self._tail = (self._tail + data)[-TAIL_KEPT:] if len(data) < TAIL_KEPT else data[-TAIL_KEPT:]
        if not self._in_line:
            last = text.rfind(b"\n", 0, len(text) - 1) + 1
            self._latest = self._at(text, self._piece(text, last), self._number - 1)
        keep = _back(text, len(text), LOOK_BACK + 1)
        if len(text) - keep > MAX_TAIL:
            keep = text.find(b"\n", len(text) - MAX_TAIL) + 1 or len(text) - MAX_TAIL
        self._base, self._carry = self._base + keep, text[keep:]

    def _at(self, text: bytes, piece: tuple[int, bytes], number: int) -> tuple[int, tuple[int, bytes]]:
        """The piece under its place. A later piece keeps the carriage return before it: it is not its line's beginning."""
        start, raw = piece
        lead = b"\r" if self._printed and text.startswith(b"\r", start - 1) and start > 0 else b""
        return self._base + start, (number, lead + raw[: MAX_LINE + 1])

    def _piece(self, text: bytes, start: int) -> tuple[int, bytes]:
        """What stands from `start` to the next newline or carriage return, as much of it as is matched."""
        line = text[start : start + MAX_LINE + 1].partition(b"\n")[0]
        return start, line.partition(b"\r")[0] if self._printed else line

    def _shown(self, text: bytes, start: int) -> tuple[int, bytes]:
        """Of the line at `start` what a terminal shows in the end, and where that stands."""
        end = text.find(b"\n", start)
        line = text[start : len(text) if end < 0 else end]
        if not self._printed:
            return start, line
        line = line.rstrip(b"\r")
        piece = lines.shown(line)
        return start + len(line) - len(piece), piece

    # ---- hits -------------------------------------------------------------------------------------------------------

    def _hit(self, text: bytes, start: int, raw: bytes, number: int, names: tuple[str, ...]) -> None:
        flood = self._floods[names] = self._floods.get(names, 0) + 1
        place, own = self._at(text, (start, raw), number)
        if flood > FLOOD:
            self._keep_late((names, None), {place: own})
            return
        rank = self._parse(raw).rank if _RANKED.search(raw) else None
        key = (names, rank) if len(self._counts) < MOST_KEYS else (names, None)
        seen = self._counts[key] = self._counts.get(key, 0) + 1
        if seen <= self._keep and self._held < self._most:
            before, after = self._context(names)
            self._until = max(self._until, number + after)
            for piece in (self._before(text, start, number, before), self._time_of(text, start, number)):
                for at, line in piece.items():
                    self._put(at, line)
            self._put(place, own)
        else:
            self._keep_late(key, {**self._time_of(text, start, number), place: own})

    def _parse(self, raw: bytes) -> lines.Line:
        return lines.parse(raw[:MAX_LINE].decode("utf-8", "replace"), printed=self._printed)

    def _keep_late(self, key: Key, piece: Kept) -> None:
        """Keep one of the last hits, in the place of an older one."""
        self._cut.update(key[0])
        queue = self._late.setdefault(key, deque())
        if queue and (len(queue) == self._last or self._held_late >= self._most):
            self._held_late -= _size(queue.popleft())
        if self._held_late < self._most:
            queue.append(piece)
            self._held_late += _size(piece)

    def _context(self, names: tuple[str, ...]) -> tuple[int, int]:
        found = self._around.get(names)
        if found is None:
            all_of = [context_of(self._rules, name) for name in names]
            found = (max(b for b, _ in all_of), max(min(a, self._after) for _, a in all_of))
            self._around[names] = found
        return found

    def _put(self, place: int, line: tuple[int, bytes]) -> None:
        if place not in self._kept:
            self._kept[place] = line
            self._held += len(line[1])

    def _follow(self, text: bytes, at: int, stop: int, number: int) -> None:
        """Keep the lines of text[at:stop] that a rule wants after an earlier hit."""
        while number <= self._until and self._held < self._most and (end := text.find(b"\n", at, stop)) >= 0:
            self._put(*self._at(text, self._shown(text, at), number))
            at, number = end + 1, number + 1

    def _before(self, text: bytes, start: int, number: int, count: int) -> Kept:
        found: Kept = {}
        start = text.rfind(b"\n", 0, start) + 1 if count else 0
        while count > 0 and start > 0:
            start = text.rfind(b"\n", 0, start - 1) + 1
            number, count = number - 1, count - 1
            found.update([self._at(text, self._shown(text, start), number)])
        return found

    def _time_of(self, text: bytes, start: int, number: int) -> Kept:
        """The last line before this one that has a time, where it has none itself; what was looked at once is not again."""
        first = start == 0 or text.startswith(b"\n", start - 1)
        if _says_time(piece := self._piece(text, start)):
            own = dict([self._at(text, piece, number)])
            if first:
                self._timed = (number, own)
            return own
        if self._asked[0] == number:
            return self._asked[1]
        looked, found = self._timed
        at, start, result = number - 1, text.rfind(b"\n", 0, start) + 1, Kept()
        while at > (looked if looked < number else -1) and number - at <= LOOK_BACK and start > 0:
            start = text.rfind(b"\n", 0, start - 1) + 1
            if _says_time(piece := self._piece(text, start)):
                result = dict([self._at(text, piece, at)])
                break
            at -= 1
        if at == looked and not result:
            result = {place: line for place, line in found.items() if number - line[0] <= LOOK_BACK}
        self._asked = (number, result)
        if looked != number:
            self._timed = self._asked
        return result

    def _keep_tail(self) -> None:
        text = self._tail
        self._base, self._timed = self._base + len(self._carry) - len(text), (-1, {})
        self._asked = self._timed
        at, number = 0, self._number - text.count(b"\n")
        # The tail may begin in the middle of its first line.
        first = max(number + (number > 0), self._number - TAIL_LINES)
        while (end := text.find(b"\n", at)) >= 0:
            if number == first:
                for place, line in self._time_of(text, at, number).items():
                    self._kept.setdefault(place, line)
            if number >= first:
                self._put(*self._at(text, self._shown(text, at), number))
            at, number = end + 1, number + 1


def select(
    rules: RuleSet, kind: str, text: bytes, *, keep: int = DISTINCT, last: int = LAST, after: int = RAW_LINES
) -> Selection:
    """The lines of a whole text that matter, as Selector says."""
    selector = Selector(rules, kind, keep=keep, last=last, after=after)
    selector.feed(text)
    return selector.finish()


def _says_time(piece: tuple[int, bytes]) -> bool:
    return stamp_of(piece[1][:HEAD]) is not None


def _size(piece: Kept) -> int:
    return sum(len(raw) for _, raw in piece.values())


def _back(text: bytes, at: int, count: int) -> int:
    """Where the line begins that is `count` lines before the end of the text."""
    for _ in range(count):
        if at <= 0:
            break
        at = text.rfind(b"\n", 0, at - 1) + 1
    return at


def as_text(selection: Selection) -> bytes:
    """The selection as one text, in order."""
    return b"\n".join(text for _, text in selection.lines)
