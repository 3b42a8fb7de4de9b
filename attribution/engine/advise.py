"""What to do: one sentence, and drains that an admin may approve."""

from __future__ import annotations

import re

from attribution.bundle import Attempt
from attribution.engine.ledger import Ledger
from attribution.engine.outcome import Outcome
from attribution.engine.trust import trusted
from attribution.model import Advice, Drain, Event, Evidence

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,253}")
_SENTENCES = {
    "rerun": "Run it again as it is.",
    "fix_first": "Change something before running it again: {says}.",
    "admin_first": "An admin has to act first: {says}.",
    "none": "Nothing to do.",
    "ask": "The evidence does not decide; read what is missing before acting.",
}


def advice(outcome: Outcome, missing: tuple[str, ...]) -> Advice:
    """One sentence on what to do next."""
    if outcome.verdict == "no_failure":
        return Advice(action="none", sentence="Nothing to do: the attempt completed.")
    if outcome.first is None:
        more = f" Not read: {'; '.join(missing[:3])}." if missing else ""
        return Advice(action="ask", sentence=f"No cause was found.{more}")
    says = outcome.first.symptom.says
    if outcome.verdict == "ambiguous":
        names = ", ".join(dict.fromkeys(g.symptom.domain for g in outcome.candidates))
        return Advice(action="ask", sentence=f"Several causes fit ({names}); check the first: {says}.", nodes=outcome.nodes)
    action = outcome.first.symptom.advice
    if outcome.blamed.wide:
        return Advice(action="admin_first", sentence=f"Many nodes at once: an admin has to look first ({says}).")
    if action == "rerun_without":
        if outcome.nodes:
            names = ", ".join(outcome.nodes)
            return Advice(
                action=action,
                sentence=f"Run it again without {names} (--exclude={','.join(outcome.nodes)}).",
                nodes=outcome.nodes,
            )
        return Advice(action="ask", sentence=f"Find the node first ({says}): {outcome.blamed.reason}.")
    return Advice(action=action, sentence=_SENTENCES[action].format(says=says), nodes=outcome.nodes)


def drains(ledger: Ledger, outcome: Outcome) -> tuple[Drain, ...]:
    """Suggestions for responsible nodes whose own evidence shows a fault that draining helps against."""
    first = outcome.first
    if first is None or outcome.verdict != "attributed" or not first.symptom.drains or outcome.confidence == "low":
        return ()
    if outcome.terminal_state == "completed":
        return ()
    found = []
    for node in outcome.nodes:
        proof = [e for e in first.events if e.node == node and e.kind != "app"]
        if proof and _NODE.fullmatch(node):
            found.append(_drain(node, proof, ledger, ledger.state.attempt, first.symptom.id))
    return tuple(found)


def _drain(node: str, proof: list[Event], ledger: Ledger, attempt: Attempt, symptom: str) -> Drain:
    rule = (proof[0].fields.get("xid") and f"xid-{proof[0].fields['xid']}") or symptom
    job = re.sub(r"[^A-Za-z0-9_.+-]", "_", attempt.job_id)
    reason = f"[sattrib job={job} rule={rule}]"
    sure = any(trusted(e, ledger) for e in proof)
    confirm = (
        "" if sure else f"ssh {node} 'dmesg -T | grep -E \"NVRM|mlx5|AER|EDAC|MCE|amdgpu|i915|xe |habanalabs|nvme\" | tail -50'"
    )
    return Drain(
        node=node, reason=reason, command=f"scontrol update NodeName={node} State=DRAIN Reason='{reason}'",
        proof=tuple(x for e in proof[:3] for x in e.evidence[:1]), confirm=confirm,
    )  # fmt: skip


def evidence_of(events: tuple[Event, ...], most: int = 5) -> tuple[Evidence, ...]:
    """The first pieces of evidence, the nodes' own logs before application output."""
    ordered = sorted(events, key=lambda e: (e.kind == "app", e.time is None, e.time or 0.0, e.source, e.line))
    firsts = [x for e in ordered for x in e.evidence[:1]]
    return tuple([*firsts, *(x for e in ordered for x in e.evidence[1:])][:most])
