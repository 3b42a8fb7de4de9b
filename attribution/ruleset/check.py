"""What makes a rule acceptable: samples, links, hit budget on healthy logs. Every fault is found at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby

from attribution.engine import lines
from attribution.engine.rules import Extractor, Matcher, RuleSet
from attribution.model import Symptom
from attribution.ruleset.build import SYMPTOM_ID
from attribution.ruleset.files import Problem

MOST_PROBLEMS, MOST_WORDS = 50, 1000
BUDGET = 1000  # one candidate line in this many healthy ones is the most that a rule's needles may hit
_SUB = re.compile(r"[a-z][a-z0-9_]*")


def symptom_problems(symptoms: Mapping[str, Symptom], names: Iterable[str]) -> list[Problem]:
    """Links that lead nowhere, and ids out of shape."""
    known = set(symptoms)
    found: list[Problem] = []
    for name in names:
        symptom = symptoms[name]
        imported = symptom.rank >= 900
        if not imported and not (SYMPTOM_ID.fullmatch(symptom.id) and len(symptom.id) <= 80):
            found.append(
                (symptom.file, symptom.id[:80], "symptom ids are lower-case words, 80 characters at most: domain.name")
            )
        if not all(text.isprintable() for text in (symptom.id, symptom.says, *symptom.aliases, *symptom.refs)):
            found.append((symptom.file, symptom.id, "id, says, aliases and refs are one line of visible characters"))
        if not _SUB.fullmatch(symptom.sub_domain):
            found.append((symptom.file, symptom.id, f"sub_domain {symptom.sub_domain!r} must be lower-case with _"))
        for edge in symptom.explains:
            if not _matches(edge.symptom, known):
                found.append((symptom.file, symptom.id, f"explains {edge.symptom}: no such symptom"))
        for other in symptom.beats:
            if not _matches(other, known):
                found.append((symptom.file, symptom.id, f"beats {other}: no such symptom"))
        if symptom.lingers not in ("no", "boot", "reset") and symptom.lingers not in known:
            found.append((symptom.file, symptom.id, f"lingers = {symptom.lingers!r} is not no, boot, reset or a symptom"))
        if symptom.drains and symptom.domain not in ("hardware", "network", "platform"):
            found.append((symptom.file, symptom.id, f"drains = true has no meaning for domain {symptom.domain}"))
    return found


def grouped(problems: Iterable[Problem]) -> list[Problem]:
    """Sorted. A name that leads nowhere, in many symptoms of a file as an edge set makes it, is said once."""
    names: dict[tuple[str, str], list[str]] = {}
    found: list[Problem] = []
    for file, name, what in sorted(_causes(set(problems))):
        if what.endswith((": no such symptom", ": no such edge_set")):
            names.setdefault((file, what), []).append(name)
        else:
            found.append((file, name, what))
    for (file, what), same in names.items():
        found.append((file, same[0] + (f" (and {len(same) - 1} more)" if len(same) > 1 else ""), what))
    return list(_shortened(sorted(found)))


def _causes(problems: set[Problem]) -> set[Problem]:
    """Without the examples whose symptoms may be undeclared only for what is wrong with a .toml file."""
    follow = {p for p in problems if p[0].endswith(".py") and p[2].endswith(" is no declared symptom")}
    if not follow or not any(file.endswith(".toml") for file, *_ in problems):
        return problems
    return (problems - follow) | {
        (file, "", "its examples name symptoms that are not declared: put the .toml files right first")
        for file in {file for file, *_ in follow}
    }


def _shortened(problems: list[Problem]) -> Iterator[Problem]:
    """The first problems of each file; how many more there are."""
    for file, same in groupby(problems, key=lambda p: p[0]):
        listed = [(file, name, what[:MOST_WORDS]) for _, name, what in same]
        yield from listed[:MOST_PROBLEMS]
        if len(listed) > MOST_PROBLEMS:
            yield (file, "", f"and {len(listed) - MOST_PROBLEMS} more problems")


def _matches(pattern: str, known: set[str]) -> bool:
    if pattern in known:
        return True
    from fnmatch import fnmatchcase

    return any(ch in pattern for ch in "*?[") and any(fnmatchcase(k, pattern) for k in known)


def rule_problems(rules: RuleSet, names: Iterable[str]) -> list[Problem]:
    """Samples that don't do what they say, and symptoms that nobody declared."""
    found: list[Problem] = []
    by_name = {r.name: r for r in rules.extractors}
    for name in names:
        rule = by_name[name]
        wanted = {row.symptom for row in rule.rows.values()} if rule.rows is not None else {rule.symptom}
        found += [(rule.file, name, f"symptom {s} is not declared") for s in sorted(wanted - set(rules.symptoms))]
        if rule.metric is None and not (rule.maturity == "incubating" and not rule.match):
            found += [(rule.file, name, what) for what in _sample_problems(rule, rules.matchers[name])]
    return found


def _sample_problems(rule: Extractor, matcher: Matcher) -> Iterable[str]:
    for number, sample in enumerate(rule.match, 1):
        body = matcher.body(sample)
        if matcher.match(body) is None:
            yield f"match sample {number} does not match: {sample[:120]!r}{_read_as(rule, body, sample)}"
        elif rule.needles and not any(n in sample.lower() for n in rule.needles):
            yield f"match sample {number} holds none of its needles {list(rule.needles)}: {sample[:120]!r}"
    for number, sample in enumerate(rule.no_match, 1):
        if matcher.match(matcher.body(sample)) is not None:
            yield f"no_match sample {number} matches: {sample[:120]!r}"


def _read_as(rule: Extractor, body: str, sample: str) -> str:
    """What a rule sees of a sample, where that is not what stands there."""
    if "app" in rule.reads and "quoted" not in rule.also and lines.quoted(body):
        return ": it is read as quoted text (a comment, a traced command, arguments, help or a test's name)"
    return f", whose message is {body[:120]!r}" if body != sample.strip() else ""


def budget_problems(extractors: Iterable[Extractor], corpus: Sequence[str]) -> list[Problem]:
    """Rules whose needles hit more than one healthy line in BUDGET."""
    blob = [line.lower() for line in corpus]
    found: list[Problem] = []
    for rule in extractors:
        if rule.last_only:  # never searched by needles
            continue
        hits = sum(_count(needle, blob) for needle in rule.needles)
        if hits * BUDGET > len(blob):
            where = f"its needles {list(rule.needles)} hit {hits} of {len(blob)} healthy lines"
            found.append((rule.file, rule.name, f"{where} (the budget is 1 in {BUDGET}): give rarer `needles`"))
    return found


def _count(needle: str, blob: Sequence[str]) -> int:
    return _count_joined(needle, _joined(tuple(blob)))


@cache
def _joined(blob: tuple[str, ...]) -> str:
    return "\n".join(blob)


def _count_joined(needle: str, text: str) -> int:
    """Lines of `text` that hold `needle`."""
    count, at = 0, text.find(needle)
    while at >= 0:
        count += 1
        end = text.find("\n", at)
        at = text.find(needle, end) if end >= 0 else -1
    return count
