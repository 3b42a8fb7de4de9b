"""What Slurm's lines and record say of the end, as facts: exit codes by task, the first failed step, silence before the end."""

from __future__ import annotations

from collections.abc import Mapping

from attribution.rule import Example, View, collector, event

MOST = 64
PROGRESS = ("*.progress", "progress.*", "*.last_step")


@collector(
    name="task-exits",
    example=Example(
        given=(
            event("slurm.task_exit", "n1", kind="app", line=2, tasks="0-3", code="1", emit="interesting_node"),
            event("slurm.task_killed", "n2", kind="app", line=3, tasks="4", signal="Killed"),
        ),
        expect={"task_exits": [{"node": "n1", "tasks": "0-3", "code": "1"}, {"node": "n2", "tasks": "4", "signal": "Killed"}]},
    ),
)
def task_exits(view: View) -> Mapping[str, object]:
    """How the tasks of each node ended, in the order of srun's lines."""
    found = []
    for e in sorted(view.of("slurm.task_exit", "slurm.task_killed", live=False), key=lambda e: (e.source, e.line)):
        if "tasks" in e.fields:
            found.append({k: v for k, v in (("node", e.fields.get("node", e.node or "")), ("tasks", e.fields["tasks"]),
                                            ("code", e.fields.get("code", "")), ("signal", e.fields.get("signal", ""))) if v})  # fmt: skip
    for row, e in zip(found, view.of("slurm.task_exit", "slurm.task_killed", live=False), strict=False):
        row.setdefault("node", e.node or "")
    return {"task_exits": [{k: v for k, v in row.items() if v} for row in found[:MOST]]} if found else {}


@collector(
    name="steps-that-failed",
    example=Example(
        given=(
            event("slurm.exit_code", "n1", kind="record", line=3, step="0", state="FAILED", code="1:0", emit="info"),
            event("slurm.exit_code", None, kind="record", line=1, code="1:0", emit="info"),
        ),
        attempt={"restarts": 4},
        expect={"first_failed_step": {"step": "0", "state": "FAILED", "code": "1:0"}, "restarts": 4},
    ),
)
def steps_that_failed(view: View) -> Mapping[str, object]:
    """The first failed step as the record orders them, and how often the job had been requeued before."""
    steps = sorted((e for e in view.of("slurm.exit_code", live=False) if "step" in e.fields), key=lambda e: e.line)
    steps = [e for e in steps if e.fields.get("state") not in ("CANCELLED", "COMPLETED")] or steps
    facts: dict[str, object] = {}
    if steps:
        facts["first_failed_step"] = {k: steps[0].fields[k] for k in ("step", "state", "code") if k in steps[0].fields}
    if view.attempt.restarts:
        facts["restarts"] = view.attempt.restarts
    return facts


@collector(
    name="silence-before-the-end",
    example=Example(
        attempt={"state": "TIMEOUT", "kill_time": 1000.0},
        given=(event("app.progress", "n1", kind="app", time=400.0, emit="info"),),
        expect={"seconds_without_progress": 600},
    ),
)
def silence_before_the_end(view: View) -> Mapping[str, object]:
    """Seconds between the last line that shows progress and the end, where both are known."""
    steps = [p.time for p in view.of(*PROGRESS, live=False) if p.own_time and p.clock == "wall" and p.time is not None]
    end = view.state.kill_time or view.state.end
    if not steps or end is None:
        return {}
    return {"seconds_without_progress": round(max(0.0, end - max(steps)))}
