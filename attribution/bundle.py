"""The evidence bundle: everything a verdict depends on, beside the rules and the engine.

`bundle.json` is read into these classes; an unknown key is an error, not a silent typo. Times are ISO 8601 strings;
one without a zone is in the attempt's `log_timezone`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from attribution.model import CoverageState, SourceKind, Strict

# What no cluster has more of; the JSON Schema says the same.
MOST = 100_000
Name = Annotated[str, Meta(min_length=1)]
Names = Annotated[tuple[Name, ...], Meta(max_length=MOST)]
Few = Annotated[tuple[str, ...], Meta(max_length=1000)]
Texts = Annotated[tuple[str, ...], Meta(max_length=MOST)]
Time = Annotated[str, Meta(description="ISO 8601; one without a zone is in the attempt's log_timezone")]
Id = Annotated[str, Meta(min_length=1, max_length=128)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Uid = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Step(Strict, frozen=True, kw_only=True):
    """One step row of sacct: `step_id` as sacct prints it after the dot ("0", "batch", "extern")."""

    step_id: str
    state: str
    exit_code: str = "0:0"
    name: str = ""
    nodes: Names = ()
    start: Time | None = None
    end: Time | None = None


class AttemptEvent(Strict, frozen=True, kw_only=True):
    """Something Slurm did to the attempt while it ran."""

    kind: Literal["suspend", "resume", "signal", "requeue", "node_state"]
    time: Time
    node: str | None = None
    detail: str = ""


class AllocationFailure(Strict, frozen=True, kw_only=True):
    """The failure of the allocation that this record is only a part of; `time` is when Slurm reported it."""

    allocation_id: str
    state: str
    source: str
    failed_node: str | None = None
    time: Time | None = None


class ExecutionCancellation(Strict, frozen=True, kw_only=True):
    """A cancellation that the caller has established for this very record; the time carries its zone."""

    record_id: str
    by: str
    time: Time


class Attempt(Strict, frozen=True, kw_only=True):
    """One run of one job, as Slurm's records describe it. `state` is sacct's word ("CANCELLED by 1021")."""

    cluster: str
    job_id: Name
    state: str
    nodes: Names
    exit_code: str = "0:0"
    start: Time | None = None
    end: Time | None = None
    log_timezone: str = "UTC"
    node_addresses: Annotated[dict[str, str | Few], Meta(max_length=MOST)] = {}
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    het_offset: Count | None = None
    dbindex: str | None = None
    sluid: str | None = None
    submit: Time | None = None
    user: str | None = None
    uid: Uid | None = None
    account: str | None = None
    partition: str | None = None
    reason: str | None = None
    failed_node: str | None = None
    derived_exit_code: str | None = None
    time_limit: str | None = None
    restarts: Count | None = None
    stdout: str | None = None
    stderr: str | None = None
    steps: Annotated[tuple[Step, ...], Meta(max_length=10 * MOST)] = ()
    events: Annotated[tuple[AttemptEvent, ...], Meta(max_length=MOST)] = ()
    allocation_failure: AllocationFailure | None = None
    execution_cancellation: ExecutionCancellation | None = None


class GivenCoverage(Strict, frozen=True, kw_only=True):
    """What a collector says of a source that it put into a bundle."""

    state: CoverageState
    reason: str = ""
    cut: Texts = ()


class Source(Strict, frozen=True, kw_only=True):
    """One stream of evidence. For kind app, `node` is where the file was written, not whom its lines speak of."""

    path: Annotated[str, Meta(extra_json_schema={"minLength": 1, "pattern": r"^(?!/)(?!(.*/)?\.\.(/|$))"})]
    kind: Annotated[SourceKind, Meta(extra_json_schema={"not": {"const": "record"}})]
    node: str | None = None
    rank: Annotated[int, Meta(ge=0, le=9_999_999)] | None = None
    boot_id: Id | None = None
    coverage: GivenCoverage | None = None


class Boot(Strict, frozen=True, kw_only=True):
    id: Id
    start: Time


class Clock(Strict, frozen=True, kw_only=True):
    """Seconds that the node's clock is ahead of true time, and the uncertainty of that."""

    offset: Annotated[float, Meta(ge=-4_000_000_000, le=4_000_000_000, description="seconds")] = 0.0
    uncertainty: Annotated[float, Meta(ge=0, le=31_536_000, description="seconds")] = 0.0


class Gpu(Strict, frozen=True, kw_only=True):
    """`mine`: allocated to this attempt; null where nobody knows."""

    index: Annotated[int, Meta(ge=0, le=1023)]
    pci: Id
    uuid: Annotated[str, Meta(max_length=128)] = ""
    mine: bool | None = None


class NodeRecord(Strict, frozen=True, kw_only=True):
    name: Name
    aliases: Few = ()
    addresses: Few = ()
    boots: Annotated[tuple[Boot, ...], Meta(max_length=1000)] = ()
    clock: Clock | None = None
    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=1024)] = ()
    state: str = ""
    reason: str = ""


class Neighbour(Strict, frozen=True, kw_only=True):
    """Another attempt that shared nodes with this one."""

    job_id: str
    nodes: Names
    start: Time
    end: Time | None = None
    uid: Uid | None = None
    sluid: str | None = None
    pids: Annotated[tuple[Count, ...], Meta(max_length=MOST)] = ()
    gpus: Texts = ()


class HistoryItem(Strict, frozen=True, kw_only=True):
    """An earlier symptom of a node or GPU, out of the archive."""

    node: str
    symptom: str
    time: Time
    gpu: str | None = None
    job_id: str | None = None
    uid: Uid | None = None


class Bundle(Strict, frozen=True, kw_only=True):
    """bundle.json: everything a verdict depends on, beside the rules and the engine."""

    schema: Literal[1]
    attempt: Attempt
    sources: Annotated[tuple[Source, ...], Meta(max_length=MOST)]
    nodes: Annotated[tuple[NodeRecord, ...], Meta(max_length=MOST)] = ()
    neighbours: Annotated[tuple[Neighbour, ...], Meta(max_length=MOST)] = ()
    history: Annotated[tuple[HistoryItem, ...], Meta(max_length=MOST)] = ()
