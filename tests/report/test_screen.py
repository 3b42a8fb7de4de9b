from __future__ import annotations

import re
from pathlib import Path

import pytest
import sample_verdicts as samples
from msgspec.structs import replace

from attribution.archive.rewrite import rewrite
from attribution.model import Coverage, Diagnostic, Seen
from attribution.report.escape import columns
from attribution.report.explain import explain
from attribution.report.line import job_line
from attribution.report.markdown import markdown
from attribution.report.onset import onsets
from attribution.report.spans import plain
from attribution.report.text import screen
from attribution.report.times import duration, show

ALL = [samples.attributed, samples.ambiguous, samples.insufficient, samples.no_failure, samples.wide]


@pytest.mark.parametrize("name", ["attributed", "ambiguous", "insufficient"])
def test_golden_screen(name: str) -> None:
    """The screen as a person sees it; look at the difference and keep it if it is better."""
    golden = Path(__file__).with_name(f"screen_{name}.txt")
    assert plain(screen(getattr(samples, name)())) == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("width", [76, 80, 120])
def test_one_screen(make, width: int) -> None:
    shown = screen(make(), width)
    assert len(shown) <= 46
    for line in shown:
        if not any(style == "command" for _, style in line):
            assert columns("".join(text for text, _ in line)) <= width


def test_what_does_not_fit_is_counted_aloud() -> None:
    text = plain(screen(samples.wide()))
    for words in (
        "999 more pieces of evidence",
        "29 more drains suggested",
        "29 more demoted",
        "30 more not read",
    ):
        assert f"… {words}, see --" in text
    assert "RESPONSIBLE NODES (14)" in text
    assert "kern, 1000 sources on node-[0001-1000]: unreachable" in text


def test_commands_are_whole_so_that_they_can_be_copied() -> None:
    drain = samples.attributed().drain_suggestions[0]
    for width in (40, 80):
        assert f"    {drain.command}\n" in plain(screen(samples.attributed(), width))


def test_ambiguous_shows_both_sides_and_blames_nobody() -> None:
    text = plain(screen(samples.ambiguous()))
    for words in (
        "1. hardware/gpu",
        "2. network/ib_link_flap",
        "for     10 s before",
        "against no kernel log",
        "none named by the evidence",
    ):
        assert words in text
    assert "WHY" not in text
    assert "scontrol" not in text


def test_parts_with_nothing_to_say_are_not_there() -> None:
    text = plain(screen(samples.no_failure()))
    assert "Nothing failed." in text
    assert text.count("\n") < 8
    for words in ("WHY", "DEMOTED", "COULD NOT READ", "WHAT TO DO", "RESPONSIBLE"):
        assert words not in text


def test_partial_source_names_what_was_cut() -> None:
    coverage = (Coverage(source="a.out", kind="app", state="partial", reason="over 64 MiB", cut=("nccl warn",)),)
    text = plain(screen(samples.attributed(coverage=coverage, could_change=())))
    assert "app a.out: read in part, over 64 MiB, cut: nccl warn" in text


def test_crashed_rule_is_shown() -> None:
    text = plain(screen(samples.attributed(diagnostics=(Diagnostic(rule="xid-45", what="KeyError: 'xid'"),))))
    assert "xid-45: KeyError: 'xid'" in text


def test_onsets_are_in_the_order_of_time_and_untimed_ones_last() -> None:
    def seen(symptom: str, node: str, time: str | None) -> Seen:
        return Seen(
            symptom=symptom, says="", role="root", domain="hardware", sub_domain="gpu", nodes=(node,), count=1, first_seen=time,
            rules=("r",), evidence=(samples.evidence(node=node, time=time),),
        )  # fmt: skip

    verdict = samples.attributed(
        root_cause=None, demoted=(), verdict="insufficient",
        symptoms=(
            seen("c", "n1", None), seen("b", "n2", "2026-10-03T03:41:50+02:00"), seen("a", "n1", "2026-10-03T01:41:51Z"),
            seen("b", "n2", "2026-10-03T01:41:49.5Z"), seen("d", "n3", "not a time"),
        ),
    )  # fmt: skip
    assert [(o.node, o.symptom) for o in onsets(verdict)] == [("n2", "b"), ("n1", "a"), ("n1", "c"), ("n3", "d")]


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2026-10-03T03:41:55Z", "2026-10-03 03:41:55Z"), ("2026-10-03T03:41:55.620+02:00", "2026-10-03 01:41:55.620Z"),
        ("2026-10-03T03:41:55", "2026-10-03 03:41:55"), ("soon", "soon"), (None, ""), ("0001-01-01T00:00:00+23:00", "0001-01-01T00:00:00+23:00"),
    ],
)  # fmt: skip
def test_times_are_utc_and_say_so(time: str | None, shown: str) -> None:
    assert show(time) == shown


@pytest.mark.parametrize(
    ("start", "end", "lasted"),
    [
        ("2026-10-03T01:00:00Z", "2026-10-03T03:29:05Z", "2h 29m"), ("2026-10-03T01:00:00Z", "2026-10-05T03:00:00Z", "2d 2h"),
        ("2026-10-03T01:00:00Z", "2026-10-03T01:00:00Z", "0s"), ("2026-10-03T01:00:00Z", "2026-10-03T00:00:00Z", ""),
        ("2026-10-03T01:00:00", "2026-10-03T02:00:00Z", ""), (None, "2026-10-03T02:00:00Z", ""),
    ],
)  # fmt: skip
def test_duration(start: str | None, end: str | None, lasted: str) -> None:
    assert duration(start, end) == lasted


@pytest.mark.parametrize("make", ALL)
def test_explain_leaves_nothing_out(make) -> None:
    verdict = make()
    text = plain(explain(verdict))
    flat = "".join(text.split())
    for item in (*verdict.symptoms, *verdict.demoted, *verdict.interesting):
        for piece in item.evidence:
            assert "".join(piece.text.split()) in flat
            assert f"{piece.source}:{piece.line}" in text
    for step in verdict.trail:
        assert "".join(f"{step.rule}: {step.what}".split()) in flat
    for source in verdict.coverage:
        assert f"  {source.source} ({source.kind})" in text
    assert not re.search("… [0-9]+ more", text)
    assert all(node in flat for node in verdict.responsible_nodes) or "responsible: node-[" in text


def test_explain_says_that_there_is_no_trail() -> None:
    from msgspec import UNSET

    assert "No trail was kept" in plain(explain(replace(samples.attributed(), trail=UNSET)))


def test_whatever_field_hostile_text_comes_in_by() -> None:
    """Every text of a verdict, commands and names as well, is one line of visible characters."""
    hostile = "a\x1b[2Jb\u202ec\nd\x00\ud800"
    verdict = rewrite(samples.attributed(), lambda item: item + hostile if isinstance(item, str) else item)
    verdict = replace(verdict, verdict="attributed")
    both = replace(verdict, verdict="ambiguous", candidates=samples.ambiguous().candidates)
    for text in (plain(screen(verdict)), plain(screen(both)), plain(explain(verdict)), markdown(verdict), job_line(verdict)):
        assert not set(text) & set("\x1b\u202e\x00\ud800")
        assert "\nd" not in text
