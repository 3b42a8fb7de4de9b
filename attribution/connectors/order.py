"""What the worker asks of a reader process, and what it answers: one JSON message each, on a socket pair."""

from __future__ import annotations

from attribution.model import CoverageState, Frozen, SourceKind

MOST_MESSAGE = 128 * 1024


class Order(Frozen, frozen=True):
    """Read one source. `path` names a log; without it the message carries the descriptor of a job's output.

    `start`, `end`: the window in epoch seconds, UTC; `began`, `ended`: the attempt's own. `limit` is in bytes. `jobs`
    are the ids of this job, and `nodes` its nodes as Slurm lists them: lines that only name other jobs are left out.
    """

    kind: SourceKind
    out: str
    limit: int
    path: str = ""
    start: float | None = None
    end: float | None = None
    began: float | None = None
    ended: float | None = None
    zone: str = "UTC"
    jobs: tuple[str, ...] = ()
    nodes: str = ""


class Answer(Frozen, frozen=True):
    """What became of it. `bytes` were read; `wrote` says whether `out` exists now."""

    state: CoverageState
    reason: str = ""
    cut: tuple[str, ...] = ()
    bytes: int = 0
    lines: int = 0
    wrote: bool = False
