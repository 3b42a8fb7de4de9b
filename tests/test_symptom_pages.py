"""docs/symptoms says what the rules say, and leads nowhere into nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attribution import ruleset
from attribution.desk.rulebook import describe, find
from attribution.desk.rulepages import anchor, pages
from attribution.ruleset.check import symptom_problems

FOLDER = Path(__file__).parents[1] / "docs" / "symptoms"
XIDS = (*range(1, 178), 185, 999)


@pytest.fixture(scope="module")
def rules():
    return ruleset.load(samples=False)


def test_the_pages_are_current(rules):
    kept = {p.name: p.read_text(encoding="utf-8") for p in FOLDER.glob("*.md")}
    made = pages(rules)
    assert sorted(n for n in {*kept, *made} if kept.get(n) != made.get(n)) == [], "run `make symptoms`"


def test_every_link_of_a_page_leads_to_a_heading(rules):
    made = pages(rules)
    heads = {n: {anchor(h) for h in re.findall(r"^#+ (.*)$", t, re.MULTILINE)} for n, t in made.items()}
    broken = []
    for name, text in made.items():
        outside_samples = re.sub(r"```text\n.*?\n```", "", text, flags=re.DOTALL)
        for page, head in re.findall(r"\]\(([\w.]+)(?:#([^)]*))?\)", outside_samples):
            if page not in made or (head and head not in heads[page]):
                broken.append(f"{name}: {page}#{head}")
    assert broken == []


def test_every_symptom_is_on_the_page_of_its_domain(rules):
    made = pages(rules)
    assert [s.id for s in rules.symptoms.values() if f"\n## {s.id}\n" not in made[f"{s.domain}.md"]] == []


def test_edges_and_precedences_name_what_there_is(rules):
    assert symptom_problems(rules.symptoms, rules.symptoms) == []


def test_a_possible_cause_says_what_it_is_and_what_to_do(rules):
    roots = [s for s in rules.symptoms.values() if s.role == "root"]
    assert [s.id for s in roots if not s.detail.strip() or not s.advice] == []


def test_every_xid_is_explained(rules):
    silent = []
    for code in XIDS:
        (symptom,) = find(rules, f"XID {code}").symptoms
        said = dict(describe(rules, symptom))
        if not said["what"] or not said["detail"]:
            silent.append(code)
    assert silent == []
