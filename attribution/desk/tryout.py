"""Trying the rules on a text: which fire on a line, which nearly did and why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attribution.bundle import Source
from attribution.engine import lines
from attribution.engine.lines import MAX_LINE
from attribution.engine.match import Prefilter
from attribution.engine.rules import Extractor, RuleSet, utf8
from attribution.engine.source import SourceReader
from attribution.engine.stamps import Zone
from attribution.model import KINDS, Frozen, SourceKind


class Fired(Frozen, frozen=True, kw_only=True):
    """A rule that matched a line. `beaten_by` is a symptom of the same line that reads it more precisely."""

    line: int
    rule: str
    symptom: str
    role: str
    says: str
    fields: dict[str, str]
    beaten_by: str = ""


class Nearly(Frozen, frozen=True, kw_only=True):
    """A rule whose needle the line holds, and why it did not match."""

    line: int
    rule: str
    needle: str
    why: str


class Tried(Frozen, frozen=True, kw_only=True):
    """What the rules say of a text. `texts` has the lines that anything is said of; `cut` those too long to be read whole."""

    lines: int
    texts: dict[int, str]
    cut: tuple[int, ...]
    fired: tuple[Fired, ...]
    nearly: tuple[Nearly, ...]


def try_text(rules: RuleSet, text: bytes, kinds: Iterable[SourceKind] = ()) -> Tried:
    """Try every rule on each line, as the engine reads it. Without `kinds`, as any kind of source."""
    wanted = set(kinds) or set(KINDS)
    texts: dict[int, str] = {}
    cut: list[int] = []
    fired = list(_read_on(rules, text, wanted))
    nearly: list[Nearly] = []
    number, at = 1, 0
    for start, end, names in _prefilter(rules).candidates(text):
        number, at = number + text.count(b"\n", at, start), start
        shown = _decoded(text[start:end])
        texts[number] = f"{texts[number]}\r{shown}" if number in texts else shown
        if end - start > MAX_LINE:
            cut.append(number)
        for name in names:
            matcher = rules.matchers.get(name)
            if matcher is None or matcher.rule.last_only:
                continue
            said = _one(rules, matcher.rule, number, shown, wanted)
            if isinstance(said, Fired):
                fired.append(said)
            else:
                nearly.append(said)
    for hit in fired:
        if hit.line not in texts:
            texts[hit.line] = _decoded(text.split(b"\n", hit.line)[hit.line - 1])
    total = text.count(b"\n") + (1 if text and not text.endswith(b"\n") else 0)
    return Tried(
        lines=total, texts=texts, cut=tuple(cut), nearly=tuple(nearly),
        fired=tuple(sorted(_beaten(rules, fired), key=lambda f: (f.line, f.beaten_by != "", f.rule))),
    )  # fmt: skip


def _decoded(raw: bytes) -> str:
    return raw[:MAX_LINE].decode("utf-8", "replace").replace("\x00", "\ufffd").rstrip("\r")


def _prefilter(rules: RuleSet) -> Prefilter:
    """One for all kinds of source: a rule that does not read the asked kind is told with that reason."""
    found: dict[str, set[str]] = {}
    for kind in KINDS:
        for needle, names in rules.needles(kind).items():
            found.setdefault(needle, set()).update(names)
    return Prefilter({needle: tuple(sorted(names)) for needle, names in sorted(found.items())}, fast=False)


def _one(rules: RuleSet, rule: Extractor, number: int, text: str, wanted: set[SourceKind]) -> Fired | Nearly:
    printed = lines.printed(wanted & set(rule.reads))
    body = lines.parse(text, printed=printed).body
    hit = rules.matchers[rule.name].match(body, printed=printed)
    if hit is not None and wanted & set(rule.reads):
        return _fired(rules, number, rule.name, hit[1].symptom, hit[0])
    lowered = text.lower()
    needle = next((n for n in rule.needles if n in lowered), rule.needles[0])
    return Nearly(line=number, rule=rule.name, needle=needle, why=_why_not(rules, rule, body, hit is not None))


def _fired(rules: RuleSet, number: int, rule: str, name: str, fields: dict[str, str]) -> Fired:
    symptom = rules.symptoms.get(name)
    role, says = (symptom.role, symptom.says) if symptom else ("?", "not declared")
    return Fired(line=number, rule=rule, symptom=name, role=role, says=says, fields=dict(sorted(fields.items())))


def _why_not(rules: RuleSet, rule: Extractor, body: str, matched: bool) -> str:
    if matched:
        return f"it reads only {', '.join(rule.reads)}"
    matcher = rules.matchers[rule.name]
    if matcher.pattern.search(utf8(body)) is None:
        return f"the pattern does not match: {rule.pattern[:160]}"
    if matcher.unless is not None and matcher.unless.search(utf8(body)):
        return f"unless_re holds: {rule.unless}"
    if lines.quoted(body):
        return "the line only quotes it: a comment, a traced command, arguments, help or a test's name"
    return "the key is not in its table"


def _read_on(rules: RuleSet, text: bytes, wanted: set[SourceKind]) -> Iterator[Fired]:
    """What accumulators make of several lines, and the last hits of progress rules: the engine's own reading."""
    seen: set[tuple[int, str, str]] = set()
    for kind in (k for k in KINDS if k in wanted and k != "metric"):
        reader = SourceReader(Source(path="text", kind=kind), rules, rules.prefilter(kind), Zone("UTC", None), ())
        reader.ingest(text, last=True)
        for hit in reader.all_hits():
            name = hit.rule.partition("+")[0]
            matcher = rules.matchers.get(name)
            key = (hit.line, name, hit.symptom)
            if key not in seen and (name in rules.accumulators or (matcher is not None and matcher.rule.last_only)):
                seen.add(key)
                yield _fired(rules, hit.line, name, hit.symptom, hit.fields)


def _beaten(rules: RuleSet, fired: Iterable[Fired]) -> Iterator[Fired]:
    """The same, each with the symptom of its line that beats it."""
    hits = list(fired)
    by_line: dict[int, list[str]] = {}
    for hit in hits:
        by_line.setdefault(hit.line, []).append(hit.symptom)
    for hit in hits:
        winners = [s for s in by_line[hit.line] if s != hit.symptom and rules.beats(s, hit.symptom)]
        yield Fired(
            **{k: getattr(hit, k) for k in hit.__struct_fields__ if k != "beaten_by"}, beaten_by=min(winners, default="")
        )
