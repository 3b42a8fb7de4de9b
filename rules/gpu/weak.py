"""How sure a verdict on a GPU may be, and what the driver recommends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import re2

from attribution.rule import Change, Confident, Example, View, collector, event, refiner

# Device, driver or program: nothing in the line tells them apart.
LOW = frozenset(
    {
        "gpu.ctxsw_timeout",
        "gpu.ctxsw_fault",
        "gpu.fw_error",
        "gpu.chi",
        "gpu.sdc_hash",
        "amd.ring_timeout",
        "nvl.victim",
        "gpu.gr_class",
    }
)
MEDIUM = frozenset(
    {
        "gpu.repeat",
        "gpu.pbdma",
        "gpu.copy_engine",
        "nvl.peer_down",
        "nvl.peer_thermal",
        "nvsw.sxid_suspect",
        "amd.queue_evict",
        "amd.mes",
    }
)
_ACTION = re2.compile(r"to 0x[0-9a-fA-F]+ \(([A-Za-z0-9 ]{2,40})\)")


@refiner(
    name="weak-gpu-leads",
    stage="POST_OUTCOME",
    example=Example(
        given=(event("gpu.ctxsw_timeout", "n1", time=1.0),), expect=("confident low",), outcome={"symptom": "gpu.ctxsw_timeout"}
    ),
)
def weak_gpu_leads(view: View) -> Iterable[Change]:
    """A fault that device, driver and program can all cause never makes a sure verdict."""
    symptom = view.outcome.get("symptom")
    if symptom in LOW:
        yield Confident(at_most="low", reason="device, driver or program can cause it, and nothing tells them apart")
    elif symptom in MEDIUM:
        yield Confident(at_most="medium", reason="the device is the likely cause, and not the only possible one")


@collector(
    name="gpu-recovery",
    example=Example(
        given=(
            event(
                "gpu.recovery_action",
                "n1",
                gpu="0000:9b:00",
                time=1.0,
                msg="GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
            ),
            event(
                "gpu.recovery_action",
                "n1",
                gpu="0000:9b:00",
                time=2.0,
                line=2,
                msg="GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)",
            ),
        ),
        expect={"gpu_recovery": {"n1 0000:9b:00": "GPU Reset Required"}},
    ),
)
def gpu_recovery(view: View) -> Mapping[str, Any]:
    """The driver's last word on each GPU (XID 154): what has to be done before it is used again."""
    last: dict[str, str] = {}
    for e in view.of("gpu.recovery_action", "gpu.recovered", live=False):
        said = _ACTION.search(e.fields.get("msg", ""))
        if said is not None and e.node is not None:
            last[f"{e.node} {e.gpu or '?'}"] = said.group(1)
    return {"gpu_recovery": dict(sorted(last.items()))} if last else {}


@collector(
    name="nvidia-driver",
    example=Example(
        given=(event("gpu.driver_loaded", "n1", version="570.133.20", time=1.0),),
        expect={"nvidia_driver": {"n1": "570.133.20"}},
    ),
)
def nvidia_driver(view: View) -> Mapping[str, Any]:
    """The driver's version on each node, where its load was logged."""
    found = {e.node: e.fields["version"] for e in view.of("gpu.driver_loaded", live=False) if e.node and "version" in e.fields}
    return {"nvidia_driver": dict(sorted(found.items()))} if found else {}
