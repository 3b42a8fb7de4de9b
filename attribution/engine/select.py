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
from attribution.engine.source import LOOK_BACK, MAX_TAIL, TAIL_KEPT
from attribution.model import Frozen

SELECTED_MOST = 16 << 20
TAIL_LINES = 3000
# Beyond so many hits of the same rules, and so many ranks, lines are not told apart any more.
FLOOD, MOST_KEYS = 20_000, 1024
# Lines that can name a rank; only these are parsed for it.
_RANKED = re.compile(rb"ank|(?:^|[\] ]) {0,5}\d{1,7}: |<std(?:out|err)>")

Key = tuple[tuple[str, ...], int | None]
Kept = dict[int, bytes]


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
        self._rules, self._prefilter = rules, rules.prefilter(kind)
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
        self._timed: tuple[int, Kept] = (-1, {})
        self._until = -1
        self._carry = self._pending = self._tail = self._latest = b""
        self._skipping = False

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def feed(self, block: bytes) -> None:
        """Take the next bytes of the source."""
        self.bytes += len(block)
        data = self._pending + block
        cut = data.rfind(b"\n") + 1
        self._pending = data[cut:]
        if len(self._pending) > MAX_TAIL:
            # A line that never ends: one byte more than is matched, so that the reader still says that it was cut.
            self._pending = self._pending[: MAX_LINE + 1]
        if cut:
            self._whole(data[:cut])

    def finish(self) -> Selection:
        """What is worth carrying. Nothing can be fed after it."""
        if self._pending:
            self._whole(self._pending)
            self._pending = b""
        for queue in self._late.values():
            for piece in queue:
                self._kept.update(piece)
        if self._progress:
            self._keep_tail()
        if self._number:
            self._kept.setdefault(self._number - 1, self._latest)
        return Selection(
            lines=tuple(sorted(self._kept.items())), cut=tuple(sorted(self._cut)), total=self._number, bytes=self.bytes
        )

    def _whole(self, data: bytes) -> None:
        text, skip = self._carry + data, len(self._carry)
        if self._number == 0:
            self._put(0, _line(text, 0))
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
        self._number += data.count(b"\n") + (0 if data.endswith(b"\n") else 1)
        self._latest = _line(data, data.rfind(b"\n", 0, len(data) - 1) + 1)
        self._tail = (self._tail + data)[-TAIL_KEPT:] if len(data) < TAIL_KEPT else data[-TAIL_KEPT:]
        self._carry = text[_back(text, len(text), LOOK_BACK + 1) :][-MAX_TAIL:]
        self._carry = self._carry[self._carry.find(b"\n") + 1 :] if len(self._carry) == MAX_TAIL else self._carry

    # ---- hits -------------------------------------------------------------------------------------------------------

    def _hit(self, text: bytes, start: int, raw: bytes, number: int, names: tuple[str, ...]) -> None:
        flood = self._floods[names] = self._floods.get(names, 0) + 1
        if flood > FLOOD:
            self._keep_late((names, None), {number: raw[: MAX_LINE + 1]})
            return
        rank = lines.parse(raw[:MAX_LINE].decode("utf-8", "replace")).rank if _RANKED.search(raw) else None
        key = (names, rank) if len(self._counts) < MOST_KEYS else (names, None)
        seen = self._counts[key] = self._counts.get(key, 0) + 1
        if seen <= self._keep and self._held < self._most:
            before, after = self._context(names)
            self._until = max(self._until, number + after)
            for piece in (self._before(text, start, number, before), self._time_of(text, start, number)):
                for n, line in piece.items():
                    self._put(n, line)
            self._put(number, raw)
        else:
            self._keep_late(key, {**self._time_of(text, start, number), number: raw[: MAX_LINE + 1]})

    def _keep_late(self, key: Key, piece: Kept) -> None:
        """Keep one of the last hits, in the place of an older one."""
        self._cut.update(key[0])
        queue = self._late.setdefault(key, deque())
        if queue and (len(queue) == self._last or self._held_late >= self._most):
            self._held_late -= sum(map(len, queue.popleft().values()))
        if self._held_late < self._most:
            queue.append(piece)
            self._held_late += sum(map(len, piece.values()))

    def _context(self, names: tuple[str, ...]) -> tuple[int, int]:
        found = self._around.get(names)
        if found is None:
            all_of = [context_of(self._rules, name) for name in names]
            found = (max(b for b, _ in all_of), max(min(a, self._after) for _, a in all_of))
            self._around[names] = found
        return found

    def _put(self, number: int, raw: bytes) -> None:
        if number not in self._kept:
            self._kept[number] = raw[: MAX_LINE + 1]
            self._held += min(len(raw), MAX_LINE)

    def _follow(self, text: bytes, at: int, stop: int, number: int) -> None:
        """Keep the lines of text[at:stop] that a rule wants after an earlier hit."""
        while at < stop and number <= self._until and self._held < self._most:
            raw = _line(text, at)
            self._put(number, raw)
            at, number = at + len(raw) + 1, number + 1

    def _before(self, text: bytes, start: int, number: int, count: int) -> Kept:
        found: Kept = {}
        while count > 0 and start > 0:
            start = text.rfind(b"\n", 0, start - 1) + 1
            number, count = number - 1, count - 1
            found[number] = _line(text, start)
        return found

    def _time_of(self, text: bytes, start: int, number: int) -> Kept:
        """The last line before this one that has a time, where it has none itself; what was looked at once is not again."""
        looked, found = self._timed
        at, result = number, Kept()
        while at > looked and number - at <= LOOK_BACK:
            if lines.only_stamp(text[start : start + 400].split(b"\n", 1)[0].decode("utf-8", "replace")) is not None:
                result = {at: _line(text, start)}
                break
            if start <= 0:
                break
            start, at = text.rfind(b"\n", 0, start - 1) + 1, at - 1
        if at == looked and found and number - next(iter(found)) <= LOOK_BACK:
            result = found
        self._timed = (number, result)
        return result

    def _keep_tail(self) -> None:
        whole = self._tail.removesuffix(b"\n").split(b"\n")
        if self._number > len(whole):
            whole = whole[1:]
        whole = whole[-TAIL_LINES:]
        for n, raw in enumerate(whole, self._number - len(whole)):
            self._put(n, raw)
        first, self._timed = self._number - len(whole), (-1, {})
        stamped = self._time_of(self._tail, self._tail.find(whole[0]) if whole else 0, first) if whole else {}
        self._kept.update({n: raw for n, raw in stamped.items() if n not in self._kept})


def select(
    rules: RuleSet, kind: str, text: bytes, *, keep: int = DISTINCT, last: int = LAST, after: int = RAW_LINES
) -> Selection:
    """The lines of a whole text that matter, as Selector says."""
    selector = Selector(rules, kind, keep=keep, last=last, after=after)
    selector.feed(text)
    return selector.finish()


def _line(text: bytes, start: int) -> bytes:
    end = text.find(b"\n", start)
    return text[start : len(text) if end < 0 else end]


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
