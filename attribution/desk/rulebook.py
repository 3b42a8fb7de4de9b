"""Reading the rules: what a symptom means, what it follows and causes, which rules give it."""

from __future__ import annotations

import re

from attribution.engine.rules import Extractor, RuleSet
from attribution.errors import ConfigError
from attribution.model import Symptom


def symptoms_of(rule: Extractor) -> list[str]:
    """The symptoms that a rule can give."""
    rows = rule.rows.values() if rule.rows is not None else ()
    extra = [rule.other.symptom] if rule.other else []
    return sorted({r.symptom for r in rows} | set(extra) | ({rule.symptom} if rule.symptom else set()))


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
        ("role", f"{symptom.role}: {ROLES[symptom.role]}"),
        ("do", f"{symptom.advice}: {ADVICE[symptom.advice]}" + (" (a drain is suggested)" if symptom.drains else "")),
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


ROLES = {
    "root": "can be the cause",
    "cascade": "usually a consequence of something else",
    "teardown": "noise of dying, never the cause",
    "context": "worth knowing, never a verdict alone",
}
ADVICE = {
    "rerun": "run it again as it is",
    "rerun_without": "run it again without the responsible node",
    "fix_first": "the user changes something first",
    "admin_first": "an admin acts first",
    "none": "nothing to do",
    "ask": "the evidence is not enough to act on",
}
