"""What the time in a kill notice shows: lines of an earlier run of the job, and lines of its dying."""

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


KILLED = frozenset({"TIMEOUT", "DEADLINE", "CANCELLED", "PREEMPTED", "REQUEUED"})


@filter_rule(
    name="after-the-notice-by-its-own-time",
    stage="MID",
    example=Example(
        attempt={"state": "PREEMPTED", "start": 1772445600.0},
        given=(
            event("slurm.kill_notice", None, kind="app", source="o", line=9, kill="yes", at="2026-03-02T10:40:00"),
            event("cuda.ima", None, kind="app", source="o", line=12, time=1772448003.0),
        ),
        expect=("demote cuda.ima",),
        quiet=(
            event("slurm.kill_notice", None, kind="app", source="o", line=9, kill="yes", at="2026-03-02T10:40:00"),
            event("cuda.ima", None, kind="app", source="o", line=12, time=1772447990.0),
        ),
    ),
)
def after_the_notice(view: View) -> Iterable[Change]:
    """Slurm's record says that it ended the attempt, and the notice says when: a line below it, of that second or later, is
    of a dying process.
    """
    state = (view.attempt.state.split() or [""])[0].rstrip("+")
    if state not in KILLED or view.attempt.log_timezone != "UTC":
        return
    for notice in view.of("slurm.kill_notice"):
        at = seconds(notice.fields.get("at", ""))
        for e in view.live() if at is not None and notice.fields.get("kill") == "yes" else ():
            below = e.kind == "app" and e.source == notice.source and e.line > notice.line and e.own_time and e.clock == "wall"
            if below and e.time is not None and e.time >= at and view.role(e) != "context" and "kill" not in e.fields:
                yield Demote(event=e.id, reason="it came after the notice that the attempt is ended", by=notice.id)
