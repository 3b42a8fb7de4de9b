"""Who only suffers: GPUs that report lost packets, or a peer that took the link down, while another shows the fault."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule

OWN = (
    "nvl.signal_integrity", "nvl.cable", "nvl.unit_fatal", "nvl.poison", "nvl.netir", "nvl.link_down", "nvl.mse", "nvl.saw", "nvl.tlw", "nvl.rlw",
    "nvl.xid74", "nvl.commanded", "nvsw.sxid_fatal", "gpu.off_bus", "gpu.off_bus_no_xid",
)  # fmt: skip
SUFFER = (
    "nvl.victim",
    "nvl.peer_down",
    "nvl.peer_thermal",
    "nvl.remote_access",
    "nvl.priv_err",
    "nvl.remote_translation",
    "nvl.sw_defined",
)
TOGETHER = 1800.0


def _cause(e: Event, causes: list[Event]) -> Event | None:
    """A fault elsewhere, or on the same GPU, up to half an hour before (a link that dies can stall a rack that long)."""
    for cause in causes:
        if cause.clock != e.clock or cause.time is None or e.time is None or -60.0 <= e.time - cause.time <= TOGETHER:
            return cause
    return None


@filter_rule(
    name="nvlink-victims",
    stage="STANDARD",
    example=Example(
        given=(
            event("nvl.signal_integrity", "n1", gpu="0009:01:00", time=10.0),
            event("nvl.victim", "n2", gpu="0008:01:00", time=9.0),
            event("nvl.peer_down", "n3", time=11.0),
        ),
        expect=("demote nvl.victim", "demote nvl.peer_down"),
        quiet=(event("nvl.victim", "n2", gpu="0008:01:00", time=9.0), event("nvl.peer_down", "n3", time=11.0)),
    ),
)
def nvlink_victims(view: View) -> Iterable[Change]:
    """An own-side fault of any GPU of the job explains what the others report, whichever line was written first."""
    causes = view.of(*OWN)
    for e in view.of(*SUFFER) if causes else ():
        cause = _cause(e, causes)
        if cause is not None:
            where = f"{cause.node} {cause.gpu or ''}".strip()
            yield Demote(event=e.id, reason=f"the fault is at {where}: this one only lost its traffic", by=cause.id)


@filter_rule(
    name="nvlink-link-reasons-of-one-gpu",
    stage="STANDARD",
    example=Example(
        given=(
            event("nvl.signal_integrity", "n1", gpu="0009:01:00", time=10.0),
            event("nvl.netir", "n1", gpu="0009:01:00", time=9.0),
        ),
        expect=("demote nvl.netir",),
        quiet=(
            event("nvl.signal_integrity", "n1", gpu="0009:01:00", time=10.0),
            event("nvl.netir", "n2", gpu="0009:01:00", time=9.0),
        ),
    ),
)
def nvlink_link_reasons_of_one_gpu(view: View) -> Iterable[Change]:
    """Where several links of a node fall in one burst, the reason that says something stands for those that say nothing."""
    telling = view.of("nvl.signal_integrity", "nvl.cable", "nvl.unit_fatal")
    for e in view.of("nvl.netir", "nvl.link_down"):
        same = [
            t for t in telling if t.node == e.node and t.clock == e.clock and abs((t.time or 0.0) - (e.time or 0.0)) <= 60.0
        ]
        if same:
            yield Demote(event=e.id, reason="another line of this burst gives the reason", by=same[0].id)


@filter_rule(
    name="nvlink-victims-of-one-board",
    stage="LATE",
    example=Example(
        given=(event("nvl.victim", "n1", gpu="0000:66:00", time=9.0), event("nvl.victim", "n1", gpu="0000:76:00", time=9.0)),
        expect=("retag nvl.victim nvl.tray", "retag nvl.victim nvl.tray"),
        quiet=(event("nvl.victim", "n1", gpu="0009:01:00", time=9.0), event("nvl.victim", "n2", gpu="0008:01:00", time=9.0)),
    ),
)
def nvlink_victims_of_one_board(view: View) -> Iterable[Change]:
    """On HGX boards (PCI domain 0000) every NVLink ends inside the node: lost packets of one node are that node's own.

    GPUs of a rack with NVLink between its trays have other PCI domains: there the fault can be anywhere.
    """
    lost = view.of("nvl.victim")
    if lost and len({e.node for e in lost}) == 1 and all((e.gpu or "").startswith("0000:") for e in lost):
        for e in lost:
            yield Retag(event=e.id, symptom="nvl.tray", reason="all links of this board stay inside the node")
