"""From the choice to the verdict's heads: verdict, domain, terminal_state, nodes, confidence."""

from __future__ import annotations

from typing import NamedTuple

from attribution.bundle import Attempt
from attribution.engine.choose import Blamed, Choice, Group, blame, second_sources
from attribution.engine.ledger import ORDER, Ledger
from attribution.engine.record import base_state, clean_success
from attribution.engine.trust import trusted
from attribution.model import (
    NODE_LOGS,
    Confidence,
    Coverage,
    Domain,
    Event,
    TerminalState,
    VerdictKind,
)

FAILURE_OF: dict[str, TerminalState] = {
    "hardware": "hardware_failure", "network": "network_failure", "storage": "storage_failure",
    "platform": "platform_failure", "container": "container_failure", "application": "application_failure",
}  # fmt: skip
MEMORY = frozenset({"gpu_memory", "host_memory"})


class Outcome(NamedTuple):
    verdict: VerdictKind
    domain: Domain
    sub_domain: str
    terminal_state: TerminalState
    confidence: Confidence
    nodes: tuple[str, ...]
    why: str
    first: Group | None
    candidates: tuple[Group, ...]
    blamed: Blamed


def decide(ledger: Ledger, choice: Choice, coverage: tuple[Coverage, ...]) -> Outcome:
    attempt = ledger.state.attempt
    if clean_success(attempt):
        return Outcome(
            "no_failure", "none", "success", "completed", "high", (), "the attempt completed", None, (), Blamed((), "")
        )
    if not choice.kept:
        return _insufficient(ledger, attempt)
    first = choice.kept[0]
    domains = sorted({g.symptom.domain for g in choice.kept} - {"unknown"}) or ["unknown"]
    known = [g for g in choice.kept if g.symptom.domain != "unknown"] or list(choice.kept)
    first = known[0]
    if len(domains) > 1:
        return _ambiguous(ledger, attempt, choice, known)
    blamed = blame(first, ledger)
    verdict: VerdictKind = "insufficient" if first.symptom.domain == "unknown" else "attributed"
    if first.symptom.blames == "peers" and blamed.tie and not _one_fabric(known):
        verdict = "ambiguous"
    confidence = _confidence(ledger, first, blamed, coverage) if verdict == "attributed" else "medium"
    if verdict == "insufficient":
        blamed, confidence = Blamed((), "the evidence does not decide"), "low"
    nodes = blamed.nodes if ledger.blame is None else tuple(n for n in blamed.nodes if n in ledger.blame)
    return Outcome(
        verdict, first.symptom.domain, first.symptom.sub_domain, terminal_state(attempt, first, ledger),
        _cap(confidence, ledger), nodes, choice.why, first, tuple(known), blamed,
    )  # fmt: skip


def _one_fabric(groups: list[Group]) -> bool:
    """A pair whose side is unknown is still attributed to its domain: only the nodes are open."""
    return all(g.symptom.domain == "network" for g in groups)


def _cap(confidence: Confidence, ledger: Ledger) -> Confidence:
    return min(confidence, ledger.at_most, key=lambda c: ORDER[c])


def _insufficient(ledger: Ledger, attempt: Attempt) -> Outcome:
    seen = [ledger.symptoms[e.symptom] for e in ledger.sorted() if e.id not in ledger.demoted]
    hints = sorted((s for s in seen if s.domain == "unknown" and s.role != "context"), key=lambda s: (s.rank, s.id))
    sub = hints[0].sub_domain if hints else "no_evidence"
    why = "only consequences were seen, no cause" if hints else "nothing that was read shows a cause"
    return Outcome(
        "insufficient", "unknown", sub, terminal_state(attempt, None, ledger), "low", (), why, None, (), Blamed((), why)
    )


