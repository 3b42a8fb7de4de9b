from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.errors import SlurmError
from attribution.slurm.poll import SLICE, Plan, Schedule, plan, poll
from attribution.slurm.values import End

NOW = 1_000_000
SCHEDULE = Schedule()
END = End(cluster="c", job="1", raw_id="1", dbindex="1", state="FAILED", end=5)


@pytest.mark.parametrize(
    ("last", "last_deep", "spans", "deep"),
    [
        (None, None, 144, True),
        (NOW - 30, NOW - 30, 0, False),
        (NOW - 60, NOW - 60, 1, False),
        (NOW - SLICE, NOW - SLICE, 1, False),
        (NOW - SLICE - 1, NOW - SLICE - 1, 144, True),
        (NOW - 60, NOW - 6 * 3600, 144, True),
        (NOW - 60, None, 144, True),
        # the clock was set back
        (NOW + 500, NOW + 500, 1, False),
    ],
)
def test_what_is_asked(last, last_deep, spans, deep):
    found = plan(NOW, last, last_deep, SCHEDULE)
    assert (len(found.spans), found.deep) == (spans, deep)


@given(st.integers(1, 10**6), st.integers(SLICE + 1, 10**7))
def test_a_deep_plan_has_no_holes_and_begins_with_the_newest(catch_up, now):
    spans = plan(now, None, None, Schedule(catch_up=catch_up)).spans
    assert spans[0][1] == now
    assert spans[-1][0] == now - catch_up
    assert all(later[0] == earlier[1] for later, earlier in itertools.pairwise(spans))
    assert all(0 < until - since <= SLICE for since, until in spans)


def run(todo, answers):
    taken, slept, clock = [], [], [0.0]

    async def ends(since, until):
        clock[0] += since
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(seconds):
        slept.append(seconds)

    try:
        asyncio.run(poll(todo, ends, taken.append, lambda: clock[0], sleep))
    except SlurmError:
        taken.append("error")
    return taken, slept


def test_each_answer_is_followed_by_a_pause_as_long():
    assert run(Plan(spans=((3, 10), (2, 3), (1, 2)), deep=True), [[END], [], [END]]) == ([END, END], [3.0, 2.0])


def test_what_was_taken_before_an_error_stays_taken():
    assert run(Plan(spans=((3, 10), (2, 3)), deep=True), [[END], SlurmError("down")]) == ([END, "error"], [3.0])
