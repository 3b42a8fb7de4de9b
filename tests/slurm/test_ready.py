from __future__ import annotations

import pytest

from attribution.bundle import Attempt
from attribution.slurm.ready import Waits, decide
from attribution.slurm.values import Accounted

WAITS = Waits(kill_wait=30, unkillable=60, settle=5)


def ended(state="FAILED", end=1000, start=900):
    attempt = Attempt(cluster="c", job_id="1", state=state, nodes=("n1",))
    return Accounted(attempt=attempt, job="1", raw_id="1", start=start, end=end)


@pytest.mark.parametrize(
    ("attempt", "completing", "quiet_since", "now", "expected"),
    [
        (ended("RUNNING", end=None), False, None, 1000, (False, 1002)),
        (ended("RESIZING"), False, None, 2000, (False, 2002)),
        (ended(), True, None, 1001, (False, 1003)),
        (ended(), False, None, 1001, (False, 1006)),
        (ended(), False, 1001.0, 1005.9, (False, 1006)),
        (ended(), False, 1001.0, 1006.0, (True, None)),
        (ended("CANCELLED by 5"), False, 1029.0, 1030.0, (False, 1034)),
        (ended(), False, 900.0, 1004.0, (False, 1005)),
        (ended("CANCELLED by 5", start=None), None, None, 1000, (True, None)),
        # slurmctld is silent
        (ended("FAILED"), None, None, 1004, (False, 1005)),
        (ended("COMPLETED"), None, None, 1005, (True, None)),
        (ended("TIMEOUT"), None, None, 1039, (False, 1040)),
        (ended("TIMEOUT"), None, None, 1040, (True, None)),
        # an end that polling found hours later
        (ended(), False, None, 9999, (True, None)),
    ],
)
def test_when(attempt, completing, quiet_since, now, expected):
    decision = decide(attempt, completing, quiet_since, now, WAITS)
    assert (decision.ready, decision.again_at, decision.timed_out) == (*expected, False)
    assert decision.why


def test_completing_for_too_long_is_given_up():
    assert decide(ended(), True, None, 1149, WAITS).again_at == 1150
    decision = decide(ended(), True, None, 1150, WAITS)
    assert (decision.ready, decision.timed_out) == (True, True)


@pytest.mark.parametrize("completing", [True, False, None])
def test_whoever_asks_again_when_told_comes_to_an_end(completing):
    now, quiet = 1000.0, None
    for _ in range(1000):
        decision = decide(ended("TIMEOUT"), completing, quiet, now, WAITS)
        if decision.ready:
            break
        quiet = quiet or (None if completing else now)
        assert decision.again_at > now
        now = decision.again_at
    assert decision.ready
    assert now <= 1150
