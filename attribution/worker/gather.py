"""What is read for an attempt, and from when to when: the policy, and the bundle that it ends in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

import msgspec

from attribution import connectors, pipeline
from attribution.bundle import GivenCoverage, Neighbour, NodeRecord, Source
from attribution.config import Config
from attribution.errors import SattribError
from attribution.slurm.values import Accounted
from attribution.worker.shared import Shared
from attribution.worker.work import Work

BEFORE, AFTER = 15 * 60, 5 * 60
Scope = Literal["nothing", "rows", "all"]


def scope_of(work: Work, policy: str) -> Scope:
    """`nothing` of one that never started, `rows` (Slurm's alone) of a clean success, `all` that is configured else."""
    if work.accounted.start is None:
        return "nothing"
    return "rows" if work.clean and policy == "failed" else "all"


async def gather(work: Work, shared: Shared) -> Path:
    """Make the bundle of an attempt in a directory of its own; gives the directory. Raises OSError."""
    scope = scope_of(work, shared.config.collect.policy)
    folder = shared.folder / "work" / work.key.replace("/", "_")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    nodes: tuple[NodeRecord, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    if scope == "all":
        nodes, neighbours = await _surroundings(work.accounted, shared)
    request = _request(work, folder, complete=scope == "all")
    if scope == "nothing":
        pipeline.write_bundle(folder, pipeline.live_bundle(request.attempt, ()))
    else:
        await pipeline.collect_bundle(request, await _told(shared), nodes, neighbours, _gaps(work, scope))
    return folder


async def _told(shared: Shared) -> Config:
    """The configuration, with what Slurm itself says where a key was left empty."""
    config = shared.config
    if config.local.slurmctld_log:
        return config
    try:
        log = (await shared.cluster()).slurmctld_log
    except SattribError as problem:
        shared.news.trouble("slurmctld", problem)
        return config
    return msgspec.structs.replace(config, local=msgspec.structs.replace(config.local, slurmctld_log=log))


def _request(work: Work, folder: Path, *, complete: bool) -> connectors.Request:
    accounted = work.accounted
    attempt = msgspec.structs.replace(accounted.attempt, log_timezone=_zone())
    start, end = accounted.start, accounted.end
    if start is not None and end is not None and start > end:
        # slurmdbd has such rows where clocks were set; a bundle has not.
        attempt = msgspec.structs.replace(attempt, start=attempt.end)
        start = end
    batch = next((step.nodes[0] for step in attempt.steps if step.step_id == "batch" and step.nodes), None)
    return connectors.Request(
        attempt=attempt,
        window_start=start - BEFORE if start is not None else None,
        window_end=end + AFTER if end is not None else None,
        folder=folder,
        batch_host=batch or (attempt.nodes[0] if attempt.nodes else None),
        complete=complete,
        work_dir=accounted.work_dir,
        name=accounted.name,
    )


async def _surroundings(accounted: Accounted, shared: Shared) -> tuple[tuple[NodeRecord, ...], tuple[Neighbour, ...]]:
    """Its nodes and who else was on them; without an answer the verdict has to do without."""
    nodes: tuple[NodeRecord, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    if not accounted.attempt.nodes or accounted.start is None or accounted.end is None:
        return nodes, neighbours
    try:
        nodes = await shared.backend.nodes(accounted.attempt.nodes)
        neighbours = await shared.backend.neighbours(accounted, accounted.start - BEFORE, accounted.end + AFTER)
    except SattribError as problem:
        shared.news.trouble(f"job {accounted.job}", problem)
    return nodes, neighbours


def _gaps(work: Work, scope: Scope) -> tuple[Source, ...]:
    """What is already known to be missing."""
    gaps = []
    if scope == "all" and work.reason == "not_read":
        gaps.append(_gap("reason", "unreachable", "slurmctld no longer knew why the job failed"))
    if work.timed_out:
        gaps.append(_gap("tasks", "timed_out", "slurmctld still said COMPLETING when it was given up"))
    return tuple(gaps)


def _gap(name: str, state: Literal["unreachable", "timed_out"], reason: str) -> Source:
    return Source(path=f"slurmctld:{name}", kind="slurmctld", coverage=GivenCoverage(state=state, reason=reason))


def _zone() -> str:
    """The time zone in which this host's logs are written."""
    try:
        target = os.path.realpath("/etc/localtime")
    except OSError:
        return "UTC"
    _, mark, name = target.partition("/zoneinfo/")
    return name if mark else "UTC"
