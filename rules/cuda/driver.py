"""No GPU for the program: because the job has none, or because the node's driver does not answer."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Add, Change, Event, Example, View, event, filter_rule


@filter_rule(
    name="no-gpu-and-no-nvml",
    stage="STANDARD",
    example=Example(
        given=(event("cuda.nvml", kind="app", line=1), event("cuda.nodevice", kind="app", line=5)),
        expect=("add cuda.nodriver",),
        quiet=(event("cuda.nodevice", kind="app", line=5),),
    ),
)
def no_gpu_and_no_nvml(view: View) -> Iterable[Change]:
    """NVML failed too: besides a job without a GPU, a driver that is not loaded is possible. A node's own log says better."""
    if any(view.role(e) == "root" and e.kind not in ("app", "record") and e.emit == "bad_node" for e in view.live()):
        return
    for missing in view.of("cuda.nodevice"):
        for nvml in view.of("cuda.nvml"):
            if nvml.source == missing.source:
                yield Add(event=as_driver(nvml), reason="NVML found no driver either")
                return


def as_driver(e: Event) -> Event:
    return Event(
        id=f"{e.id}:cuda.nodriver", rule=e.rule, symptom="cuda.nodriver", emit="bad_node", kind=e.kind, source=e.source,
        line=e.line, node=e.node, rank=e.rank, time=e.time, last_time=e.last_time, last_line=e.last_line, clock=e.clock,
        own_time=e.own_time, grain=e.grain, uncertainty=e.uncertainty, count=e.count, fields=e.fields, text=e.text,
        evidence=e.evidence, before_start=e.before_start,
    )  # fmt: skip
