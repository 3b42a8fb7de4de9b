"""Reading the rules: what a symptom means, who explains it, which rules fire on a line and which nearly did."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attribution.engine import lines
from attribution.engine.rules import Extractor, RuleSet
from attribution.errors import ConfigError
from attribution.model import KINDS, Frozen, SourceKind, Symptom


class Fired(Frozen, frozen=True, kw_only=True):
    """A rule that matched a line."""

    line: int
    rule: str
    symptom: str
    role: str
    fields: dict[str, str]
    text: str


class Nearly(Frozen, frozen=True, kw_only=True):
    """A rule whose needle the line holds, and why it did not match."""

    line: int
    rule: str
    needle: str
    why: str


def symptoms_of(rule: Extractor) -> list[str]:
    """The symptoms that a rule can give."""
    rows = rule.rows.values() if rule.rows is not None else ()
    extra = [rule.other.symptom] if rule.other else []
    return sorted({r.symptom for r in rows} | set(extra) | ({rule.symptom} if rule.symptom else set()))


def try_text(rules: RuleSet, text: str, kinds: Iterable[SourceKind] = ()) -> tuple[list[Fired], list[Nearly]]:
    """Which rules fire on each line, and which nearly did. Without `kinds`, every kind is tried."""
    wanted = set(kinds) or set(KINDS)
    fired: list[Fired] = []
    nearly: list[Nearly] = []
    for number, raw in enumerate(text.splitlines(), 1):
        body = lines.parse(raw).body
        lowered = raw.lower()
        for rule in rules.extractors:
            if rule.metric is not None:
                continue
            needle = next((n for n in rule.needles if n in lowered), None)
            if needle is None and not rule.last_only:
                continue
            hit = rules.matchers[rule.name].match(body)
            if hit is not None and wanted & set(rule.reads):
                fields, row = hit
                role = rules.symptoms[row.symptom].role if row.symptom in rules.symptoms else "?"
                fired.append(
                    Fired(
                        line=number,
                        rule=rule.name,
                        symptom=row.symptom,
                        role=role,
                        fields=dict(sorted(fields.items())),
                        text=raw,
                    )
                )
            elif needle is not None:
                nearly.append(
                    Nearly(line=number, rule=rule.name, needle=needle, why=_why_not(rules, rule, body, hit is not None))
                )
        fired += _accumulators(rules, raw, body, number, wanted)
    return fired, nearly


def _accumulators(rules: RuleSet, raw: str, body: str, number: int, wanted: set[SourceKind]) -> list[Fired]:
    return [
        Fired(line=number, rule=name, symptom="(reads on)", role="accumulator", fields={}, text=raw)
        for name, (rule, pattern) in sorted(rules.accumulators.items())
        if wanted & set(rule.reads) and pattern.search(body) is not None
    ]


def _why_not(rules: RuleSet, rule: Extractor, body: str, matched: bool) -> str:
    if matched:
        return f"it reads only {', '.join(rule.reads)}"
    matcher = rules.matchers[rule.name]
    if matcher.pattern.search(body) is None:
        return f"the pattern does not match: {rule.pattern[:160]}"
    if matcher.unless is not None and matcher.unless.search(body):
        return f"unless_re holds: {rule.unless}"
    return "the key is not in its table"


def find(rules: RuleSet, name: str) -> tuple[list[Symptom], list[Extractor]]:
    """What a person means: a symptom id, an alias (xid-79), "XID 79", or a rule's name. Raises ConfigError."""
    asked = name.strip()
    number = re.fullmatch(r"(?i)(s?xid)[ _-]?(\d+)", asked)
    if number is not None:
        row = _row(rules, number[1].lower(), number[2].lstrip("0") or "0")
        if row is not None:
            return [rules.symptoms[row]], []
    found = [s for s in rules.symptoms.values() if asked == s.id or asked.lower() in (a.lower() for a in s.aliases)]
    named = [r for r in rules.extractors if r.name == asked]
    if not found and not named:
        close = [s for s in rules.symptoms if asked.lower() in s][:5]
        hint = f"; close: {', '.join(close)}" if close else "; `sattrib rules list` shows all"
        raise ConfigError(f"no symptom or rule is called {asked!r}{hint}")
    return found, named


def _row(rules: RuleSet, catalog: str, key: str) -> str | None:
    for rule in rules.extractors:
        if rule.rows is not None and rule.name == catalog and key in rule.rows:
            return rule.rows[key].symptom
    return None


def describe(rules: RuleSet, symptom: Symptom) -> list[tuple[str, str]]:
    """(heading, text) pairs that say all about a symptom, in words an on-call engineer can act on."""
    givers = [r.name for r in rules.extractors if symptom.id in symptoms_of(r)]
    explained_by = sorted({c for c, *_ in rules.effects.get(symptom.id, ())})
    explains = sorted({e for edge in symptom.explains for e in rules.expand(edge.symptom)} - {symptom.id})
    return [
        ("what", symptom.says),
        ("detail", symptom.detail),
        ("place", f"{symptom.domain}/{symptom.sub_domain}"),
        ("role", f"{symptom.role}: {_ROLES[symptom.role]}"),
        ("do", f"{symptom.advice}: {_ADVICE[symptom.advice]}" + (" (a drain is suggested)" if symptom.drains else "")),
        ("owner", symptom.owner),
        ("follows", ", ".join(explained_by)),
        ("causes", ", ".join(explains)),
        ("beats", ", ".join(symptom.beats)),
        ("lingers", "" if symptom.lingers == "no" else f"until {symptom.lingers}"),
        ("also called", ", ".join(symptom.aliases)),
        ("found by", ", ".join(givers)),
        ("see", ", ".join(symptom.refs)),
        ("declared in", symptom.file),
    ]


_ROLES = {
    "root": "can be the cause",
    "cascade": "usually a consequence of something else",
    "teardown": "noise of dying, never the cause",
    "context": "worth knowing, never a verdict alone",
}
_ADVICE = {
    "rerun": "run it again as it is",
    "rerun_without": "run it again without the responsible node",
    "fix_first": "the user changes something first",
    "admin_first": "an admin acts first",
    "none": "nothing to do",
    "ask": "the evidence is not enough to act on",
}
