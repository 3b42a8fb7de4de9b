"""Lines that an earlier run of the same job left in an output file that is appended to."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Demote, Example, Retag, View, event, filter_rule

_STAMP = re2.compile(r"^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)")
# Slurm prints local time; where the cluster's zone is not known here, the westernmost one is thought of.
WEST = 12 * 3600.0


def seconds(stamp: str) -> float | None:
    """Seconds since 1970 of a printed time, read as UTC."""
    found = _STAMP.match(stamp)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
    year -= month <= 2
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    return days * 86400.0 + hour * 3600 + minute * 60 + second


@filter_rule(
    name="an-earlier-runs-notice",
    stage="EARLY",
    example=Example(
        attempt={"job_id": "127", "start": 1772445600.0},
        given=(
            event("slurm.kill_notice", None, kind="app", line=9, kill="yes", at="2026-03-02T09:58:40"),
            event("slurm.step_cancel", None, kind="app", line=8, at="2026-03-01T09:58:39"),
        ),
        expect=(
            "demote slurm.kill_notice", "demote slurm.step_cancel", "retag slurm.kill_notice slurm.kill_notice",
            "retag slurm.step_cancel slurm.step_cancel",
        ),
        quiet=(event("slurm.kill_notice", None, kind="app", line=9, kill="yes", at="2026-03-02T10:40:00"),),
    ),
)  # fmt: skip
def an_earlier_runs_notice(view: View) -> Iterable[Change]:
    """A requeued job keeps its id and may append to its output: a notice from before this attempt's start ended the run
    before it.
    """
    start = view.state.start
    if start is None:
        return
    slack = 0.0 if view.attempt.log_timezone == "UTC" else WEST
    for e in view.of("slurm.kill_notice", "slurm.step_cancel"):
        at = seconds(e.fields.get("at", ""))
        if at is not None and at + slack < start:
            yield Retag(event=e.id, symptom=e.symptom, reason="it ended an earlier run", fields={"kill": "no"})
            yield Demote(event=e.id, reason="its time is before the start of this attempt: it ended an earlier run of the job")
