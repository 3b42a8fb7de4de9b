"""When a program's kind of fault points to the device after all: the same GPU, for other processes, and no other GPU."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule

FAULTS = ("gpu.gr_exception", "gpu.mmu_fault", "gpu.gr_illegal", "amd.page_fault")
_UNIT = re2.compile(r"\b((?:GPC|HUB)CLIENT_\w+)|\((GPC \d+, TPC \d+)")
EARLIER_PROCESSES, EARLIER_JOBS = 2, 2
MINUTE = 60.0


def _unit(e: Event) -> str:
    found = _UNIT.search(e.fields.get("msg", ""))
    return (found.group(1) or found.group(2)) if found else ""


def _who(e: Event) -> str:
    """The process of a fault; where the driver knows none, faults a minute apart are different ones."""
    return e.fields.get("pid") or f"at {int((e.time or 0.0) // MINUTE)}"


def _from_log(view: View, now: list[Event]) -> str:
    """Why the log makes the GPU suspect, or nothing. Only faults before the start belong to other processes for certain."""
    first = now[0]
    start = view.state.start
    if start is None or first.clock != "wall":
        return ""
    before = [
        e for e in view.of(*FAULTS, live=False)
        if e.node == first.node and e.clock == "wall" and e.time is not None and e.time < start - e.grain - e.uncertainty
    ]  # fmt: skip
    own = [e for e in before if e.gpu == first.gpu]
    mine = {_who(e) for e in now}
    others = {_who(e) for e in own} - mine
    if len(others) < EARLIER_PROCESSES or len({e.gpu for e in before}) > 1:
        return ""
    units = {_unit(e) for e in (*own, *now)} - {""}
    same = f", each time at {units.pop()}" if len(units) == 1 else ""
    return f"{len(others)} other processes met it on this GPU before{same}, and no other GPU of the node shows it"


def _from_history(view: View, first: Event) -> str:
    """Why the archive makes the GPU suspect, or nothing."""
    kinds = (*FAULTS, "gpu.repeat")
    before = [
        h for h, _ in view.state.history if h.node == first.node and h.symptom in kinds and h.job_id != view.attempt.job_id
    ]
    own = [h for h in before if h.gpu == first.gpu]
    jobs = {h.job_id for h in own}
    users = {h.uid for h in own if h.uid is not None} - {view.attempt.uid}
    if len({h.gpu for h in before}) > 1 or (len(jobs) < EARLIER_JOBS and not (jobs and users and view.attempt.uid is not None)):
        return ""
    return f"{len(jobs)} earlier jobs met it on this GPU, and no other GPU of the node shows it"


_CLIENT = "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_10 faulted @ 0x7f_0000"


@filter_rule(
    name="one-gpu-keeps-faulting",
    stage="MID",
    example=Example(
        given=(
            event("gpu.mmu_fault", "n1", gpu="0000:db:00", time=-9000.0, pid="57106", msg=_CLIENT),
            event("gpu.mmu_fault", "n1", gpu="0000:db:00", time=-2000.0, pid="32363", msg=_CLIENT),
            event("gpu.mmu_fault", "n1", gpu="0000:db:00", time=500.0, pid="49104", msg=_CLIENT),
        ),
        expect=("retag gpu.mmu_fault gpu.repeat",),
        quiet=(
            event("gpu.mmu_fault", "n1", gpu="0000:db:00", time=-2000.0, pid="32363", msg=_CLIENT),
            event("gpu.mmu_fault", "n1", gpu="0000:3b:00", time=-1000.0, pid="32365", msg=_CLIENT),
            event("gpu.mmu_fault", "n1", gpu="0000:db:00", time=500.0, pid="49104", msg=_CLIENT),
        ),
    ),
)
def one_gpu_keeps_faulting(view: View) -> Iterable[Change]:
    """Retag faults of a GPU that other processes met there before; faults on several GPUs of one job stay the program's."""
    start = view.state.start
    now = [
        e
        for e in view.of(*FAULTS)
        if start is None or e.time is None or e.clock != "wall" or e.time >= start - e.grain - e.uncertainty
    ]
    if not now or len({(e.node, e.gpu) for e in now}) != 1 or now[0].gpu is None or now[0].node is None:
        return
    reason = _from_history(view, now[0]) or _from_log(view, now)
    if not reason:
        return
    for e in now:
        yield Retag(event=e.id, symptom="gpu.repeat", reason=reason, fields={"unit": _unit(e)} if _unit(e) else {})
