"""Verdicts made by hand, every field filled, for the tests of report, archive and cli."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from attribution.model import (
    Advice,
    AttemptView,
    Candidate,
    CouldChange,
    Coverage,
    Demoted,
    Diagnostic,
    Drain,
    Evidence,
    RootCause,
    Seen,
    TrailStep,
    Verdict,
    WouldFlip,
)

XID = (
    "[171167.620236] NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x00000000)"
)
NCCL = "node-01:4711:5021 [3] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<41193> with status=12 opcode=0 len=0 vendor err 129"


def evidence(text: str = XID, **more: Any) -> Evidence:
    base: dict[str, Any] = {
        "source": "node-02.kern", "kind": "kern", "line": 812, "text": text, "node": "node-02", "time": "2026-10-03T03:41:50.620000Z",
    }  # fmt: skip
    return Evidence(**{**base, **more})


def attempt(**more: Any) -> AttemptView:
    base: dict[str, Any] = {
        "cluster": "alpha", "job_id": "4242", "state": "FAILED", "exit_code": "134:0", "key": "alpha/991",
        "nodes": ("node-01", "node-02", "node-03", "node-04"), "dbindex": "991", "submit": "2026-10-02T22:00:00Z",
        "start": "2026-10-03T01:12:07Z", "end": "2026-10-03T03:41:55Z", "reason": "None", "user": "ada", "account": "ml",
        "partition": "gpu",
    }  # fmt: skip
    return AttemptView(**{**base, **more})


def _seen(symptom: str, says: str, **more: Any) -> Seen:
    base: dict[str, Any] = {
        "role": "root", "domain": "hardware", "sub_domain": "nvlink_signal_integrity", "nodes": ("node-02",), "count": 12,
        "first_seen": "2026-10-03T03:41:50.620000Z", "rules": ("nvidia-xid",), "evidence": (evidence(),),
    }  # fmt: skip
    return Seen(symptom=symptom, says=says, **{**base, **more})


def _nccl(node: str, second: int) -> Demoted:
    return Demoted(
        symptom="nccl.remote_error",
        says="NCCL: a peer stopped answering",
        nodes=(node,),
        count=8,
        first_seen=f"2026-10-03T03:41:{second}Z",
        rule="nvlink-explains-nccl",
        reason="began 3 s after nvlink.signal_integrity on node-02, which explains it",
        by="nvlink.signal_integrity@node-02",
        evidence=(evidence(NCCL, source="slurm-4242.out", kind="app", line=90, node=node, time=f"2026-10-03T03:41:{second}Z"),),
    )


def attributed(**more: Any) -> Verdict:
    base: dict[str, Any] = {
        "attempt": attempt(), "verdict": "attributed", "terminal_state": "hardware_failure", "domain": "hardware",
        "sub_domain": "nvlink_signal_integrity", "confidence": "high",
        "root_cause": RootCause(
            symptom="nvlink.signal_integrity", says="NVLink lost signal integrity", nodes=("node-02",),
            first_seen="2026-10-03T03:41:50.620000Z",
            why="It is the earliest own-timed root symptom, and it explains the NCCL errors of the other three nodes.",
            evidence=(evidence(),),
        ),
        "candidates": (),
        "responsible_nodes": ("node-02",),
        "symptoms": (_seen("nvlink.signal_integrity", "NVLink lost signal integrity"),),
        "demoted": (_nccl("node-01", 53), _nccl("node-03", 54), _nccl("node-04", 54)),
        "interesting": (_seen("gpu.recovery_action", "The driver asks for a GPU reset", role="context"),),
        "coverage": (
            Coverage(source="node-02.kern", kind="kern", state="read", node="node-02", bytes=81234, lines=1021),
            Coverage(source="node-03.kern", kind="kern", state="unreachable", node="node-03", reason="no route to host"),
        ),
        "could_change": (
            CouldChange(source="node-03.kern", kind="kern", node="node-03", state="unreachable", domains=("hardware", "network")),
        ),
        "would_flip": WouldFlip(
            symptom="gpu.off_bus", says="A GPU fell off the bus", node="node-03", source="node-03.kern", domain="hardware",
            nodes=("node-03",),
        ),
        "facts": {"nccl": {"version": "2.27.3", "bad_pairs": [["node-01", "node-02"]]}, "last_step": 1200},
        "advice": Advice(
            action="rerun_without", sentence="Run it again without node-02; its checkpoint of step 1200 is whole.", nodes=("node-02",)
        ),
        "drain_suggestions": (
            Drain(
                node="node-02", reason="nvlink.signal_integrity [sattrib job=4242 rule=nvidia-xid]",
                command="scontrol update NodeName=node-02 State=DRAIN Reason='nvlink.signal_integrity [sattrib job=4242 rule=nvidia-xid]'",
                proof=(evidence(),), confirm="nvidia-smi nvlink -e",
            ),
        ),
        "missing": (),
        "rules": {"version": "2026.10", "hash": "0b5c9a7d21e4"},
        "engine": "0.1.0",
        "diagnostics": (),
        "trail": (
            TrailStep(stage="extract", rule="nvidia-xid", what="Xid 149 with word 0x021425c6", symptom="gpu.xid_149", node="node-02",
                      source="node-02.kern", line=812),
            TrailStep(stage="filter", rule="xid-149-decode", what="retagged: signal integrity", symptom="nvlink.signal_integrity"),
            TrailStep(stage="outcome", rule="earlier-onset", what="began before everything that it does not explain"),
        ),
    }  # fmt: skip
    return Verdict(**{**base, **more})


def ambiguous() -> Verdict:
    first = Candidate(
        symptom="gpu.off_bus", says="A GPU fell off the bus", domain="hardware", sub_domain="gpu", nodes=("node-01",),
        first_seen=None, speaks_for=("two ranks of node-01 say so",), against=("no kernel log of node-01 was read",),
        evidence=(evidence("RuntimeError: No CUDA GPUs are available", source="slurm-4242.out", kind="app", node="node-01", time=None),),
    )  # fmt: skip
    second = Candidate(
        symptom="ib.link_down", says="An InfiniBand port went down", domain="network", sub_domain="ib_link_flap",
        nodes=("node-03",), first_seen="2026-10-03T03:41:40Z", speaks_for=("10 s before the first NCCL error",),
    )  # fmt: skip
    return attributed(
        verdict="ambiguous", sub_domain="gpu", confidence="medium", root_cause=None, candidates=(first, second),
        responsible_nodes=(), symptoms=(), drain_suggestions=(),
        advice=Advice(action="ask", sentence="Read the kernel log of node-01 before anything is drained."),
    )  # fmt: skip


def insufficient() -> Verdict:
    return attributed(
        verdict="insufficient", terminal_state="unknown_failure", domain="unknown", sub_domain="collective_hang",
        confidence="low", root_cause=None, responsible_nodes=(), symptoms=(), drain_suggestions=(),
        missing=("the kernel logs of node-[01-04]", "the output of rank 3"),
        advice=Advice(action="ask", sentence="Nothing to drain. Run it again with TORCH_NCCL_TRACE_BUFFER_SIZE=2000."),
    )  # fmt: skip


def no_failure() -> Verdict:
    return attributed(
        attempt=attempt(state="COMPLETED", exit_code="0:0"), verdict="no_failure", terminal_state="completed", domain="none",
        sub_domain="success", root_cause=None, responsible_nodes=(), symptoms=(), demoted=(), interesting=(), coverage=(),
        could_change=(), would_flip=None, facts={}, drain_suggestions=(), advice=Advice(action="none", sentence=""),
    )  # fmt: skip


def wide(nodes: int = 1000) -> Verdict:
    """An incident that fills every part of the screen."""
    names = tuple(f"node-{i:04d}" for i in range(1, nodes + 1))
    one = attributed()
    assert one.root_cause
    drain = one.drain_suggestions[0]
    gone = [Coverage(source=f"{n}.kern", kind="kern", state="unreachable", node=n, reason="no route to host") for n in names]
    return replace(
        one,
        attempt=attempt(nodes=names),
        responsible_nodes=names[:40:3],
        root_cause=replace(one.root_cause, nodes=names, evidence=tuple(evidence(node=n, line=i) for i, n in enumerate(names))),
        demoted=tuple(replace(_nccl(n, 53), rule=f"rule-{i % 30}") for i, n in enumerate(names)),
        coverage=(*gone, *(Coverage(source=f"s{i}", kind="app", state="denied", reason=f"mode 0{i}") for i in range(30))),
        drain_suggestions=tuple(replace(drain, node=n) for n in names[:30]),
        missing=tuple(f"the console of {n}" for n in names),
        diagnostics=tuple(Diagnostic(rule=f"r{i}", what="KeyError: 'xid'") for i in range(20)),
    )
