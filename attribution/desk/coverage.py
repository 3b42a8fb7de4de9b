"""Which rules the case bundles prove: each must have been seen at work in one of them at least."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attribution import pipeline
from attribution.desk.rulebook import symptoms_of
from attribution.engine.rules import Extractor, RuleSet
from attribution.errors import ConfigError
from attribution.model import Frozen, Verdict
from attribution.rule import PythonRule


class Gap(Frozen, frozen=True, kw_only=True):
    """A rule that no bundle proves, or that crashed on one."""

    kind: str
    rule: str
    why: str


class Proof(Frozen, frozen=True, kw_only=True):
    """What the rules did over all bundles."""

    bundles: int
    fired: frozenset[str]
    symptoms: frozenset[str]
    facts: frozenset[str]
    crashes: tuple[Gap, ...]


def bundles_in(folders: Iterable[Path]) -> list[Path]:
    """The bundles among and below the directories, sorted. Raises ConfigError for a directory without any."""
    found: set[Path] = set()
    for folder in folders:
        inside = {p.parent for p in folder.rglob("bundle.json")}
        if not inside:
            raise ConfigError("holds no bundle", str(folder))
        found |= inside
    return sorted(found)


def prove(rules: RuleSet, bundles: Iterable[Path]) -> Proof:
    """Attribute every bundle, and keep which rules fired, which symptoms came up, which facts were found."""
    fired, symptoms, facts, crashes, count = set[str](), set[str](), set[str](), list[Gap](), 0
    for count, bundle in enumerate(bundles, 1):  # noqa: B007 - the last number is the count
        verdict: Verdict = pipeline.analyze_bundle(bundle, rules=rules, explain=True).verdict
        for step in verdict.trail or ():
            # An accumulator's second result is called name+1.
            fired.add(step.rule.partition("+")[0])
            symptoms.add(step.symptom)
        facts |= set(verdict.facts)
        crashes += [Gap(kind="crash", rule=d.rule, why=f"{bundle.name}: {d.what}") for d in verdict.diagnostics]
    return Proof(
        bundles=count, fired=frozenset(fired), symptoms=frozenset(symptoms), facts=frozenset(facts), crashes=tuple(crashes)
    )


def gaps(rules: RuleSet, proof: Proof, only_below: Iterable[Path] = ()) -> list[Gap]:
    """What `proof` leaves open. With `only_below`, of the rules in these directories alone."""
    wanted = [p.resolve() for p in only_below]

    def asked(file: str) -> bool:
        return not wanted or any(Path(file).resolve().is_relative_to(folder) for folder in wanted)

    found = list(proof.crashes)
    for extractor in rules.extractors:
        if asked(extractor.file):
            found += _table_gaps(rules, extractor, proof) if extractor.rows is not None else _line_gaps(extractor, proof)
    for rule in rules.python:
        if asked(rule.function.__code__.co_filename):
            found += _python_gaps(rule, proof)
    return sorted(found, key=lambda g: (g.kind, g.rule, g.why))


def _line_gaps(rule: Extractor, proof: Proof) -> list[Gap]:
    if rule.name in proof.fired:
        return []
    return [Gap(kind="metric" if rule.metric else "extractor", rule=rule.name, why=f"no bundle shows {rule.symptom}")]


def _table_gaps(rules: RuleSet, rule: Extractor, proof: Proof) -> list[Gap]:
    """A catalog's rows that mean the same to a verdict are one class: one bundle proves it."""
    classes: dict[tuple[str, str, str], list[str]] = {}
    for name in symptoms_of(rule):
        symptom = rules.symptoms[name]
        classes.setdefault((symptom.role, symptom.advice, symptom.sub_domain), []).append(name)
    return [
        Gap(kind="catalog", rule=rule.name, why=f"no bundle shows one of {', '.join(key)}: {', '.join(names[:4])}")
        for key, names in classes.items()
        if not proof.symptoms.intersection(names)
    ]


def _python_gaps(rule: PythonRule, proof: Proof) -> list[Gap]:
    if rule.kind == "collector":
        keys = set(rule.example.expect)
        return [] if keys & proof.facts else [Gap(kind=rule.kind, rule=rule.name, why="finds no fact in any bundle")]
    if rule.name in proof.fired:
        return []
    return [
        Gap(
            kind=rule.kind,
            rule=rule.name,
            why="fires in no bundle" if rule.kind == "accumulator" else "changes nothing in any bundle",
        )
    ]
