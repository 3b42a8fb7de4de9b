"""One attempt's attribution: ingest any number of times, attribute any number of times in between.

The verdict depends on what was ingested, not on when or in which order sources came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from types import MappingProxyType

import msgspec

from attribution.bundle import Bundle, Source
from attribution.engine import cover
from attribution.engine.assemble import assemble
from attribution.engine.choose import choose
from attribution.engine.edges import apply_edges, apply_same_line
from attribution.engine.events import Place, build
from attribution.engine.hits import LEAST, MOST_APP, MOST_OTHER
from attribution.engine.ledger import Ledger
from attribution.engine.metrics import holds, words
from attribution.engine.outcome import decide
from attribution.engine.record import CANCELLING, base_state, record_lines
from attribution.engine.rules import RuleSet
from attribution.engine.source import SourceReader
from attribution.engine.stamps import Zone, iso, parse_when
from attribution.engine.window import apply_kill, apply_nodes, apply_window, settle_lingering
from attribution.model import Coverage, Diagnostic, Event, Evidence, Strict, Verdict
from attribution.rule import FILTER_STAGES, REFINE_STAGES, State, event_order

RECORD = "slurm record"
MAX_METRIC = 64 << 20


class Session:
    """The engine for one bundle. `rules` is frozen; the bundle's own text is given block by block."""

    def __init__(self, rules: RuleSet, bundle: Bundle, *, fast: bool | None = None, trusted_files: bool = False) -> None:
        """Raises ValueError for a time or a time zone in the bundle that can't be read."""
        self.rules, self.bundle, self._fast, self._trusted = rules, bundle, fast, trusted_files
        plain = Zone(bundle.attempt.log_timezone, None)
        self.start = parse_when(bundle.attempt.start, plain) if bundle.attempt.start else None
        self.end = parse_when(bundle.attempt.end, plain) if bundle.attempt.end else None
        self.zone = Zone(bundle.attempt.log_timezone, self.end if self.end is not None else self.start)
        self._readers: dict[str, SourceReader] = {}
        self._metrics: dict[str, bytearray] = {}
        self._problems: dict[str, Coverage] = {}
        # Metric files that are not whole yet, or never were: found again at each attribution.
        self._broken: dict[str, Coverage] = {}
        # Each source's share of hits depends on the bundle alone: the order in which sources come changes nothing.
        apps = sum(s.kind == "app" for s in bundle.sources)
        others = len(bundle.sources) - apps
        self._most = (max(LEAST, MOST_OTHER // max(1, others)), max(LEAST, MOST_APP // max(1, apps)))
        for source in sorted(bundle.sources, key=lambda s: (s.path, s.kind)):
            self._readers[source.path] = self._reader(source)
        self._read_record()

    def _reader(self, source: Source) -> SourceReader:
        prefilter = self.rules.prefilter(source.kind, fast=self._fast)
        edges = tuple(e for e in (self.start, self.end) if e is not None)
        return SourceReader(source, self.rules, prefilter, self.zone, edges, self._most[source.kind == "app"])

    def _read_record(self) -> None:
        self._record = self._reader(Source(path=RECORD, kind="record"))
        text = "\n".join(record_lines(self.bundle))
        self._record.ingest(text.encode("utf-8", "replace"), last=True)

    def ingest(self, path: str, block: bytes, *, last: bool = False) -> None:
        """Take the next bytes of the source `path`; `last` says that it ends here. KeyError for an unknown source."""
        reader = self._readers[path]
        if reader.source.kind == "metric":
            held = self._metrics.setdefault(path, bytearray())
            held += block[: max(0, MAX_METRIC - len(held))]
            reader.bytes += len(block)
            return
        reader.ingest(block, last=last)

    def could_not_read(self, coverage: Coverage) -> None:
        """Say what became of a source that could not be read, or not whole."""
        self._problems[coverage.source] = coverage

    def attribute(self, *, explain: bool = False) -> Verdict:
        """The verdict on what has been ingested so far. Changes nothing: call it as often as you like."""
        readers = [r for _, r in sorted(self._readers.items())]
        zone = self._dated_zone(readers)
        place = Place(self.bundle, zone, self.end)
        place.learn_ranks(readers)
        events = [*build([*readers, self._record], place), *self._metric_events(place)]
        events = [self._timed_record(e) for e in events if e.symptom in self.rules.symptoms]
        tried = [e for e in events if e.rule in self.rules.sandboxed]
        ledger = Ledger(
            [e for e in events if e.rule not in self.rules.sandboxed], self.rules.symptoms, self._state(place, zone)
        )
        ledger.aside = sorted((msgspec.structs.replace(e, emit="info") for e in tried), key=event_order)
        for reader in readers:
            ledger.diagnostics += [Diagnostic(rule=rule, what=what) for rule, what in reader.crashes]
        coverage = self._coverage(readers, zone)
        self._refine(ledger)
        choice = choose(ledger, self.rules)
        outcome = decide(ledger, choice, coverage)
        # POST_OUTCOME rules see the outcome; what they change (blame, confidence) is then read again.
        facts = {"domain": outcome.domain, "sub_domain": outcome.sub_domain, "verdict": outcome.verdict,
                 "symptom": outcome.first.symptom.id if outcome.first else None, "nodes": outcome.nodes,
                 "terminal_state": outcome.terminal_state, "confidence": outcome.confidence}  # fmt: skip
        before = len(ledger.trail)
        for rule in self.rules.python_rules("refiner", "POST_OUTCOME"):
            ledger.run(rule, ledger.view(outcome=facts))
        if len(ledger.trail) != before:
            choice = choose(ledger, self.rules)
            outcome = decide(ledger, choice, coverage)
        return assemble(self, ledger, choice, outcome, coverage, place, explain=explain)

    def _refine(self, ledger: Ledger) -> None:
        """Everything between extraction and the choice, in its one order."""
        apply_nodes(ledger)
        apply_same_line(ledger, self.rules)
        for rule in self.rules.python_rules("filter", FILTER_STAGES[0]):
            ledger.run(rule, ledger.view())
        apply_window(ledger)
        apply_kill(ledger)
        for stage in FILTER_STAGES[1:]:
            for rule in self.rules.python_rules("filter", stage):
                ledger.run(rule, ledger.view())
        settle_lingering(ledger)
        apply_edges(ledger, self.rules)
        scrub = self.rules.python_rules("refiner", REFINE_STAGES[0])
        if scrub:
            for node in sorted({e.node for e in ledger.sorted() if e.node}):
                for rule in scrub:
                    ledger.run(rule, ledger.view(node))
        for rule in self.rules.python_rules("refiner", REFINE_STAGES[1]):
            ledger.run(rule, ledger.view())

    def _timed_record(self, event: Event) -> Event:
        if event.kind == "record":
            state = base_state(self.bundle.attempt.state)
            return msgspec.structs.replace(
                event, time=self.end, own_time=self.end is not None and state != "COMPLETED", grain=1.0
            )
        return event

    def _dated_zone(self, readers: list[SourceReader]) -> Zone:
        """Stamps without a year take it from the window, else from any dated stamp of the bundle."""
        if self.zone.reference is not None:
            return self.zone
        dated = sorted(self.zone.wall(dated) or 0.0 for r in readers if (dated := r.times.dated) is not None)
        return Zone(self.bundle.attempt.log_timezone, dated[-1]) if dated else self.zone

    def _state(self, place: Place, zone: Zone) -> State:
        attempt = self.bundle.attempt
        times = [parse_when(e.time, zone) for e in attempt.events if e.kind == "signal"]
        if attempt.execution_cancellation is not None:
            times.append(parse_when(attempt.execution_cancellation.time, zone))
        if base_state(attempt.state) in CANCELLING and self.end is not None:
            times.append(self.end)
        # Rules can't change it: neither for one another nor for the verdict.
        shown = msgspec.structs.replace(attempt, node_addresses=MappingProxyType(attempt.node_addresses))
        return State(
            attempt=shown, start=self.start, end=self.end, kill_time=min(times) if times else None,
            nodes=MappingProxyType(place.records),
            neighbours=tuple((n, parse_when(n.start, zone), parse_when(n.end, zone) if n.end else None) for n in self.bundle.neighbours),
            history=tuple(sorted(((h, parse_when(h.time, zone)) for h in self.bundle.history), key=lambda p: (p[1], p[0].symptom))),
            trusted_files=self._trusted,
        )  # fmt: skip

    def _coverage(self, readers: list[SourceReader], zone: Zone) -> tuple[Coverage, ...]:
        found = [
            cover.coverage_of(r, zone, self._problems.get(r.source.path) or self._broken.get(r.source.path)) for r in readers
        ]
        return tuple(sorted([*found, *cover.missing_sources(self.bundle)], key=lambda c: (c.kind, c.node or "", c.source)))

    def _metric_events(self, place: Place) -> Iterable[Event]:
        self._broken = {}
        by_name = {r.name: r for r in self.rules.extractors if r.metric is not None}
        for path, raw in sorted(self._metrics.items()):
            try:
                data = msgspec.json.decode(bytes(raw), type=MetricFile)
            except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
                self._broken[path] = self._unusable(path, f"not a series file: {error}")
                continue
            rule = by_name.get(data.rule)
            if rule is None or rule.metric is None:
                self._broken[path] = self._unusable(path, f"no metric rule is called {data.rule!r}")
                continue
            for number, series in enumerate(data.series, 1):
                held = holds(rule.metric, series.points)
                if held is None:
                    continue
                node = place.names.resolve(series.node)
                text = words(rule.name, rule.metric, held)
                stranger = {"outside": series.node} if series.node is not None and node is None else {}
                yield Event(
                    id=f"{path}:{number}:{rule.name}", rule=rule.name, symptom=rule.symptom, emit=rule.emit, kind="metric",
                    source=path, line=number, node=node, time=held[0], last_time=held[1], own_time=True, text=text, fields=stranger,
                    evidence=(Evidence(source=path, kind="metric", line=number, text=text, node=series.node, time=iso(held[0])),),
                )  # fmt: skip

    def _unusable(self, path: str, reason: str) -> Coverage:
        return Coverage(source=path, kind="metric", state="partial", node=self._readers[path].source.node, reason=reason)

    def input_hash(self) -> str:
        """A name for this input: the bundle's own text; the caller adds what it read."""
        return hashlib.sha256(msgspec.json.encode(self.bundle, order="sorted")).hexdigest()


class MetricSeries(Strict, frozen=True, kw_only=True):
    """One series: samples are (epoch seconds, value)."""

    points: tuple[tuple[float, float], ...]
    node: str | None = None
    labels: dict[str, str] = {}


class MetricFile(Strict, frozen=True, kw_only=True):
    """A source of kind metric: the answer to one metric rule's query."""

    rule: str
    series: tuple[MetricSeries, ...]
