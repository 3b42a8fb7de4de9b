"""Reading the rules: what a symptom means, what it follows and causes, which rules give it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

from attribution.engine.rules import Extractor, RuleSet
from attribution.errors import ConfigError
from attribution.model import Event, Frozen, Scope, Symptom
from attribution.rule import PythonRule


def symptoms_of(rule: Extractor) -> list[str]:
    """The symptoms that a rule can give."""
    rows = rule.rows.values() if rule.rows is not None else ()
    extra = [rule.other.symptom] if rule.other else []
    return sorted({r.symptom for r in rows} | set(extra) | ({rule.symptom} if rule.symptom else set()))


class Found(Frozen, frozen=True, kw_only=True):
    """What a name stands for."""

    symptoms: tuple[Symptom, ...] = ()
    extractors: tuple[Extractor, ...] = ()
    python: tuple[PythonRule, ...] = ()


def find(rules: RuleSet, name: str) -> Found:
    """What a person means: a symptom id, an alias (xid-79), a catalog and its key ("XID 79"), or a rule's name. Raises ConfigError."""
    asked = name.strip()
    row = _row(rules, asked.lower())
    if row is not None:
        return Found(symptoms=(rules.symptoms[row],))
    found = Found(
        symptoms=tuple(s for s in rules.symptoms.values() if asked == s.id or asked.lower() in (a.lower() for a in s.aliases)),
        extractors=tuple(r for r in rules.extractors if r.name == asked),
        python=tuple(r for r in rules.python if r.name == asked),
    )
    if found == Found():
        names = (*rules.symptoms, *(e.name for e in rules.extractors), *(p.name for p in rules.python))
        close = [n for n in names if asked.lower() in n][:5]
        hint = f"; close: {', '.join(close)}" if close else "; `sattrib rules list` shows all"
        raise ConfigError(f"no symptom or rule is called {asked!r}{hint}")
    return found


def _row(rules: RuleSet, asked: str) -> str | None:
    """The symptom of a catalog's row, asked for by the catalog's name and the key, in any case: `xid 79`."""
    for rule in rules.extractors:
        if rule.rows is not None and (said := re.fullmatch(re.escape(rule.name) + r"[ _-]?0*([^ _-].*)", asked)):
            rows = {key.lower(): row.symptom for key, row in rule.rows.items()}
            if said[1] in rows:
                return rows[said[1]]
    return None


def describe(rules: RuleSet, symptom: Symptom) -> list[tuple[str, str]]:
    """(heading, text) pairs that say all about a symptom, in words an on-call engineer can act on."""
    givers = [r.name for r in rules.extractors if symptom.id in symptoms_of(r)]
    return [
        ("what", symptom.says),
        ("detail", " ".join(symptom.detail.split())),
        ("place", f"{symptom.domain}/{symptom.sub_domain}"),
        ("role", f"{symptom.role}: {ROLES[symptom.role]}"),
        ("do", f"{symptom.advice}: {ADVICE[symptom.advice]}" + (" (a drain is suggested)" if symptom.drains else "")),
        ("owner", symptom.owner),
        ("follows", ", ".join(brief(followed(rules, symptom)))),
        *((f"causes/{scope}", ", ".join(names)) for scope, names in _caused(symptom)),
        ("beats", ", ".join(symptom.beats)),
        ("lingers", "" if symptom.lingers == "no" else f"until {symptom.lingers}"),
        ("also called", ", ".join(symptom.aliases)),
        ("found by", ", ".join(givers)),
        ("see", ", ".join(symptom.refs)),
        ("declared in", symptom.file),
    ]


def followed(rules: RuleSet, symptom: Symptom) -> list[str]:
    """The symptoms of which it is a consequence, the strongest first."""
    return sorted({c for c, *_ in rules.effects.get(symptom.id, ())}, key=lambda c: (rules.symptoms[c].rank, c))


def _caused(symptom: Symptom) -> list[tuple[str, list[str]]]:
    """What it explains on the same GPU, node, pair of nodes, and in the whole job."""
    found: dict[str, dict[str, None]] = {}
    for edge in symptom.explains:
        found.setdefault(edge.scope, {})[edge.symptom] = None
    return [(scope, list(found[scope])) for scope in get_args(Scope) if scope in found]


def brief(names: list[str], most: int = 12) -> list[str]:
    """A list that people read: what is too long is counted."""
    return names if len(names) <= most else [*names[:most], f"and {len(names) - most} more"]


def describe_extractor(rule: Extractor) -> list[tuple[str, str]]:
    """(heading, text) pairs that say all about a rule that matches lines."""
    pairs = [
        ("gives", rule.symptom or f"one of {len(rule.rows or ())} symptoms, by key"),
        ("pattern", rule.pattern),
        ("unless", rule.unless or ""),
        ("reads", ", ".join(rule.reads)),
        ("needles", ", ".join(rule.needles)),
        ("maturity", rule.maturity),
        ("known gaps", "; ".join(rule.known_gaps)),
        ("also fires", "; ".join(f"{kind}: {reason}" for kind, reason in rule.also.items())),
        ("see", ", ".join(rule.refs)),
        ("declared in", rule.file),
    ]
    if rule.metric is not None:
        held = f", for {rule.metric.hold:g} s" if rule.metric.hold else ""
        pairs[1] = ("query", f"{rule.metric.query} {rule.metric.op} {rule.metric.value:g}{held} ({rule.metric.mode})")
    return [*pairs, *(("matches", m) for m in rule.match), *(("not", m) for m in rule.no_match)]


def describe_python(rule: PythonRule) -> list[tuple[str, str]]:
    """(heading, text) pairs that say all about a Python rule."""
    return [
        ("what", f"{rule.kind} {rule.stage}".rstrip()),
        ("detail", " ".join(rule.doc.split())),
        ("trigger", rule.trigger),
        ("reads", ", ".join(rule.reads)),
        ("needles", ", ".join(rule.needles)),
        ("declared in", rule.function.__code__.co_filename),
        *(("given", _given(one)) for one in rule.example.given),
        ("expect", _expected(rule.example.expect)),
        *(("quiet", _given(one)) for one in rule.example.quiet),
    ]


def _given(one: object) -> str:
    """An event of an example as it is written there, or a line."""
    if not isinstance(one, Event):
        return str(one)
    more = {**({} if one.time is None else {"time": f"{one.time:g}"}), **one.fields}
    return " ".join([one.symptom, *([f"on {one.node}"] if one.node else []), *(f"{k}={v}" for k, v in more.items())])


def _expected(expect: tuple[str, ...] | Mapping[str, object]) -> str:
    if isinstance(expect, Mapping):
        return ", ".join(f"{k} = {v}" for k, v in expect.items()) or "no fact"
    return ", ".join(expect) or "nothing"


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
