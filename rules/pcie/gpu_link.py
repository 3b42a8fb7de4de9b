"""Whether a PCIe fault took a GPU with it, or devices of several kinds."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule

SOON = 120.0
GPU_GONE = ("amd.off_bus", "gpu.off_bus", "gpu.off_bus_no_xid", "gpu.rpc_lost", "pcie.fatal_timeout")
OTHERS_GONE = ("disk.nvme", "ib.hca_health", "ib.cmd_timeout")


def _follows(view: View, e: Event, *patterns: str) -> bool:
    for other in view.of(*patterns, live=False):
        if other.node != e.node:
            continue
        if other.clock != e.clock or other.time is None or e.time is None or -5.0 <= other.time - e.time <= SOON:
            return True
    return False


@filter_rule(
    name="pcie-link-of-a-gpu",
    stage="EARLY",
    example=Example(
        given=(event("pcie.aer_fatal", "n1", time=5.0), event("pcie.gpu_hit", "n1", gpu="0000:3b:00", time=5.0, line=2)),
        expect=("retag pcie.aer_fatal pcie.gpu_link",),
        quiet=(event("pcie.aer_fatal", "n1", time=5.0), event("gpu.off_bus", "n2", gpu="0000:3b:00", time=6.0)),
    ),
)
def pcie_link_of_a_gpu(view: View) -> Iterable[Change]:
    """A fatal PCIe error with a GPU gone right after it is that GPU's link; with disks or NICs gone too, it is the board's."""
    for e in view.of("pcie.aer_fatal", "pcie.dpc", "pcie.link_down"):
        if _follows(view, e, *GPU_GONE, "pcie.gpu_hit") and not _follows(view, e, *OTHERS_GONE):
            yield Retag(event=e.id, symptom="pcie.gpu_link", reason="a GPU of the node was hit or gone within two minutes")


@filter_rule(
    name="pcie-device-recovered",
    stage="MID",
    example=Example(
        given=(event("pcie.aer_fatal", "n1", time=5.0), event("pcie.recovered", "n1", time=6.0)),
        expect=("demote pcie.aer_fatal",),
        quiet=(event("pcie.aer_fatal", "n1", time=5.0), event("pcie.recovered", "n2", time=6.0)),
    ),
)
def pcie_device_recovered(view: View) -> Iterable[Change]:
    """A fatal error that the kernel got over, with no device lost, ended nothing by itself."""
    for e in view.of("pcie.aer_fatal", "pcie.dpc"):
        if _follows(view, e, "pcie.recovered") and not _follows(view, e, *GPU_GONE, *OTHERS_GONE):
            yield Demote(event=e.id, reason="the device was recovered, and none was lost")
