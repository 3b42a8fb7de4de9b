"""The values that flow through sattrib: bundle in, events, verdict out. All are immutable.

Times are seconds since the epoch, UTC, as floats, except in the bundle's and the verdict's JSON, where they are
ISO 8601 strings. The verdict's and the bundle's JSON Schema are generated from these classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import force_setattr

SourceKind = Literal[
    "app", "kern", "dmesg", "syslog", "journal", "fabricmanager", "slurmctld", "slurmdbd", "slurmd", "spank", "metric", "record"
]
KINDS: tuple[SourceKind, ...] = (
    "app", "kern", "dmesg", "syslog", "journal", "fabricmanager", "slurmctld", "slurmdbd", "slurmd", "spank", "metric", "record",
)  # fmt: skip
# Any of these is a node's kernel or system log: offline, one of them is expected for each node.
NODE_LOGS: frozenset[str] = frozenset({"kern", "dmesg", "journal", "syslog"})
# Users can't write here. kern and syslog files join only by `[collect] trusted_files`: rsyslog accepts a
# kernel-looking datagram from any user.
TRUSTED: frozenset[str] = frozenset(
    {"dmesg", "journal", "fabricmanager", "slurmctld", "slurmdbd", "slurmd", "spank", "metric", "record"}
)

CoverageState = Literal["read", "partial", "empty", "stale", "denied", "unreachable", "timed_out", "not_configured"]
Domain = Literal["hardware", "network", "storage", "platform", "container", "scheduler", "application", "unknown", "none"]
DOMAINS: tuple[Domain, ...] = (
    "hardware", "network", "storage", "platform", "container", "scheduler", "application", "unknown", "none",
)  # fmt: skip
Role = Literal["root", "cascade", "teardown", "context"]
EmitType = Literal["bad_node", "interesting_node", "bad_peers", "info"]
Scope = Literal["gpu", "node", "pair", "job"]
Confidence = Literal["high", "medium", "low"]
VerdictKind = Literal["attributed", "ambiguous", "insufficient", "no_failure"]
TerminalState = Literal[
    "completed", "time_limit", "launch_failure", "cancelled", "preempted", "hardware_failure", "network_failure",
    "storage_failure", "platform_failure", "container_failure", "out_of_memory", "application_failure", "node_lost",
    "unknown_failure",
]  # fmt: skip
Action = Literal["rerun", "rerun_without", "fix_first", "admin_first", "none", "ask"]
Owner = Literal["hw", "net", "fs", "infra", "sw", "cfg", "app", "user", "sched", "admin", "ask"]
Maturity = Literal["stable", "incubating", "sandbox"]
# How a line may be changed so that it no longer means what a rule says: docs/writing-rules.md, "Near misses".
Mutation = Literal["number", "zero", "state", "tag", "not", "quoted"]


class Frozen(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of every value: immutable, keyword-only."""


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of what people write: an unknown key is an error, not a silent typo."""


# ---- evidence ------------------------------------------------------------------------------------------------------


class Coverage(Frozen, frozen=True, kw_only=True):
    """What became of one expected source. `cut` names the needles whose hits a cap cut."""

    source: str
    kind: SourceKind
    state: CoverageState
    node: str | None = None
    bytes: int = 0
    lines: int = 0
    first: str | None = None
    last: str | None = None
    reason: str = ""
    cut: tuple[str, ...] = ()


# ---- symptoms and events ------------------------------------------------------------------------------------------


class Explains(Frozen, frozen=True, kw_only=True):
    """One cascade edge: the owner of it demotes `symptom` (an id or a glob) inside `scope`."""

    symptom: str
    scope: Scope = "job"
    within: float | None = None


class Symptom(Frozen, frozen=True, kw_only=True):
    """A registered meaning. Lower `rank` is stronger; it orders candidates inside a domain only."""

    id: str
    says: str
    domain: Domain
    sub_domain: str
    role: Role
    rank: int
    advice: Action
    owner: Owner
    aliases: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    blames: Literal["node", "peers", "nothing"] = "nothing"
    lingers: str = "no"
    explains: tuple[Explains, ...] = ()
    beats: tuple[str, ...] = ()
    drains: bool = False
    shared: bool = False
    file: str = ""
    detail: str = ""


class Evidence(Frozen, frozen=True, kw_only=True):
    """A pointer to verbatim text. `line` counts from 1; `time` is null where the line has none of its own."""

    source: str
    kind: SourceKind
    line: int
    text: str
    node: str | None = None
    time: str | None = None


class Event(Frozen, frozen=True, kw_only=True):
    """What one rule recognised, repeated lines folded into one.

    `time` is on `clock`: "wall" is UTC epoch seconds; "uptime:NODE" and "order:SOURCE" compare only with themselves.
    `own_time` is False where the time was taken from a line before it. `grain` is the stamp's resolution in seconds.
    """

    id: str
    rule: str
    symptom: str
    emit: EmitType
    kind: SourceKind
    source: str
    line: int
    node: str | None = None
    peers: tuple[str, ...] = ()
    rank: int | None = None
    gpu: str | None = None
    time: float | None = None
    last_time: float | None = None
    last_line: int = 0
    clock: str = "wall"
    own_time: bool = False
    grain: float = 1.0
    uncertainty: float = 0.0
    count: int = 1
    fields: Mapping[str, str] = {}
    text: str = ""
    evidence: tuple[Evidence, ...] = ()
    stated: bool = False
    before_start: bool = False

    def __post_init__(self) -> None:
        # Rules share events: none can change what the next one sees.
        if type(self.fields) is not MappingProxyType:
            force_setattr(self, "fields", MappingProxyType(self.fields))


class Demotion(Frozen, frozen=True, kw_only=True):
    """Why an event does not count: the rule that said so, the reason, and the event that explains it, if one does."""

    rule: str
    reason: str
    by: str | None = None


# ---- the verdict ----------------------------------------------------------------------------------------------------


class Seen(Frozen, frozen=True, kw_only=True):
    """A symptom as the verdict shows it."""

    symptom: str
    says: str
    role: Role
    domain: str
    sub_domain: str
    nodes: tuple[str, ...]
    count: int
    first_seen: str | None
    rules: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()


class Demoted(Frozen, frozen=True, kw_only=True):
    """A symptom that does not count, with the rule that demoted it and the reason."""

    symptom: str
    says: str
    nodes: tuple[str, ...]
    count: int
    first_seen: str | None
    rule: str
    reason: str
    by: str | None = None
    evidence: tuple[Evidence, ...] = ()


class RootCause(Frozen, frozen=True, kw_only=True):
    symptom: str
    says: str
    nodes: tuple[str, ...]
    first_seen: str | None
    why: str
    evidence: tuple[Evidence, ...]


class Candidate(Frozen, frozen=True, kw_only=True):
    """A possible cause that remains, with what speaks for and against it."""

    symptom: str
    says: str
    domain: str
    sub_domain: str
    nodes: tuple[str, ...]
    first_seen: str | None
    speaks_for: tuple[str, ...] = field(name="for", default=())
    against: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


class Drain(Frozen, frozen=True, kw_only=True):
    """A suggestion, never an order. `confirm` is a command to run on the node where only users' text proves it."""

    node: str
    reason: str
    command: str
    proof: tuple[Evidence, ...]
    confirm: str = ""


