"""The evidence bundle: everything a verdict depends on, beside the rules and the engine.

`bundle.json` is read into these classes; an unknown key is an error, not a silent typo. Times are ISO 8601 strings;
one without a zone is in the attempt's `log_timezone`.
"""

from __future__ import annotations

from typing import Literal

from attribution.model import CoverageState, SourceKind, Strict


class Step(Strict, frozen=True, kw_only=True):
    """One step row of sacct: `step_id` as sacct prints it after the dot ("0", "batch", "extern")."""

    step_id: str
    state: str
    exit_code: str = "0:0"
    name: str = ""
    nodes: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None


class AttemptEvent(Strict, frozen=True, kw_only=True):
    """Something Slurm did to the attempt while it ran."""

    kind: Literal["suspend", "resume", "signal", "requeue", "node_state"]
    time: str
    node: str | None = None
    detail: str = ""


class AllocationFailure(Strict, frozen=True, kw_only=True):
    """The failure of the allocation that this record is only a part of; `time` is when Slurm reported it."""

    allocation_id: str
    state: str
    source: str
    failed_node: str | None = None
    time: str | None = None


class ExecutionCancellation(Strict, frozen=True, kw_only=True):
    """A cancellation that the caller has established for this very record; the time carries its zone."""

    record_id: str
    by: str
    time: str


class Attempt(Strict, frozen=True, kw_only=True):
    """One run of one job, as Slurm's records describe it. `state` is sacct's word ("CANCELLED by 1021")."""

    cluster: str
    job_id: str
    state: str
    nodes: tuple[str, ...]
    exit_code: str = "0:0"
    start: str | None = None
    end: str | None = None
    log_timezone: str = "UTC"
    node_addresses: dict[str, str | tuple[str, ...]] = {}
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    het_offset: int | None = None
    dbindex: str | None = None
    sluid: str | None = None
    submit: str | None = None
    user: str | None = None
    uid: int | None = None
    account: str | None = None
    partition: str | None = None
    reason: str | None = None
    failed_node: str | None = None
    derived_exit_code: str | None = None
    time_limit: str | None = None
    restarts: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    steps: tuple[Step, ...] = ()
    events: tuple[AttemptEvent, ...] = ()
    allocation_failure: AllocationFailure | None = None
    execution_cancellation: ExecutionCancellation | None = None


class GivenCoverage(Strict, frozen=True, kw_only=True):
    """What a collector says of a source that it put into a bundle."""

    state: CoverageState
    reason: str = ""
    cut: tuple[str, ...] = ()


class Source(Strict, frozen=True, kw_only=True):
    """One stream of evidence. For kind app, `node` is where the file was written, not whom its lines speak of."""

    path: str
    kind: SourceKind
    node: str | None = None
    rank: int | None = None
    boot_id: str | None = None
    coverage: GivenCoverage | None = None


class Boot(Strict, frozen=True, kw_only=True):
    id: str
    start: str


class Clock(Strict, frozen=True, kw_only=True):
    """Seconds that the node's clock is ahead of true time, and the uncertainty of that."""

    offset: float = 0.0
    uncertainty: float = 0.0


class Gpu(Strict, frozen=True, kw_only=True):
    """`mine`: allocated to this attempt; null where nobody knows."""

    index: int
    pci: str
    uuid: str = ""
    mine: bool | None = None


class NodeRecord(Strict, frozen=True, kw_only=True):
    name: str
    aliases: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    boots: tuple[Boot, ...] = ()
    clock: Clock | None = None
    gpus: tuple[Gpu, ...] = ()
    state: str = ""
    reason: str = ""


class Neighbour(Strict, frozen=True, kw_only=True):
    """Another attempt that shared nodes with this one."""

    job_id: str
    nodes: tuple[str, ...]
    start: str
    end: str | None = None
    uid: int | None = None
    sluid: str | None = None
    pids: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()


class HistoryItem(Strict, frozen=True, kw_only=True):
    """An earlier symptom of a node or GPU, out of the archive."""

    node: str
    symptom: str
    time: str
    gpu: str | None = None
    job_id: str | None = None
    uid: int | None = None


class Bundle(Strict, frozen=True, kw_only=True):
    """bundle.json: everything a verdict depends on, beside the rules and the engine."""

    schema: Literal[1]
    attempt: Attempt
    sources: tuple[Source, ...]
    nodes: tuple[NodeRecord, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    history: tuple[HistoryItem, ...] = ()
