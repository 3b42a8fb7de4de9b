"""Healthy lines must stay silent: no rule, bundled or new, may read a root cause out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution import ruleset
from attribution.bundle import Attempt, Bundle, Source
from attribution.engine.session import Session
from attribution.ruleset.corpus import _fill

HEALTHY = ruleset.bundled_dir() / "healthy"
BENIGN = Path(__file__).parent / "benign.log"
KINDS = ("app", "kern", "dmesg", "syslog", "journal", "fabricmanager", "slurmctld", "slurmdbd", "slurmd", "spank")
FILES = sorted([*HEALTHY.glob("*.log"), BENIGN])
LEAST = {"common": 150, "other": 500}


@pytest.fixture(scope="module")
def rules():
    return ruleset.load(samples=False)


def templates(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def accusations(rules, kind: str, lines: list[str]) -> list[str]:
    """What a failed attempt's source of this kind would be accused of by these lines."""
    attempt = Attempt(cluster="c", job_id="4711", state="FAILED", exit_code="1:0", nodes=("n1",))
    bundle = Bundle(schema=1, attempt=attempt, sources=(Source(path="log", kind=kind, node="n1"),))
    session = Session(rules, bundle)
    session.ingest("log", "\n".join(lines).encode(), last=True)
    verdict = session.attribute(explain=True)
    found = [
        f"{lines[step.line - 1]!r} gives {step.symptom} by {step.rule}"
        for step in verdict.trail
        if step.stage == "EXTRACT"
        and step.source == "log"
        and rules.symptoms[step.symptom].role == "root"
        and "(info" not in step.what
    ]
    return found + [f"candidate {c.symptom}" for c in verdict.candidates if not found]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", FILES, ids=[p.name for p in FILES])
def test_no_healthy_line_shows_a_cause(rules, path, kind):
    assert accusations(rules, kind, [_fill(line, 7) for line in templates(path)]) == []


def test_the_corpus_is_large_and_its_lines_are_its_own():
    common = [line for p in HEALTHY.glob("common-*.log") for line in templates(p)]
    other = [line for p in HEALTHY.glob("*.log") if not p.name.startswith("common-") for line in templates(p)]
    assert len(common) >= LEAST["common"]
    assert len(other) >= LEAST["other"]
    assert len(set(common)) == len(common)
    assert len(set(other)) == len(other)


def test_no_rule_searches_more_than_one_healthy_line_in_a_thousand(rules):
    assert ruleset.over_budget(list(rules.extractors)) == []
