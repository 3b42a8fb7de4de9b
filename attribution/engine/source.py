"""Reading one source: blocks in, folded hits out. Memory is bounded whatever the source holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

from attribution.bundle import Source
from attribution.engine import lines
from attribution.engine.flood import Floods, Repeats
from attribution.engine.hits import MOST_APP, Hit, Kept, Open
from attribution.engine.lines import MAX_LINE, Line
from attribution.engine.match import Prefilter
from attribution.engine.rules import Matcher, RuleSet, utf8
from attribution.engine.stamps import Stamp, Zone
from attribution.rule import Accumulated, listed, sound, told

MAX_TAIL = 1 << 20
GAP = 600.0
MAX_SEEN, MAX_SEEN_CHARS = 4096, 4 << 20
LOOK_BACK, HEAD, FIRST_LINES = 40, 400, 200
MAX_ACCUMULATORS = 400
TAIL_KEPT = 256 * 1024
CHUNK = 4 << 20


class SourceReader:
    """State of one source. Feed it with `ingest` in order; it keeps at most about `most` hits."""

    def __init__(
        self, source: Source, rules: RuleSet, prefilter: Prefilter, zone: Zone, edges: tuple[float, ...], most: int = MOST_APP
    ) -> None:
        self.source, self._rules, self._prefilter, self._zone = source, rules, prefilter, zone
        self._edges = edges
        self._matchers: dict[str, Matcher] = rules.matchers
        self._kept = Kept(most)
        self.bytes = self.lines = 0
        self.cut_lines = 0
        self.crashes: list[tuple[str, str]] = []
        self.rank_hosts: dict[int, set[str]] = {}
        self.tail = b""
        self._pending = b""
        self._seen: dict[tuple[str, str | None, int | None, bool], list[Hit]] = {}
        self._seen_chars = 0
        self._open: list[Open] = []
        self._started = 0
        self._repeats = Repeats(self._crosses)
        self._floods = Floods()
        self._keeps_tail = bool(rules.progress(source.kind))
        # The line that was asked for its time last, the time that counted there, and the line that gave it.
        self._timed: tuple[int, Stamp | None, int] = (0, None, 0)
        # The beginnings of the last lines before the block at hand: where blocks end must not change what is found.
        self._heads: deque[bytes] = deque(maxlen=LOOK_BACK)
        self._first: Stamp | None = None
        self._first_hit: Stamp | None = None
        self._first_left = FIRST_LINES

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def ingest(self, block: bytes, *, last: bool = False) -> None:
        """Take the next bytes of the source; `last` ends it (a line without newline counts then)."""
        self.bytes += len(block)
        data = self._pending + block if self._pending else block
        cut = len(data) if last else data.rfind(b"\n") + 1
        self._pending = data[cut:]
        whole = data[:cut] if cut < len(data) else data
        if len(self._pending) > MAX_TAIL:
            self._skip_long_line()
        if whole:
            self._whole(whole)
        if last:
            self._close_all()

    def _skip_long_line(self) -> None:
        """A line that never ends: its head is kept, the rest is not held in memory."""
        self._pending = self._pending[: MAX_LINE + 1]

    def _whole(self, block: bytes) -> None:
        """Lines to their end. A run of repeated lines is counted before any needle is looked for."""
        at = 0
        while at < len(block):
            number = self.lines + 1
            if not self._open:
                ran, number = self._repeats.run(block, at, number)
                self._note_lines(block, at, ran)
                at, self.lines = ran, number - 1
            stop = block.find(b"\n", at + CHUNK) + 1 or len(block)
            chunk = block[at:stop] if at or stop < len(block) else block
            if chunk:
                self.lines = self._chunk(chunk, number) - 1
                self._note_lines(block, at, stop)
            at = stop
        if self._keeps_tail:
            self.tail = block[-TAIL_KEPT:] if len(block) >= TAIL_KEPT else (self.tail + block)[-TAIL_KEPT:]

    def _chunk(self, block: bytes, number: int) -> int:
        """Find and read the candidates of whole lines; returns the number of the line after them."""
        at, skip = 0, [0]
        for start, end, names in self._prefilter.candidates(block, skip):
            if self._open:
                number = self._feed(block, at, start, number)
            else:
                number += block.count(b"\n", at, start)
            raw, at = block[start:end], start
            if not self._open and self._repeats.take(raw, number, names):
                at, number = self._repeats.run(block, end + 1, number + 1)
                skip[0] = at
                continue
            self._repeats.length = 0
            if not self._open and self._floods.swallow(raw, number, names):
                continue
            self._candidate(block, start, raw, number, names)
            if self._open:
                at, number = min(end + 1, len(block)), number + 1
        if self._open:
            number, at = self._feed(block, at, len(block), number), len(block)
        return number + block.count(b"\n", at) + (0 if block.endswith(b"\n") else 1)

    def _note_lines(self, block: bytes, start: int, stop: int) -> None:
        """Note the time of the source's first lines, and the beginnings of its last ones."""
        at = start
        while self._first_left > 0 and self._first is None and at < stop:
            end = block.find(b"\n", at, stop)
            self._first = _stamp_of(block[at : min(at + HEAD, stop if end < 0 else end)])
            at, self._first_left = stop if end < 0 else end + 1, self._first_left - 1
        found: list[bytes] = []
        end = stop - 1 if block[start:stop].endswith(b"\n") else stop
        while end >= start and stop > start and len(found) < LOOK_BACK:
            begin = block.rfind(b"\n", start, end) + 1 or start
            found.append(block[begin : min(end, begin + HEAD)])
            end = begin - 1
        self._heads.extend(reversed(found))

    @property
    def first_stamp(self) -> Stamp | None:
        """The first time that the first lines say, else the first line that a rule wanted."""
        return self._first or self._first_hit

    @property
    def last_stamp(self) -> Stamp | None:
        """The last time that the last lines say."""
        return next((stamp for head in reversed(self._heads) if (stamp := _stamp_of(head)) is not None), None)

    @property
    def dated(self) -> Stamp | None:
        """A stamp that says its year, if the first or the last one does."""
        return next((s for s in (self.first_stamp, self.last_stamp) if s is not None and s.kind in ("wall", "naive")), None)

    # ---- lines ------------------------------------------------------------------------------------------------------

    def _text(self, raw: bytes) -> str:
        if len(raw) > MAX_LINE:
            self.cut_lines += 1
        return raw[:MAX_LINE].decode("utf-8", "replace").replace("\x00", "\ufffd").rstrip("\r")

    def _candidate(self, block: bytes, start: int, raw: bytes, number: int, names: tuple[str, ...]) -> None:
        text = self._text(raw)
        parsed = lines.parse(text)
        if parsed.rank is not None and parsed.host is not None and len(self.rank_hosts) < 100_000:
            self.rank_hosts.setdefault(parsed.rank, set()).add(parsed.host)
        stamp = parsed.stamp
        if stamp is None:
            parsed = parsed._replace(stamp=self._stamp_before(block, start, number))
        else:
            self._timed = (number, stamp, number)
            self._first_hit = self._first_hit or stamp
        consumed = bool(self._open) and self._offer(parsed, text)
        key = (parsed.body, parsed.host, parsed.rank, parsed.kernel)
        known = self._seen.get(key)
        if known is None:
            known = self._recognise(parsed, text, number, names, consumed)
            self._seen_chars += len(parsed.body)
            if len(self._seen) >= MAX_SEEN or self._seen_chars > MAX_SEEN_CHARS:
                self._seen.clear()
                self._seen_chars = len(parsed.body)
            self._seen[key] = known
        elif known:
            known[:] = [self._fold(hit, parsed, text, number) for hit in known]
        if stamp is None:
            for hit in known:
                hit.own = False
        elif len(raw) <= MAX_LINE and not any(name in self._rules.accumulators for name in names):
            self._repeats.remember(raw, parsed, names, known)
        self._start_accumulators(parsed, text, number, names)

    def _stamp_before(self, block: bytes, start: int, number: int) -> Stamp | None:
        """The time of the last of the 40 lines before this one that has one; what was looked at once is not again."""
        looked, stamp, giver = self._timed
        at, heads = start, reversed(self._heads)
        for line in range(number - 1, max(number - LOOK_BACK, 1) - 1, -1):
            if line == looked:
                break
            if at > 0:
                begin = block.rfind(b"\n", 0, at - 1) + 1
                head, at = block[begin : min(at - 1, begin + HEAD)], begin
            else:
                head = next(heads, b"")
            found = _stamp_of(head)
            if found is not None:
                stamp, giver = found, line
                break
        else:
            stamp = None
        if number - giver > LOOK_BACK:
            stamp = None
        self._timed = (number, stamp, giver)
        return stamp

    def _recognise(self, parsed: Line, text: str, number: int, names: tuple[str, ...], consumed: bool) -> list[Hit]:
        found: list[Hit] = []
        raw = utf8(parsed.body)
        for name in names:
            matcher = self._matchers.get(name)
            hit = matcher.match(parsed.body, raw) if matcher is not None else None
            if matcher is None or hit is None or (consumed and matcher.rule.fields.get("whole_line") == "no"):
                continue
            fields, row = hit
            made = Hit(name, row.symptom, row.emit, fields, number, parsed, text)
            found.append(made)
            if not self._kept.keep(made):
                self._floods.beyond(names, row.symptom, matcher, parsed.body, ranked=parsed.rank is not None)
        return found

    def _fold(self, hit: Hit, parsed: Line, text: str, number: int) -> Hit:
        hit.settle()
        if self._crosses(hit.last, parsed.stamp):
            hit = Hit(hit.rule, hit.symptom, hit.emit, hit.fields, number, parsed, text)
            self._kept.keep(hit)
            return hit
        hit.again(number, parsed, text)
        return hit

    def _crosses(self, before: Stamp | None, now: Stamp | None) -> bool:
        """Whether a fold would cross a gap of ten minutes, a boot, or an edge of the window."""
        if before is None or now is None or before.kind != now.kind:
            return False
        if now.value - before.value > GAP or (now.kind == "uptime" and now.value < before.value - 1):
            return True
        if not self._edges or now.kind == "uptime":
            return False
        a, b = self._zone.wall(before), self._zone.wall(now)
        return a is not None and b is not None and any(a < edge <= b for edge in self._edges)

    # ---- accumulators -----------------------------------------------------------------------------------------------

    def _start_accumulators(self, parsed: Line, text: str, number: int, names: tuple[str, ...]) -> None:
        for name in names:
            found = self._rules.accumulators.get(name)
            if found is None or self.source.kind not in found[0].reads:
                continue
            match = found[1].search(parsed.body)
            if match is None:
                continue
            if self._started >= MAX_ACCUMULATORS:
                self._kept.overflow[name, ""] = self._kept.overflow.get((name, ""), 0) + 1
                continue
            self._started += 1
            fields = {k: v for k, v in match.groupdict().items() if v is not None}
            reader = self._guard(name, partial(found[0].function, MappingProxyType(fields), parsed.body))
            if reader is not None:
                hit = Hit(name, "", "bad_node", fields, number, parsed, text)
                hit.own = parsed.stamp is not None and lines.only_stamp(text) is not None
                self._open.append(Open(name, reader, hit, parsed.stream))

    def _feed(self, block: bytes, at: int, stop: int, number: int) -> int:
        """Give the lines of block[at:stop] to the open accumulators; returns the number of the line at `stop`."""
        while at < stop and self._open:
            found = block.find(b"\n", at, stop)
            end = stop if found < 0 else found
            text = self._text(block[at:end])
            self._offer(lines.parse(text), text)
            at, number = end + 1, number + (found >= 0)
        return number + (block.count(b"\n", at, stop) if at < stop else 0)

    def _offer(self, parsed: Line, text: str) -> bool:
        """Offer a line to each open accumulator whose rank it may belong to; True if one took it."""
        taken, still = False, []
        for one in self._open:
            one.left_raw -= 1
            mine = not one.stream or not parsed.stream or parsed.stream == one.stream
            if not mine and one.left_raw > 0:
                still.append(one)
                continue
            one.left_own -= 1
            wants = mine and self._guard(one.name, partial(_fed, one, _body(parsed, text))) is True
            taken = taken or wants
            if wants and one.left_own > 0 and one.left_raw > 0:
                still.append(one)
            else:
                self._close(one)
        self._open = still
        return taken

    def _close(self, one: Open) -> None:
        results = self._guard(one.name, lambda: tuple(sound(r, Accumulated) for r in listed(one.lines.result()))) or ()
        for number, result in enumerate(results):
            fields = {**one.hit.fields, **result.fields}
            hit = Hit(
                one.name,
                result.symptom,
                result.emit,
                fields,
                one.hit.line,
                _line_of(one.hit),
                result.text or one.hit.texts[0][1],
            )
            hit.own, hit.part = one.hit.own, number
            self._kept.keep(hit)

    def _close_all(self) -> None:
        for one in self._open:
            self._close(one)
        self._open = []

    def _guard(self, name: str, call: Callable[[], Any]) -> Any:
        """A rule's own code: what it raises becomes a diagnostic, and the run goes on."""
        try:
            return call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - any crash of a rule is reported, none stops the run
            if len(self.crashes) < 50:
                self.crashes.append((name, told(error)))
            return None

    # ---- results ----------------------------------------------------------------------------------------------------

    def all_hits(self) -> list[Hit]:
        """The kept hits, the last ones of an overflow, and the progress rules' last hits."""
        found = [*self._kept.hits, *self._kept.late(), *self._late_of_floods()]
        for hit in found:
            hit.settle()
        return [*found, *self._progress()]

    def _late_of_floods(self) -> list[Hit]:
        """The last lines of each flood, read after all: they say how it went on."""
        found: list[Hit] = []
        for names, kept in sorted(self._floods.late.items()):
            for number, raw in kept:
                text = raw[:MAX_LINE].decode("utf-8", "replace")
                parsed = lines.parse(text)
                hit = self._matchers[names[0]].match(parsed.body)
                if hit is not None:
                    found.append(Hit(names[0], hit[1].symptom, hit[1].emit, hit[0], number, parsed, text))
        return found

    def beyond_caps(self) -> dict[str, int]:
        """Rule -> lines that a cap left uncounted in events."""
        found: dict[str, int] = {}
        for (name, _symptom), count in self._kept.overflow.items():
            found[name] = found.get(name, 0) + count
        for names, count in self._floods.counted.items():
            found[names[0]] = found.get(names[0], 0) + count
        return found

    def _progress(self) -> list[Hit]:
        """Progress rules have no needles: searched backwards from the end, last hit only."""
        matchers = self._rules.progress(self.source.kind)
        found: list[Hit] = []
        left = list(matchers)
        number = self.lines
        for raw in reversed((self.tail + self._pending).rstrip(b"\n").split(b"\n")[-3000:]):
            if not left:
                break
            text = raw[:MAX_LINE].decode("utf-8", "replace")
            parsed = lines.parse(text) if text else None
            for matcher in list(left):
                hit = matcher.match(parsed.body) if parsed is not None else None
                if hit is not None and parsed is not None:
                    fields, row = hit
                    found.append(Hit(matcher.rule.name, row.symptom, row.emit, fields, number, parsed, text))
                    left.remove(matcher)
            number -= 1
        return found


def _stamp_of(head: bytes) -> Stamp | None:
    """The time that a line says for itself, from its beginning."""
    stamp = lines.only_stamp(head.decode("utf-8", "replace"))
    return None if stamp is None or stamp.kind == "delta" else stamp


def _body(parsed: Line, text: str) -> str:
    """The message with its own indentation: a traceback's frames are told by it."""
    at = text.find(parsed.body)
    lead = len(text[:at]) - len(text[:at].rstrip(" ")) if at > 0 else 0
    return " " * lead + parsed.body


def _fed(one: Open, body: str) -> bool:
    return bool(one.lines.feed(body))


def _line_of(hit: Hit) -> Line:
    return Line("", hit.first, hit.host, hit.rank, False, hit.stream)
