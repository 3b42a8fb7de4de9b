"""What a GPU shows when the job's tasks are being killed, or are already gone."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, View, event, filter_rule

OF_A_PROCESS = ("gpu.gr_exception", "gpu.mmu_fault", "gpu.gr_illegal", "gpu.ctxsw_timeout", "gpu.pbdma", "amd.page_fault")
PLANNED = ("slurm.timeout", "slurm.cancel_user", "slurm.cancel_admin", "slurm.preempt", "slurm.requeue", "slurm.deadline")
DEVICES = ("gpu.*", "nvl.*", "nvsw.*", "pcie.*", "amd.*")
LATE = 60.0


def _not_before(e: Event, moment: float) -> bool:
    return e.own_time and e.clock == "wall" and e.time is not None and e.time + e.uncertainty >= moment


@filter_rule(
    name="gpu-faults-while-tasks-are-killed",
    stage="MID",
    example=Example(
        attempt={"state": "CANCELLED by 1300", "kill_time": 1000.0},
        given=(event("slurm.cancel_user", None, kind="record", time=1000.0), event("gpu.mmu_fault", "n1", time=1001.0)),
        expect=("demote gpu.mmu_fault",),
        quiet=(event("slurm.cancel_user", None, kind="record", time=1000.0), event("gpu.mmu_fault", "n1", time=900.0)),
    ),
)
def gpu_faults_while_tasks_are_killed(view: View) -> Iterable[Change]:
    """A task that is killed takes its memory with it, and peers that still read there fault in the same second."""
    kill = view.state.kill_time
    if kill is None or not view.of(*PLANNED):
        return
    for e in view.of(*OF_A_PROCESS):
        if _not_before(e, kill):
            yield Demote(event=e.id, reason="Slurm was killing the tasks: their memory went away under their peers")


@filter_rule(
    name="device-faults-after-the-end",
    stage="LATE",
    example=Example(
        attempt={"end": 1000.0},
        given=(event("gpu.off_bus", "n1", time=1200.0), event("py.type_attr", None, kind="app")),
        expect=("demote gpu.off_bus",),
        quiet=(event("gpu.off_bus", "n1", time=1200.0), event("py.runtime", None, kind="app")),
    ),
)
def device_faults_after_the_end(view: View) -> Iterable[Change]:
    """A fault minutes after the attempt's end is the cause of nothing in it, where something else is."""
    end = view.state.end
    if end is None:
        return
    late = [e for e in view.of(*DEVICES) if view.role(e) == "root" and _not_before(e, end + LATE)]
    late_ids = {e.id for e in late}
    roots = [e for e in view.live() if view.role(e) == "root" and e.emit == "bad_node" and e.id not in late_ids] if late else []
    other: dict[str, bool] = {}
    for e in late:
        if e.symptom not in other:
            own = {x.id for x in view.of(*(x.symptom for x in view.symptoms[e.symptom].explains))}
            other[e.symptom] = any(r.id not in own for r in roots)
        if other[e.symptom]:
            yield Demote(event=e.id, reason=f"{(e.time or end) - end:.0f} s after the end, and something else explains it")
