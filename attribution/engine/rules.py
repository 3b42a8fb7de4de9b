"""The frozen rule set, as the engine uses it. `attribution.ruleset` loads and checks it."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import re2

from attribution.engine.lines import logged, parse, printed, quoted
from attribution.engine.match import Prefilter
from attribution.model import EmitType, Frozen, Maturity, Mutation, SourceKind, Symptom
from attribution.rule import PythonRule

NODE_KINDS: tuple[SourceKind, ...] = ("kern", "dmesg", "syslog", "journal")
GROUPS: dict[str, tuple[SourceKind, ...]] = {
    "kernel": NODE_KINDS,
    "slurm": ("app", "slurmctld", "slurmd", "slurmdbd"),
    "any": ("app", *NODE_KINDS, "fabricmanager", "slurmctld", "slurmd", "slurmdbd"),
}
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 16 << 20


def compile_pattern(pattern: str | bytes) -> Any:
    """An RE2 pattern, of UTF-8 in either form; raises re2.error where RE2 refuses it."""
    return re2.compile(pattern, _OPTIONS)


def utf8(body: str) -> bytes:
    """A message as the patterns search it."""
    return body.encode("utf-8", "replace")


class Row(Frozen, frozen=True, kw_only=True):
    """One row of a catalog: which symptom its key stands for, and what an event of it says."""

    symptom: str
    emit: EmitType
    fields: Mapping[str, str] = {}


class Metric(Frozen, frozen=True, kw_only=True):
    """A condition on one series: `op value`, held for at least `hold` seconds."""

    query: str
    op: str
    value: float
    hold: float
    per: str = "node"
    mode: str = "value"


class Extractor(Frozen, frozen=True, kw_only=True):
    """One line-matching rule. `rows` is set for a catalog: its `key` group picks the row."""

    name: str
    pattern: str
    emit: EmitType
    symptom: str
    reads: tuple[SourceKind, ...]
    needles: tuple[str, ...]
    file: str
    unless: str | None = None
    fields: Mapping[str, str] = {}
    rows: Mapping[str, Row] | None = None
    other: Row | None = None
    maturity: Maturity = "stable"
    before: int = 0
    after: int = 0
    last_only: bool = False
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    known_gaps: tuple[str, ...] = ()
    also: Mapping[Mutation, str] = {}
    metric: Metric | None = None


class Matcher:
    """An extractor with its patterns, which are compiled when a line first asks for them."""

    def __init__(self, rule: Extractor) -> None:
        self.rule = rule
        self._unquoted = "app" in rule.reads and "quoted" not in rule.also

    @cached_property
    def pattern(self) -> Any:
        """Of bytes: to find where a match stands in a str costs RE2's Python side more than the match."""
        return compile_pattern(self.rule.pattern.encode())

    @cached_property
    def unless(self) -> Any:
        return compile_pattern(self.rule.unless.encode()) if self.rule.unless else None

    @cached_property
    def _groups(self) -> tuple[tuple[str, int], ...]:
        return tuple((name.decode(), number) for name, number in self.pattern.groupindex.items())

    def body(self, sample: str) -> str:
        """The message of a sample, read as a line of the sources that the rule reads."""
        return parse(sample.rstrip("\n"), printed=printed(self.rule.reads)).body

    def match(self, body: str, raw: bytes | None = None, *, printed: bool = True) -> tuple[dict[str, str], Row] | None:
        """Fields and row of a hit on a line's message (`raw`: the same as UTF-8, where it is known), or None. `printed`: by
        a program, whose logger may have put words before it.
        """
        raw = utf8(body) if raw is None else raw
        hit = self.pattern.search(raw)
        if hit is None and printed and self._unquoted and (at := logged(body)):
            body = body[at:]
            hit = self.pattern.search(utf8(body))
        if hit is None or (self.unless is not None and self.unless.search(raw)) or (self._unquoted and quoted(body)):
            return None
        groups = {name: found.decode("utf-8", "replace") for name, at in self._groups if (found := hit[at]) is not None}
        rule = self.rule
        if rule.rows is None:
            return {**rule.fields, **groups}, Row(symptom=rule.symptom, emit=rule.emit)
        key = plain_key(groups.pop("key", ""))
        row = rule.rows.get(key, rule.other)
        if row is None:
            return None
        return {**rule.fields, **row.fields, **groups, rule.name: key}, row


