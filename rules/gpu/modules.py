"""A kernel module that could not be loaded matters to programs that miss it."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Example, View, event, filter_rule

# What a program, a container or slurmd says where the driver is not there.
MISSED = (
    "cuda.nodevice", "cuda.nvml", "cuda.nodriver", "cuda.unknown", "cuda.mismatch", "cuda.insufficient", "cuda.init_warned",
    "cuda.so_missing", "amd.kfd", "fm.cuda_not_init", "fm.cuda_warned", "libnv.init", "slurm.daemon_no_gpu_file", "slurm.no_gpus",
    "slurm.launch_gres", "slurm.prolog_fail",
)  # fmt: skip


@filter_rule(
    name="a-module-that-nobody-missed",
    stage="EARLY",
    example=Example(
        given=(event("gpu.module_failed", "n1", time=-300.0),),
        expect=("demote gpu.module_failed",),
        quiet=(event("gpu.module_failed", "n1", time=-300.0), event("cuda.nodevice", None, kind="app", line=4)),
    ),
)
def a_module_that_nobody_missed(view: View) -> Iterable[Change]:
    """Nodes without GPUs and nodes that are being set up try the module too: it is no cause where nothing asked for a GPU."""
    if view.of(*MISSED):
        return
    for e in view.of("gpu.module_failed"):
        yield Demote(event=e.id, reason="nothing in the job found the driver missing")
