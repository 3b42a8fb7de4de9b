"""When an attempt can be judged: its row is terminal long before its tasks have stopped printing."""

from __future__ import annotations

from attribution.model import Frozen
from attribution.slurm.values import Accounted

GRACE = 60.0
SILENT_GRACE = 10.0


class Waits(Frozen, frozen=True):
    """Seconds: KillWait and UnkillableStepTimeout of the cluster, and how long late lines are waited for."""

    kill_wait: float = 30.0
    unkillable: float = 60.0
    settle: float = 5.0

    @property
    def give_up(self) -> float:
        return self.kill_wait + self.unkillable + GRACE


class Decision(Frozen, frozen=True):
    """`ready` now, or ask again at `again_at` (epoch seconds). `timed_out`: judged although tasks may still run."""

    ready: bool
    why: str
    again_at: float | None = None
    timed_out: bool = False


def decide(accounted: Accounted, completing: bool | None, quiet_since: float | None, now: float, waits: Waits) -> Decision:
    """Whether `accounted` is ready at `now` (epoch seconds, UTC).

    `completing`: whether slurmctld lists the job as COMPLETING, None where it does not answer. `quiet_since`: when it
    was first seen terminal and not COMPLETING (the caller keeps it; None: only now). A requeued job is listed under the
    same id, so a later attempt of it delays this one, never longer than `waits.give_up` after its end.
    """
    end = accounted.end
    if not accounted.terminal or end is None:
        return Decision(ready=False, why=f"its row says {accounted.attempt.state}", again_at=now + 2.0)
    if accounted.start is None:
        return Decision(ready=True, why="it never started")
    if now >= end + waits.give_up:
        late = bool(completing)
        return Decision(ready=True, why="COMPLETING for too long" if late else "it ended long ago", timed_out=late)
    if completing:
        return Decision(ready=False, why="slurmctld says COMPLETING", again_at=min(now + 2.0, end + waits.give_up))
    if completing is None:
        own_end = accounted.state in {"COMPLETED", "FAILED"}
        at = end + (waits.settle if own_end else waits.kill_wait + SILENT_GRACE)
        why = "slurmctld does not answer"
    else:
        at = max(float(end), now if quiet_since is None else quiet_since) + waits.settle
        why = "late lines may come"
    return Decision(ready=True, why="its tasks have ended") if now >= at else Decision(ready=False, why=why, again_at=at)
