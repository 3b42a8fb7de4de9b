"""A weak lead that comes just before a device fault of the same GPU was its first sign, not another cause."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, View, event, filter_rule

EITHER = ("gpu.ctxsw_timeout", "gpu.ctxsw_fault", "gpu.fw_error", "gpu.pbdma", "gpu.copy_engine", "gpu.chi")
PROGRAM = ("gpu.gr_exception", "gpu.mmu_fault", "gpu.gr_illegal")
LOST = (
    "gpu.off_bus",
    "gpu.off_bus_no_xid",
    "gpu.gsp_error",
    "gpu.pmu",
    "gpu.stopped",
    "gpu.fatal_timeout",
    "gpu.c2c_fatal",
    "pcie.gpu_link",
)
MEMORY = ("gpu.ecc_dbe", "gpu.ecc_uncontained", "gpu.dram_uncorr", "gpu.sram_uncorr", "gpu.mem_subsystem", "gpu.ecc_contained")
# A copy over a link that dies faults on either side, a moment before the link's own line.
LINKS = ("nvl.signal_integrity", "nvl.cable", "nvl.unit_fatal", "nvl.xid74", "nvl.netir", "nvl.link_down", "nvsw.sxid_fatal")
SOON, AT_ONCE = 300.0, 5.0


def _by_node(events: list[Event]) -> dict[str | None, list[Event]]:
    found: dict[str | None, list[Event]] = {}
    for e in events:
        found.setdefault(e.node, []).append(e)
    return found


def _sign_of(weak: Event, strong: dict[str | None, list[Event]], most: float) -> Event | None:
    for e in strong.get(weak.node, ()):
        any_gpu = e.gpu is None or weak.gpu is None or e.symptom in LINKS
        same = e.clock == weak.clock and (any_gpu or e.gpu == weak.gpu)
        if same and e.time is not None and weak.time is not None and 0.0 <= e.time - weak.time <= most:
            return e
    return None


@filter_rule(
    name="first-signs-of-a-device-fault",
    stage="STANDARD",
    example=Example(
        given=(
            event("gpu.ctxsw_timeout", "n1", gpu="0000:3b:00", time=5.0),
            event("gpu.off_bus", "n1", gpu="0000:3b:00", time=90.0),
            event("gpu.gr_exception", "n1", gpu="0000:86:00", time=5.0),
            event("gpu.ecc_dbe", "n1", gpu="0000:86:00", time=6.0),
        ),
        expect=("demote gpu.ctxsw_timeout", "demote gpu.gr_exception"),
        quiet=(
            event("gpu.ctxsw_timeout", "n1", gpu="0000:3b:00", time=5.0),
            event("gpu.off_bus", "n1", gpu="0000:44:00", time=90.0),
            event("gpu.mmu_fault", "n1", gpu="0000:86:00", time=5.0),
            event("gpu.ecc_dbe", "n1", gpu="0000:86:00", time=60.0),
        ),
    ),
)
def first_signs_of_a_device_fault(view: View) -> Iterable[Change]:
    """Demote timeouts within five minutes before their GPU's fault, and exceptions in the seconds before it."""
    strong = _by_node([*view.of(*LOST), *view.of(*MEMORY)])
    for weak in view.of(*EITHER):
        cause = _sign_of(weak, strong, SOON)
        if cause is not None:
            yield Demote(event=weak.id, reason="the first sign of the device fault that follows on this GPU", by=cause.id)
    links = _by_node(view.of(*LINKS))
    for weak in view.of(*PROGRAM):
        cause = _sign_of(weak, strong, AT_ONCE) or _sign_of(weak, links, AT_ONCE)
        if cause is not None:
            yield Demote(event=weak.id, reason="the device fault of this GPU follows at once", by=cause.id)


TELLS = ("gpu.off_bus", "gpu.off_bus_no_xid", "gpu.rpc_lost", "gpu.lost_nvml", "gpu.rminit", "gpu.probe_fail", "gpu.init_fail")


@filter_rule(
    name="count-of-gpus-says-only-that",
    stage="STANDARD",
    example=Example(
        given=(event("gpu.count_mismatch", "n1", time=5.0), event("gpu.lost_nvml", "n1", time=300.0)),
        expect=("demote gpu.count_mismatch",),
        quiet=(event("gpu.count_mismatch", "n1", time=5.0), event("gpu.lost_nvml", "n2", time=300.0)),
    ),
)
def count_of_gpus_says_only_that(view: View) -> Iterable[Change]:
    """A monitor can count one GPU less before anybody asks for that GPU; who asks is told which one and why."""
    tells = {t.node: t for t in reversed(view.of(*TELLS))}
    for e in view.of("gpu.count_mismatch"):
        reason = tells.get(e.node)
        if reason is not None:
            yield Demote(event=e.id, reason="the count only says that one is missing; another line says which", by=reason.id)
