from __future__ import annotations

import re

import pytest
import sample_verdicts as samples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from attribution.report.line import comment_line, job_line, verdict_line
from attribution.report.nodes import fold

COMMENT_RE = re.compile(r"sattrib:1( [a-z0-9._/+-]+){5}")


def test_line_for_people() -> None:
    assert verdict_line(samples.attributed()) == "hardware_failure  hardware/nvlink_signal_integrity  node-02  high"
    assert verdict_line(samples.ambiguous()) == "hardware_failure  hardware/gpu  -  medium  (ambiguous)"
    assert verdict_line(samples.insufficient()) == "unknown_failure  unknown/collective_hang  -  low  (insufficient)"
    assert verdict_line(samples.no_failure()) == "completed  none/success  -  high"
    assert job_line(samples.no_failure()) == "4242  completed  none/success  -  high\n"


def test_many_nodes_do_not_push_the_confidence_off_the_screen() -> None:
    line = verdict_line(samples.wide(), 80)
    assert len(line) <= 80
    assert line.endswith("…  high")


@pytest.mark.parametrize(
    ("make", "comment"),
    [
        (samples.attributed, "sattrib:1 hardware_failure hardware/nvlink_signal_integrity xid-149 node-02 high"),
        (samples.ambiguous, "sattrib:1 hardware_failure hardware/gpu ambiguous - medium"),
        (samples.insufficient, "sattrib:1 unknown_failure unknown/collective_hang insufficient - low"),
        (samples.no_failure, "sattrib:1 completed none/success - - high"),
        (samples.wide, "sattrib:1 hardware_failure hardware/nvlink_signal_integrity xid-149 node-0001+13 high"),
    ],
)
def test_comment(make, comment: str) -> None:
    assert comment_line(make(), {"nvlink.signal_integrity": ("xid-149", "netir")}) == comment


def test_without_an_alias_the_cause_is_the_symptoms_id() -> None:
    for aliases in (None, {}, {"nvlink.signal_integrity": ()}):
        assert " nvlink-signal_integrity " in comment_line(samples.attributed(), aliases)


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        ((), "-"), (("Node-02",), "node-02"), (("n1", "n2"), "n1+1"), (("bad name", "n2", "n3"), "n2+2"), (("a|b",), "-"),
        (('n"1',), "-"), (("n\n1",), "-"), (("x" * 61, "n2"), "n2+1"), (("nö",), "-"), (tuple(f"n{i}" for i in range(5000)), "n0+4999"),
    ],
)  # fmt: skip
def test_nodes_of_the_comment(nodes: tuple[str, ...], shown: str) -> None:
    assert comment_line(samples.attributed(responsible_nodes=nodes)).split(" ")[4] == shown


@given(st.text(), st.lists(st.text(max_size=80), max_size=5), st.text())
def test_comment_is_safe_whatever_the_verdict_says(word: str, nodes: list[str], alias: str) -> None:
    verdict = samples.attributed(sub_domain=word, responsible_nodes=tuple(nodes))
    assert verdict.root_cause
    verdict = replace(verdict, root_cause=replace(verdict.root_cause, symptom=word))
    for aliases in ({}, {word: (alias,)}):
        comment = comment_line(verdict, aliases)
        assert COMMENT_RE.fullmatch(comment), comment
        assert len(comment) <= 200


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""), (["n1"], "n1"), (["n2", "n1", "n3", "n1"], "n[1-3]"), (["node-09", "node-10", "node-12"], "node-[09-10,12]"),
        (["n1", "n01"], "n01,n1"), (["login"], "login"), (["a1", "b", "a2"], "a[1-2],b"), (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        (["x" + "9" * 30], "x" + "9" * 30),
    ],
)  # fmt: skip
def test_fold(names: list[str], folded: str) -> None:
    assert fold(names) == folded
