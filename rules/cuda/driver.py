"""No GPU for the program: because the job has none, or because the node's driver does not answer."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Add, Change, Example, View, event, filter_rule, second


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
                yield Add(event=second(nvml, "cuda.nodriver", peers=(), gpu=None), reason="NVML found no driver either")
                return
