"""docs/writing-rules.md: its snippets load as they stand, and its tables name what there is."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from attribution import pipeline, ruleset
from attribution.rule import CHANGES, REFINE_STAGES, Event, Example

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "writing-rules.md").read_text()
SNIPPETS = re.findall(r"^```(toml|python|csv)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def written(folder: Path) -> None:
    """Every snippet as a file: its first line names it; a table is named by the catalog before it."""
    tables = iter(re.findall(r'^table = "(.+?)"', PAGE, re.MULTILINE))
    for language, text in SNIPPETS:
        name = next(tables) if language == "csv" else text.split("\n", 1)[0].removeprefix("# ")
        assert re.fullmatch(r"\w+\.(toml|py|csv)", name), f"the first line of this snippet names no file:\n{text}"
        assert not (folder / name).exists(), f"{name} is there twice"
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    written(folder)
    return ruleset.load((folder,), samples=False)


def test_the_snippets_load_together(rules):
    assert [w for w in rules.warnings if "imported file" not in w] == []


def test_the_bundle_pages_example_runs_with_them(rules, tmp_path):
    series, bundle = re.findall(
        r"^```json\n(.*?)^```$", (DOCS / "bundle.md").read_text().split("## Metric files")[1], re.MULTILINE | re.DOTALL
    )
    for name, text in (("bundle.json", bundle), ("inlet.json", series), ("slurm.out", "solver: cycle 12 residual 1e-3\n")):
        (tmp_path / name).write_text(text)
    verdict = pipeline.analyze_bundle(tmp_path, rules=rules).verdict
    assert (verdict.root_cause.symptom, verdict.responsible_nodes) == ("site.inlet_hot", ("n1",))
    assert verdict.facts["progress"]["last_step"] == "12"
    assert not verdict.diagnostics


def test_every_kind_has_a_snippet(rules):
    bundled = {r.name for r in ruleset.load(samples=False).python}
    own = {(r.kind, r.stage) for r in rules.python if r.name not in bundled}
    assert {("filter", "STANDARD"), ("collector", ""), ("accumulator", "")} <= own
    assert {("refiner", stage) for stage in REFINE_STAGES} <= own
    tables = {
        t for language, text in SNIPPETS if language == "toml" for t in re.findall(r"^\[\[(\w+)\]\]$", text, re.MULTILINE)
    }
    assert {"symptom", "edge_set", "extractor", "family", "catalog", "metric"} <= tables


def test_the_tables_of_changes_and_examples_are_whole():
    for change in CHANGES:
        keywords = "".join(rf"{name}=[^,|]*, " for name in change.__struct_fields__)[:-2]
        assert re.search(rf"^\| `{change.__name__}\({keywords}\)`", PAGE, re.MULTILINE), f"{change.__name__}({keywords})"
    for name in Example.__struct_fields__:
        assert re.search(rf"^\| .*`{name}`", PAGE, re.MULTILINE), name
    named = {w for row in re.findall(r"^\| (`.+?`) \|", PAGE, re.MULTILINE) for w in re.findall(r"`(\w+)`", row)}
    assert set(Event.__struct_fields__) <= named


def test_the_vocabulary_of_the_verdict_page_is_that_of_the_rules():
    used: dict[str, set[str]] = defaultdict(set)
    for symptom in ruleset.load(samples=False).symptoms.values():
        used[symptom.domain].add(symptom.sub_domain)
    section = (DOCS / "verdict.md").read_text().split("## Domains and sub-domains")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| (\w+) \| ([a-z_0-9, ]+) \|$", section, re.MULTILINE))
    assert {domain: ", ".join(sorted(subs)) for domain, subs in sorted(used.items())} == {
        domain: rows.get(domain, "") for domain in sorted(used)
    }