def plain_key(key: str) -> str:
    """A catalog's key without what does not matter: `031` is `31`; `0x1f` stays."""
    return key.lstrip("0") or "0" if key.isdigit() else key


class RuleSet:
    """Symptoms and rules, sorted, linked and frozen. Two loads of the same files are equal in `hash`."""

    def __init__(
        self,
        symptoms: Mapping[str, Symptom],
        extractors: tuple[Extractor, ...],
        python: tuple[PythonRule, ...],
        version: str,
        digest: str,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.symptoms = dict(sorted(symptoms.items()))
        self.extractors = tuple(sorted(extractors, key=lambda r: r.name))
        self.python = tuple(sorted(python, key=lambda r: (r.kind, r.stage, r.name)))
        self.version, self.hash, self.warnings = version, digest, warnings
        self._prefilters: dict[tuple[str, bool | None], Prefilter] = {}
        self._expanded: dict[str, list[str]] = {}

    def python_rules(self, kind: str, stage: str = "") -> tuple[PythonRule, ...]:
        return tuple(r for r in self.python if r.kind == kind and r.stage == stage)

    @cached_property
    def matchers(self) -> dict[str, Matcher]:
        return {r.name: Matcher(r) for r in self.extractors if r.metric is None}

    @cached_property
    def sandboxed(self) -> frozenset[str]:
        """Names of the extractors whose events are recorded and change no verdict."""
        return frozenset(r.name for r in self.extractors if r.maturity == "sandbox")

    @cached_property
    def accumulators(self) -> dict[str, tuple[PythonRule, Any]]:
        return {r.name: (r, compile_pattern(r.trigger)) for r in self.python if r.kind == "accumulator"}

    def needles(self, kind: str) -> dict[str, tuple[str, ...]]:
        """Needle -> names of the rules and accumulators for which a line of this source kind is a candidate."""
        found: dict[str, list[str]] = {}
        for rule in self.extractors:
            if rule.metric is None and kind in rule.reads and not rule.last_only:
                for needle in rule.needles:
                    found.setdefault(needle, []).append(rule.name)
        for name, (accumulator, _) in self.accumulators.items():
            if kind in accumulator.reads:
                for needle in accumulator.needles:
                    found.setdefault(needle, []).append(name)
        return {needle: tuple(names) for needle, names in sorted(found.items())}

    def prefilter(self, kind: str, *, fast: bool | None = None) -> Prefilter:
        """The prefilter of this source kind, built once: sessions share it."""
        found = self._prefilters.get((kind, fast))
        if found is None:
            found = self._prefilters[kind, fast] = Prefilter(self.needles(kind), fast=fast, pieces=kind == "app")
        return found

    def progress(self, kind: str) -> tuple[Matcher, ...]:
        """Rules that are searched backwards from a source's end, last hit only."""
        return tuple(m for m in self.matchers.values() if m.rule.last_only and kind in m.rule.reads)

    @cached_property
    def effects(self) -> dict[str, tuple[tuple[str, str, str, float | None], ...]]:
        """Effect symptom -> (cause, scope, pattern, within), from every `explains` edge."""
        found: dict[str, list[tuple[str, str, str, float | None]]] = {}
        for cause in self.symptoms.values():
            for edge in cause.explains:
                for effect in self.expand(edge.symptom):
                    if effect != cause.id:
                        found.setdefault(effect, []).append((cause.id, edge.scope, edge.symptom, edge.within))
        rank = {s.id: s.rank for s in self.symptoms.values()}
        # Strongest cause first: the order in which the engine asks them.
        return {effect: tuple(sorted(edges, key=lambda e: (rank[e[0]], repr(e)))) for effect, edges in found.items()}

    def beats(self, winner: str, loser: str) -> bool:
        """Whether a line that means both means rather `winner`."""
        return any(loser in self.expand(pattern) for pattern in self.symptoms[winner].beats)

    def expand(self, pattern: str) -> list[str]:
        """Symptom ids that a glob or an id stands for."""
        found = self._expanded.get(pattern)
        if found is None:
            found = self._expanded[pattern] = [s for s in self.symptoms if fnmatchcase(s, pattern)]
        return found