class Advice(Frozen, frozen=True, kw_only=True):
    action: Action
    sentence: str
    nodes: tuple[str, ...] = ()


class CouldChange(Frozen, frozen=True, kw_only=True):
    """An expected source that was not read, and the domains of root symptoms that only it could have shown."""

    source: str
    kind: SourceKind
    node: str | None
    state: CoverageState
    domains: tuple[str, ...]


class WouldFlip(Frozen, frozen=True, kw_only=True):
    """The one finding that would turn this verdict."""

    symptom: str
    says: str
    node: str | None
    source: str
    domain: str
    nodes: tuple[str, ...]


class TrailStep(Frozen, frozen=True, kw_only=True):
    """One line of the explanation: what fired or decided, on what, and why."""

    stage: str
    rule: str
    what: str
    symptom: str = ""
    node: str | None = None
    source: str = ""
    line: int = 0


class Diagnostic(Frozen, frozen=True, kw_only=True):
    """A rule that crashed or a limit that was hit: the run went on."""

    rule: str
    what: str


class AttemptView(Frozen, frozen=True, kw_only=True):
    """The attempt as the verdict repeats it."""

    cluster: str
    job_id: str
    state: str
    exit_code: str
    nodes: tuple[str, ...]
    key: str
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    het_offset: int | None = None
    dbindex: str | None = None
    sluid: str | None = None
    submit: str | None = None
    start: str | None = None
    end: str | None = None
    reason: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None


class Verdict(Frozen, frozen=True, kw_only=True):
    """The answer for one attempt."""

    attempt: AttemptView
    verdict: VerdictKind
    terminal_state: TerminalState
    domain: Domain
    sub_domain: str
    confidence: Confidence
    root_cause: RootCause | None
    candidates: tuple[Candidate, ...]
    responsible_nodes: tuple[str, ...]
    symptoms: tuple[Seen, ...]
    demoted: tuple[Demoted, ...]
    interesting: tuple[Seen, ...]
    coverage: tuple[Coverage, ...]
    could_change: tuple[CouldChange, ...]
    would_flip: WouldFlip | None
    facts: dict[str, Any]
    advice: Advice
    drain_suggestions: tuple[Drain, ...]
    missing: tuple[str, ...]
    rules: dict[str, str]
    engine: str
    schema: Literal[1] = 1
    diagnostics: tuple[Diagnostic, ...] = ()
    trail: tuple[TrailStep, ...] | UnsetType = UNSET
