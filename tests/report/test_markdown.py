from __future__ import annotations

import json

import pytest
import sample_verdicts as samples
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from attribution.report.as_json import verdict_json
from attribution.report.markdown import code, markdown, prose

ALL = [samples.attributed, samples.ambiguous, samples.insufficient, samples.no_failure, samples.wide]
MARKS = st.text("`*_[]()<>#|~&!\\@:/-+=1. \na")


def rendered(text: str) -> list[str]:
    """The kinds of everything that a reader of Markdown sees in it."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    return [token.type for token in tokens] + [child.type for token in tokens for child in token.children or []]


@pytest.mark.parametrize("make", ALL)
def test_markdown_of_each_kind(make) -> None:
    text = markdown(make())
    assert text.startswith(f"**{make().terminal_state}".replace("_", "\\_"))
    assert text.endswith("\n")
    assert len(text) < 40_000


@given(MARKS)
def test_prose_means_nothing_but_itself(text: str) -> None:
    kinds = set(rendered("x " + prose(text))) | set(rendered(prose(text)))
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "html_inline"}


@given(MARKS)
def test_code_stays_code(text: str) -> None:
    kinds = set(rendered("x " + code(text) + " y"))
    assert kinds == {"paragraph_open", "paragraph_close", "inline", "text", "code_inline"}


@pytest.mark.parametrize("text", ["```\n# big\n", "~~~", "<script>", "@everyone", "[x](http://y)", "`` ` ```"])
def test_log_text_cannot_leave_its_block(text: str) -> None:
    verdict = samples.attributed()
    assert verdict.root_cause
    verdict = replace(verdict, root_cause=replace(verdict.root_cause, evidence=(samples.evidence(text),)))
    calm = replace(verdict, root_cause=replace(verdict.root_cause, evidence=(samples.evidence("calm"),)))
    assert rendered(markdown(verdict)) == rendered(markdown(calm))


@pytest.mark.parametrize("make", ALL)
def test_json_is_stable_and_whole(make) -> None:
    one, two = verdict_json(make()), verdict_json(make())
    assert one == two
    assert json.loads(one)["attempt"]["job_id"] == "4242"
    assert list(json.loads(one))[:2] == ["attempt", "verdict"]
    assert json.loads(verdict_json(make(), indent=0)) == json.loads(one)
    assert verdict_json(make(), indent=0).count("\n") == 1


def test_facts_are_sorted_whatever_order_they_came_in() -> None:
    one = samples.attributed(facts={"b": {"y": 1, "x": 2}, "a": 1})
    two = samples.attributed(facts={"a": 1, "b": {"x": 2, "y": 1}})
    assert verdict_json(one) == verdict_json(two)


def test_json_takes_any_text() -> None:
    document = verdict_json(samples.attributed(missing=("\ud800 \x9b \u202e é \x00",)))
    document.encode()
    assert "\x9b" not in document
    assert json.loads(document)["missing"] == ["\ufffd \x9b \u202e é \x00"]
