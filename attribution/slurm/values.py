"""What this package gives to the others. Times are epoch seconds, UTC, except inside bundle values (ISO 8601 with Z)."""

from __future__ import annotations

from typing import Literal

from attribution.bundle import Attempt
from attribution.model import Frozen

# A base state after which nothing of the attempt runs any more. REQUEUED is the row of an attempt that was put back
# into the queue; RESIZING and SUSPENDED are not ends.
TERMINAL: frozenset[str] = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REQUEUED",
    "REVOKED", "TIMEOUT",
})  # fmt: skip


def base_state(state: str) -> str:
    """The state without its ornament: "CANCELLED by 1021" and "CANCELLED+" are CANCELLED."""
    return state.split(" ", 1)[0].rstrip("+")


class Cluster(Frozen, frozen=True):
    """What is asked of a cluster once: `version` is (major, minor); the waits are seconds."""

    name: str
    version: tuple[int, int]
    kill_wait: int = 30
    unkillable_timeout: int = 60
    slurmctld_log: str = ""


class End(Frozen, frozen=True):
    """One ended row as polling sees it. `start` None: it never started."""

    cluster: str
    job: str
    raw_id: str
    dbindex: str
    state: str
    end: int
    start: int | None = None


class Accounted(Frozen, frozen=True):
    """One attempt out of the accounting, with what a bundle has no place for.

    `job` is the id as sacct prints it (`10_3`, `11+1`); `raw_id` the number behind it. `aliases`, `starts` and `sluids`
    are of all rows, since a resized job has one row a size; the attempt's own dbindex and sluid are the last row's.
    """

    attempt: Attempt
    job: str
    raw_id: str
    aliases: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    sluids: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None
    name: str = ""
    work_dir: str = ""
    texts: Literal["read", "unclear", "not_read"] = "not_read"

    @property
    def key(self) -> tuple[str, str]:
        """Cluster and DBIndex: what identifies an attempt on every version of Slurm."""
        return self.attempt.cluster, self.attempt.dbindex or ""

    @property
    def state(self) -> str:
        return base_state(self.attempt.state)

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL and self.end is not None

    @property
    def batch(self) -> bool:
        """It ran a batch script, so it has an output file even where Slurm does not name it."""
        return any(step.step_id == "batch" for step in self.attempt.steps)


class InMemory(Frozen, frozen=True):
    """What slurmctld still knows of a job: only here stands why it failed. `exit_code` is not shifted."""

    raw_id: str
    state: str
    reason: str | None
    exit_code: str
    start: int | None
    end: int | None


class CommentRow(Frozen, frozen=True):
    """The comments of one row, to decide whether ours may be written. `newest`: no later row has the same job id."""

    raw_id: str
    dbindex: str
    sluid: str
    state: str
    admin: str
    system: str
    newest: bool