def _ambiguous(ledger: Ledger, attempt: Attempt, choice: Choice, known: list[Group]) -> Outcome:
    """The first candidate gives the names; nodes only where all candidates share them."""
    first = known[0]
    sets = [set(blame(g, ledger).nodes) for g in known]
    shared = tuple(sorted(set.intersection(*sets)))
    confidence: Confidence = "medium" if any(not all(e.kind == "app" for e in g.events) for g in known) else "low"
    why = choice.why or f"{len(known)} causes remain that time and sources do not order"
    return Outcome(
        "ambiguous", first.symptom.domain, first.symptom.sub_domain, terminal_state(attempt, first, ledger),
        _cap(confidence, ledger), shared, why, first, tuple(known), Blamed(shared, "all candidates share it"),
    )  # fmt: skip


def terminal_state(attempt: Attempt, first: Group | None, ledger: Ledger) -> TerminalState:
    """The first row of the table that applies."""
    state = base_state(attempt.state)
    domain = first.symptom.domain if first else "unknown"
    live = ledger.live()
    cancelled = attempt.execution_cancellation is not None
    if state == "COMPLETED":
        return "completed"
    if state in ("TIMEOUT", "DEADLINE"):
        return "time_limit"
    launch = state in ("BOOT_FAIL", "LAUNCH_FAILED") or (
        first is not None and any(e.fields.get("launch") == "yes" for e in first.events)
    )
    if launch and not (state == "CANCELLED" and attempt.state.upper() not in ("CANCELLED", "CANCELLED BY 0")):
        return "launch_failure"
    if state == "CANCELLED" or (cancelled and domain in ("scheduler", "unknown")):
        return "cancelled"
    if state in ("PREEMPTED", "REQUEUED") or (state != "FAILED" and any(e.symptom == "slurm.preempt" for e in live)):
        return "preempted"
    if domain in ("hardware", "network", "storage", "platform", "container"):
        return FAILURE_OF[domain]
    if state == "OUT_OF_MEMORY" or (first is not None and first.symptom.sub_domain in MEMORY):
        return "out_of_memory"
    if domain == "application":
        return "application_failure"
    if state == "NODE_FAIL":
        return "node_lost"
    return "unknown_failure"


def _sources_of(events: tuple[Event, ...], ledger: Ledger) -> set[str]:
    """Kinds of source that speak for it; what one datagram to the system's log can write in several files counts once."""
    return {"syslog" if e.kind in ("kern", "syslog", "journal") and not trusted(e, ledger) else e.kind for e in events}


def _confidence(ledger: Ledger, group: Group, blamed: Blamed, coverage: tuple[Coverage, ...]) -> Confidence:
    """high: stated or own-timed from a source that users can't write, or two sources; low: app lines alone while a
    possible culprit's kernel log is unread.
    """
    events = group.events
    unread = [
        c
        for c in coverage
        if c.state not in ("read", "empty") and c.kind in NODE_LOGS and (not c.node or c.node in ledger.state.attempt.nodes)
    ]
    device = group.symptom.domain in ("hardware", "network", "platform", "unknown")
    only_app = all(e.kind == "app" for e in events)
    if only_app:
        if second_sources(group, ledger):
            return "medium" if unread and device else "high"
        return "low" if unread and device else "medium"
    # What speaks for the blamed nodes. Slurm's record that only srun's printed line completes with a node is no word of
    # Slurm's on that node.
    to_blame = set(blamed.nodes)
    proofs = tuple(e for e in events if e.fields.get("named_by") != "srun" and (not to_blame or to_blame & {e.node, *e.peers}))
    strong = any(trusted(e, ledger) and (e.stated or e.own_time or e.kind == "record") for e in proofs)
    # Where a node is to blame and none could be named, any node's unread log may be the one that matters.
    own_unread = [c for c in unread if group.symptom.blames != "nothing" and (not blamed.nodes or c.node in blamed.nodes)]
    if (strong or len(_sources_of(proofs, ledger)) > 1 or second_sources(group, ledger)) and not own_unread:
        return "high"
    return "medium"
