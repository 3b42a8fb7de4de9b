"""Reading one source: blocks in, folded hits out. Memory is bounded whatever the source holds."""

from __future__ import annotations

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
from attribution.engine.times import Times
from attribution.model import EmitType
from attribution.rule import Accumulated, listed, sound, told

MAX_TAIL = 1 << 20
GAP = 600.0
MAX_SEEN, MAX_SEEN_CHARS = 4096, 4 << 20
MAX_ACCUMULATORS, MOST_RANKS = 400, 100_000
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
        self.times = Times()
        # Of a program's own output: carriage returns part its lines, and bars, loggers and JSON stand around its words.
        self._printed = lines.printed((source.kind,))
        # The candidate at hand: its line, and which of the line's candidates it is.
        self._at = (0, 0)

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def ingest(self, block: bytes, *, last: bool = False) -> None:
        """Take the next bytes of the source; `last` ends it (a line without newline counts then)."""
        self.bytes += len(block)
        data = self._pending + block if self._pending else block
        cut = len(data) if last else data.rfind(b"\n") + 1
        self._pending = data[cut:]
        whole = data[:cut] if cut < len(data) else data
        if last and (whole or self.times.begun) and not whole.endswith(b"\n"):
            whole += b"\n"
        if whole:
            self._whole(whole)
        if len(self._pending) > MAX_TAIL:
            self._long_line()
        if last:
            self._close_all()

    def _long_line(self) -> None:
        """A line that never ends: a progress bar's pieces are read; of one piece the head is kept, the rest not held."""
        cut = self._pending.rfind(b"\r") + 1 if self._printed else 0
        if cut:
            self.times.begin(self._pending)
            self.lines = self._chunk(self._pending[:cut], self.lines + 1) - 1
            self._keep_tail(self._pending[:cut])
        self._pending = self._pending[cut:][: MAX_LINE + 1]

    def _whole(self, block: bytes) -> None:
        """Lines to their end. A run of repeated lines is counted before any needle is looked for."""
        at = 0
        while at < len(block):
            number = self.lines + 1
            if not self._open:
                ran, number = self._repeats.run(block, at, number)
                self.times.note(block, at, ran)
                at, self.lines = ran, number - 1
            stop = block.find(b"\n", at + CHUNK) + 1 or len(block)
            chunk = block[at:stop] if at or stop < len(block) else block
            if chunk:
                self.lines = self._chunk(chunk, number) - 1
                self.times.note(block, at, stop)
            at = stop
        self._keep_tail(block)

    def _keep_tail(self, block: bytes) -> None:
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
                if block.startswith(b"\n", end):
                    at, number = self._repeats.run(block, end + 1, number + 1)
                    skip[0] = at
                continue
            self._repeats.length = 0
            if not self._open and self._floods.swallow(raw, number, names):
                continue
            self._candidate(block, start, raw, number, names)
            if self._open:
                at, number = min(end + 1, len(block)), number + block.startswith(b"\n", end)
        if self._open:
            number, at = self._feed(block, at, len(block), number), len(block)
        return number + block.count(b"\n", at)

    # ---- lines ------------------------------------------------------------------------------------------------------

    def _text(self, raw: bytes) -> str:
        if len(raw) > MAX_LINE:
            self.cut_lines += 1
        return raw[:MAX_LINE].decode("utf-8", "replace").replace("\x00", "\ufffd").rstrip("\r")

    def _candidate(self, block: bytes, start: int, raw: bytes, number: int, names: tuple[str, ...]) -> None:
        self._at = (number, self._at[1] + 1 if number == self._at[0] else 0)
        text = self._text(raw)
        parsed = lines.parse(text, printed=self._printed)
        if parsed.rank is not None and parsed.host is not None and not self._rules.sandboxed.issuperset(names):
            self._learn(parsed.rank, parsed.host)
        stamp = parsed.stamp
        if stamp is None:
            parsed = parsed._replace(stamp=self.times.before(block, start, number))
        else:
            self.times.said(number, stamp, first=not block.startswith(b"\r", start - 1) if start else not self.times.begun)
        consumed = bool(self._open) and self._offer(parsed, text)
        key = (parsed.body, parsed.host, parsed.rank, parsed.kernel)
        known = self._seen.get(key)
        if known is None:
            known = self._recognise(parsed, text, names, consumed)
            self._seen_chars += len(parsed.body)
            if len(self._seen) >= MAX_SEEN or self._seen_chars > MAX_SEEN_CHARS:
                self._seen.clear()
                self._seen_chars = len(parsed.body)
            self._seen[key] = known
        elif known:
            known[:] = [self._fold(hit, parsed, text) for hit in known]
        if stamp is None:
            for hit in known:
                hit.own = False
        elif len(raw) <= MAX_LINE and not any(name in self._rules.accumulators for name in names):
            self._repeats.remember(raw, parsed, names, known)
        self._start_accumulators(parsed, text, names)

    def _learn(self, rank: int, host: str) -> None:
        """Which node a rank says it is on; two for one rank decide nothing."""
        if len(self.rank_hosts) < MOST_RANKS or rank in self.rank_hosts:
            hosts = self.rank_hosts.setdefault(rank, set())
            if len(hosts) < 2:
                hosts.add(host)

    def _hit(self, rule: str, symptom: str, emit: EmitType, fields: dict[str, str], parsed: Line, text: str) -> Hit:
        number, piece = self._at
        hit = Hit(rule, symptom, emit, fields, number, parsed, text)
        hit.part = f"~{piece}" if piece else ""
        return hit

    def _recognise(self, parsed: Line, text: str, names: tuple[str, ...], consumed: bool) -> list[Hit]:
        found: list[Hit] = []
        raw = utf8(parsed.body)
        for name in names:
            matcher = self._matchers.get(name)
            hit = matcher.match(parsed.body, raw, printed=self._printed) if matcher is not None else None
            if matcher is None or hit is None or (consumed and matcher.rule.fields.get("whole_line") == "no"):
                continue
            fields, row = hit
            made = self._hit(name, row.symptom, row.emit, fields, parsed, text)
            found.append(made)
            if not self._kept.keep(made):
                self._floods.beyond(names, row.symptom, matcher, parsed.body, ranked=parsed.rank is not None)
        return found

    def _fold(self, hit: Hit, parsed: Line, text: str) -> Hit:
        hit.settle()
        if self._crosses(hit.last, parsed.stamp):
            hit = self._hit(hit.rule, hit.symptom, hit.emit, hit.fields, parsed, text)
            self._kept.keep(hit)
            return hit
        hit.again(self._at[0], parsed, text)
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

    def _start_accumulators(self, parsed: Line, text: str, names: tuple[str, ...]) -> None:
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
                hit = self._hit(name, "", "bad_node", fields, parsed, text)
                hit.own = parsed.stamp is not None and lines.only_stamp(text) is not None
                self._open.append(Open(name, reader, hit, parsed.stream))

    def _feed(self, block: bytes, at: int, stop: int, number: int) -> int:
        """Give the lines of block[at:stop] to the open accumulators; returns the number of the line at `stop`."""
        while self._open and (end := block.find(b"\n", at, stop)) >= 0:
            text = self._text(lines.shown(block[at:end]) if self._printed else block[at:end])
            self._offer(lines.parse(text, printed=self._printed), text)
            at, number = end + 1, number + 1
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
            hit.own, hit.part = one.hit.own, one.hit.part + (f"+{number}" if number else "")
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
            for place, (number, raw) in enumerate(kept):
                text = raw[:MAX_LINE].decode("utf-8", "replace")
                parsed = lines.parse(text, printed=self._printed)
                hit = self._matchers[names[0]].match(parsed.body, printed=self._printed)
                if hit is not None:
                    found.append(Hit(names[0], hit[1].symptom, hit[1].emit, hit[0], number, parsed, text))
                    found[-1].part = f"~late{place}"
        return found

    def beyond_caps(self) -> dict[str, int]:
        """Rule -> lines that a cap left uncounted in events; rules on trial are of no account."""
        found: dict[str, int] = {}
        for (name, _symptom), count in self._kept.overflow.items():
            found[name] = found.get(name, 0) + count
        for names, count in self._floods.counted.items():
            found[names[0]] = found.get(names[0], 0) + count
        return {name: count for name, count in found.items() if name not in self._rules.sandboxed}

    def _progress(self) -> list[Hit]:
        """Progress rules have no needles: searched backwards from the end, last hit only."""
        matchers = self._rules.progress(self.source.kind)
        found: list[Hit] = []
        left = list(matchers)
        number = self.lines
        for raw in reversed((self.tail + self._pending).rstrip(b"\n").split(b"\n")[-3000:]):
            if not left:
                break
            text = lines.shown(raw)[:MAX_LINE].decode("utf-8", "replace")
            parsed = lines.parse(text) if text else None
            for matcher in list(left):
                hit = matcher.match(parsed.body) if parsed is not None else None
                if hit is not None and parsed is not None:
                    fields, row = hit
                    found.append(Hit(matcher.rule.name, row.symptom, row.emit, fields, number, parsed, text))
                    left.remove(matcher)
            number -= 1
        return found


def _body(parsed: Line, text: str) -> str:
    """The message with its own indentation: a traceback's frames are told by it."""
    at = text.find(parsed.body)
    lead = len(text[:at]) - len(text[:at].rstrip(" ")) if at > 0 else 0
    return " " * lead + parsed.body


def _fed(one: Open, body: str) -> bool:
    return bool(one.lines.feed(body))


def _line_of(hit: Hit) -> Line:
    return Line("", hit.first, hit.host, hit.rank, False, hit.stream)
