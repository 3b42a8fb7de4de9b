from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.bundle import Step
from attribution.slurm.exits import ExitCode, decode, first_failed, unshift, unshift_steps


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("0:0", (24, 11), ExitCode(code=0, signal=0)),
        ("9:0", (24, 11), ExitCode(code=9, signal=0, maybe=137)),
        ("9:0", (25, 5), ExitCode(code=9, signal=0, maybe=137)),
        ("9:0", (25, 11), ExitCode(code=9, signal=0)),
        ("137:0", (26, 5), ExitCode(code=137, signal=0)),
        ("0:9", (24, 11), ExitCode(code=0, signal=9)),
        ("0:125", (22, 5), ExitCode(code=0, signal=0, out_of_memory=True)),
        ("", (24, 11), None),
        ("9", (24, 11), None),
        ("1:0:0", (24, 11), None),
    ],
)
def test_decode(text, version, expected):
    assert decode(text, version) == expected


@given(st.text())
def test_any_text_is_decoded(text):
    decode(text, (24, 11))
    unshift(text, text)


def step(step_id, state, exit_code="0:0", end="2026-11-29T14:38:46Z"):
    return Step(step_id=step_id, state=state, exit_code=exit_code, end=end)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([step("batch", "FAILED", "1:0"), step("0", "OUT_OF_MEMORY", "0:125")], "0"),
        ([step("batch", "FAILED", "1:0"), step("0", "FAILED", end="2026-11-29T14:38:47Z")], "batch"),
        ([step("10", "FAILED"), step("9", "FAILED")], "9"),
        ([step("0", "CANCELLED", end="2026-11-29T14:38:40Z"), step("1", "FAILED")], "1"),
        ([step("0", "CANCELLED"), step("batch", "CANCELLED")], "0"),
        ([step("extern", "FAILED"), step("batch", "FAILED")], "batch"),
        ([step("batch", "RESIZING"), step("0", "COMPLETED")], None),
        ([step("0", "FAILED", end=None), step("1", "FAILED")], "1"),
        ([], None),
    ],
)
def test_the_step_that_failed_first(steps, expected):
    found = first_failed(steps)
    assert (found and found.step_id) == expected
    found = first_failed(reversed(steps))
    assert (found and found.step_id) == expected


@pytest.mark.parametrize(
    ("codes", "derived", "expected"),
    [
        (["9:0"], "137:0", ["137:0"]),
        (["9:0", "1:0"], "137:0", ["137:0", "1:0"]),
        (["9:0", "9:0"], "137:0", ["9:0", "9:0"]),
        (["9:0", "137:0"], "137:0", ["9:0", "137:0"]),
        (["9:0"], "9:0", ["9:0"]),
        (["0:9"], "137:0", ["0:9"]),
        (["0:0"], "128:0", ["128:0"]),
    ],
)
def test_only_a_proven_shift_is_undone(codes, derived, expected):
    steps = [step(str(n), "FAILED", code) for n, code in enumerate(codes)]
    assert [one.exit_code for one in unshift_steps([*steps, step("batch", "FAILED", "9:0")], derived)] == [*expected, "9:0"]
