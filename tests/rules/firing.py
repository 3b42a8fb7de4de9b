"""What the bundled rules say of one line, whatever source it stands in."""

from __future__ import annotations

from functools import cache

from attribution import ruleset
from attribution.engine import lines
from attribution.engine.match import Prefilter
from attribution.engine.rules import Extractor, RuleSet


@cache
def rules() -> RuleSet:
    return ruleset.load(samples=False)


@cache
def prefilter() -> Prefilter:
    found: dict[str, list[str]] = {}
    for rule in rules().extractors:
        for needle in rule.needles:
            found.setdefault(needle, []).append(rule.name)
    return Prefilter({needle: tuple(names) for needle, names in sorted(found.items())})


def fired(line: str) -> list[tuple[Extractor, str]]:
    """(rule, symptom) of every extractor that matches the line."""
    text = line.split("\n", 1)[0]
    body = lines.parse(text).body
    found = []
    for candidate in prefilter().candidates(text.encode()):
        for name in candidate.rules:
            matcher = rules().matchers[name]
            hit = matcher.match(body)
            if hit is not None:
                found.append((matcher.rule, hit[1].symptom))
    return found


def sampled() -> list[tuple[Extractor, str]]:
    """(rule, sample) of every match sample that is a line."""
    return [(r, s) for r in rules().extractors if r.metric is None and not r.last_only for s in r.match]
