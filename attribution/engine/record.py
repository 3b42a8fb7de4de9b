"""Slurm's own record of the attempt, written as lines that rules read like any other source (kind `record`).

Only Slurm's words and numbers go in: never a job's name, comment or path, which users choose.
"""

from __future__ import annotations

import re

from attribution.bundle import Attempt, Bundle

STATES = frozenset(
    {
        "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
        "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REQUEUED", "RESIZING", "REVOKED", "COMPLETING", "CONFIGURING",
        "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SIGNALING", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "LAUNCH_FAILED",
    }
)  # fmt: skip
CANCELLING = frozenset({"CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "REQUEUED"})
_WORD = re.compile(r"[^A-Za-z0-9_.,:()@/+\- \[\]]")


def base_state(state: str) -> str:
    """The state's word: "CANCELLED by 1021" is CANCELLED, "CANCELLED+" too."""
    words = state.split()
    return words[0].rstrip("+").upper() if words else ""


def codes(exit_code: str | None) -> tuple[int, int]:
    """(exit, signal) of Slurm's "exit:signal"; zeros where it is not that."""
    parts = (exit_code or "").split(":")
    try:
        return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
    except ValueError:
        return 0, 0


def clean_success(attempt: Attempt) -> bool:
    """COMPLETED with every step and the derived exit code at zero."""
    if base_state(attempt.state) != "COMPLETED":
        return False
    steps_ok = all(codes(s.exit_code) == (0, 0) and base_state(s.state) in ("COMPLETED", "") for s in attempt.steps)
    return steps_ok and codes(attempt.derived_exit_code) == (0, 0) and codes(attempt.exit_code) == (0, 0)


def record_lines(bundle: Bundle) -> list[str]:
    """One line per fact of the record, in a fixed order."""
    attempt = bundle.attempt
    found = []
    if not inherited_failure(attempt):
        reason = f" Reason={_plain(attempt.reason)}" if attempt.reason and attempt.reason != "None" else ""
        found.append(
            f"attempt State={_plain(attempt.state)} ExitCode={_plain(attempt.exit_code)}{reason} Nodes={len(attempt.nodes)}"
        )
    if attempt.derived_exit_code:
        found.append(f"attempt DerivedExitCode={_plain(attempt.derived_exit_code)}")
    for step in sorted(attempt.steps, key=lambda s: (s.end or "~", s.step_id)):
        node = f" Node={step.nodes[0]}" if len(step.nodes) == 1 else ""
        found.append(f"step {_plain(step.step_id)} State={_plain(step.state)} ExitCode={_plain(step.exit_code)}{node}")
    failed = attempt.failed_node
    if failed and failed.lower() not in ("none", "(null)") and not inherited_failure(attempt):
        found.append(f"attempt State={base_state(attempt.state)} FailedNode={_plain(failed)}")
    elif base_state(attempt.state) == "NODE_FAIL" and len(attempt.nodes) == 1 and not inherited_failure(attempt):
        found.append(f"attempt State=NODE_FAIL FailedNode={_plain(attempt.nodes[0])}")
    for event in attempt.events:
        found.append(f"event {event.kind} Node={_plain(event.node or '')} {_plain(event.detail)}".rstrip())
    for there in bundle.nodes:
        if there.name in attempt.nodes and (there.state or there.reason):
            found.append(f"node Node={_plain(there.name)} NodeState={_plain(there.state)} NodeReason={_plain(there.reason)}")
    if attempt.execution_cancellation is not None:
        found.append(f"cancellation by={_plain(attempt.execution_cancellation.by)}")
    return found


def inherited_failure(attempt: Attempt) -> bool:
    """A NODE_FAIL of the allocation on a node that is not this record's, known by allocation failure and cancellation."""
    failure = attempt.allocation_failure
    if failure is None or attempt.execution_cancellation is None or base_state(attempt.state) != "NODE_FAIL":
        return False
    if attempt.failed_node and attempt.failed_node in attempt.nodes and attempt.failed_node != failure.failed_node:
        return False
    return failure.failed_node is not None and failure.failed_node not in attempt.nodes


def _plain(text: str | None) -> str:
    return _WORD.sub("_", text or "")[:200]
