"""What the worker asks of the connectors, and how they say what became of a source."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from attribution.bundle import Attempt, GivenCoverage, Source
from attribution.config import Config
from attribution.connectors.order import MOST_MESSAGE, Answer, Order
from attribution.engine.stamps import Zone, parse_when
from attribution.errors import SattribError
from attribution.model import CoverageState, Frozen, SourceKind
from attribution.slurm.hostlist import compress


class Request(Frozen, frozen=True):
    """The evidence of one attempt, to be read into `folder` (exists, private).

    The window is in epoch seconds, UTC; None is open. `complete` False: only Slurm's rows count, nothing is read.
    `work_dir` and `name` (of the job) are for the patterns of `[app] extra`.
    """

    attempt: Attempt
    window_start: float | None
    window_end: float | None
    folder: Path
    batch_host: str | None = None
    complete: bool = True
    work_dir: str = ""
    name: str = ""


def order_of(request: Request, config: Config, kind: SourceKind, place: str, path: str = "") -> Order:
    """The order to read one source into `place` (relative to the folder)."""
    attempt = request.attempt
    zone = Zone(attempt.log_timezone, None)
    jobs, nodes = _ours(attempt) if kind in ("slurmctld", "slurmdbd") else ((), "")
    out = request.folder / place
    for folder in reversed(out.relative_to(request.folder).parents[:-1]):
        (request.folder / folder).mkdir(mode=0o700, exist_ok=True)
    return Order(
        kind=kind, out=str(out), limit=config.collect.max_mb << 20, path=path, start=request.window_start,
        end=request.window_end, began=parse_when(attempt.start, zone) if attempt.start else None,
        ended=parse_when(attempt.end, zone) if attempt.end else None, zone=attempt.log_timezone, jobs=jobs, nodes=nodes,
    )  # fmt: skip


def _ours(attempt: Attempt) -> tuple[tuple[str, ...], str]:
    """The job's ids and nodes: slurmctld names a task or a component by the array's or first component's id, and by its own.

    Where the list of nodes is too long for a message, or is none, nothing: then lines about other jobs are kept as well.
    """
    jobs = {attempt.job_id}
    if attempt.array_job_id and attempt.array_task_id:
        jobs |= {f"{attempt.array_job_id}_{attempt.array_task_id}", attempt.array_job_id}
    if attempt.het_job_id:
        jobs |= {f"{attempt.het_job_id}+{attempt.het_offset or 0}", attempt.het_job_id}
    try:
        nodes = compress(attempt.nodes)
    except SattribError:
        return (), ""
    return (tuple(sorted(jobs)), nodes) if len(nodes) < MOST_MESSAGE // 2 else ((), "")


def source_of(order: Order, place: str, answer: Answer, node: str | None = None) -> Source:
    """The source as the bundle lists it; an empty file stands for one in which nothing was."""
    if not answer.wrote and answer.state in ("read", "partial", "empty", "stale"):
        Path(order.out).touch(mode=0o600, exist_ok=True)
    return Source(path=place, kind=order.kind, node=node, coverage=said(answer.state, answer.reason, answer.cut))


def said(state: CoverageState, reason: str, cut: tuple[str, ...] = ()) -> GivenCoverage:
    """What is said of a source."""
    return GivenCoverage(state=state, reason=reason, cut=cut)


def unread(place: str, kind: SourceKind, state: CoverageState, reason: str, node: str | None = None) -> Source:
    """A source that was expected and of which there is no file."""
    return Source(path=place, kind=kind, node=node, coverage=said(state, reason))


def deadline(config: Config) -> float:
    """When a connector that starts now has to be done (time.monotonic)."""
    return time.monotonic() + config.collect.timeout_seconds


def plain(name: str) -> str:
    """A file name for the bundle, of letters that mean nothing to anyone."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[-100:].lstrip(".") or "_"


def unique(names: Sequence[str]) -> list[str]:
    """The names, numbered where one stands there twice."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{seen[name]}-{name}")
    return found
