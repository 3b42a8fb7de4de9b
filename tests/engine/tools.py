"""Symptoms, events and rule sets for engine tests, without any rule text."""

from __future__ import annotations

from typing import Any

from attribution.bundle import Attempt, Bundle, Source
from attribution.engine.ledger import Ledger
from attribution.engine.rules import Extractor, RuleSet
from attribution.model import Event, Explains, Symptom
from attribution.rule import PythonRule, State, event


def symptom(name: str, domain: str = "hardware", role: str = "root", rank: int = 100, **more: Any) -> Symptom:
    explains = tuple(Explains(**e) if isinstance(e, dict) else Explains(symptom=e) for e in more.pop("explains", ()))
    base: dict[str, Any] = {
        "says": name,
        "sub_domain": "gpu",
        "advice": "ask",
        "owner": "ask",
        "blames": "node" if domain in ("hardware", "network", "platform") else "nothing",
    }
    return Symptom(id=name, domain=domain, role=role, rank=rank, explains=explains, **{**base, **more})  # type: ignore[arg-type]


def rule_set(*symptoms: Symptom, extractors: tuple[Extractor, ...] = (), python: tuple[PythonRule, ...] = ()) -> RuleSet:
    return RuleSet({s.id: s for s in symptoms}, extractors, python, "0", "test")


def attempt(state: str = "FAILED", nodes: tuple[str, ...] = ("n1", "n2", "n3"), **more: Any) -> Attempt:
    return Attempt(**{"cluster": "c", "job_id": "7", "state": state, "nodes": nodes, "exit_code": "1:0", **more})


def ledger(rules: RuleSet, *events: Event, **more: Any) -> Ledger:
    given = more.pop("attempt", None) or attempt()
    return Ledger(events, rules.symptoms, State(attempt=given, **more))


def line_rule(
    name: str, pattern: str, symptom_id: str, needles: tuple[str, ...], reads: tuple[str, ...] = ("app",), **more: Any
) -> Extractor:
    return Extractor(
        name=name,
        pattern=pattern,
        emit=more.pop("emit", "bad_node"),
        symptom=symptom_id,
        reads=reads,  # type: ignore[arg-type]
        needles=needles,
        file="test.toml",
        **more,
    )


def bundle(*sources: Source, **more: Any) -> Bundle:
    given = more.pop("attempt", None) or attempt()
    return Bundle(schema=1, attempt=given, sources=sources, **more)


__all__ = ["attempt", "bundle", "event", "ledger", "line_rule", "rule_set", "symptom"]
