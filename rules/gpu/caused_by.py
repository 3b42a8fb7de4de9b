"""What a line says of another: newer drivers name the XID behind XID 45."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Event, Example, Retag, Stated, View, event, filter_rule, until

_PREVIOUS = re2.compile(r"caused by previous Xid (\d{1,4})")
CLOSE = 600.0
# What a number means where only XID 45 is left to name it (the kernel's ring buffer has wrapped).
MEANS = {
    "13": "gpu.gr_exception", "31": "gpu.mmu_fault", "48": "gpu.ecc_dbe", "62": "gpu.pmu", "74": "nvl.xid74", "79": "gpu.off_bus",
    "94": "gpu.ecc_contained", "95": "gpu.ecc_uncontained", "109": "gpu.ctxsw_timeout", "119": "gpu.gsp_timeout",
    "120": "gpu.gsp_error", "140": "gpu.ecc_escape", "144": "nvl.saw", "145": "nvl.victim", "146": "nvl.tlw", "149": "nvl.netir",
    "150": "nvl.mse", "171": "gpu.dram_uncorr", "172": "gpu.sram_uncorr",
}  # fmt: skip


def _behind(view: View, removal: Event, number: str) -> list[Event]:
    """Live root events of that number on the same GPU, not later than what they caused."""
    found = []
    for e in view.live():
        same = e.node == removal.node and (e.gpu is None or removal.gpu is None or e.gpu == removal.gpu)
        if e.fields.get("xid") != number or not same or view.role(e) != "root":
            continue
        if e.time is not None and removal.time is not None and e.clock == removal.clock:
            last = until(removal)
            if e.time > last + 2 or removal.time - e.time > CLOSE:
                continue
        found.append(e)
    return found


@filter_rule(
    name="xid-45-names-its-cause",
    stage="STANDARD",
    example=Example(
        given=(
            event("nvl.netir", "n1", gpu="0009:01:00", time=5.0, xid="149"),
            event(
                "gpu.preempt_removal",
                "n1",
                gpu="0009:01:00",
                time=6.0,
                xid="45",
                msg="channel 0x0b00000a caused by previous Xid 149",
            ),
        ),
        expect=("stated nvl.netir",),
        quiet=(
            event("nvl.netir", "n1", gpu="0008:01:00", time=5.0, xid="149"),
            event(
                "gpu.preempt_removal",
                "n1",
                gpu="0009:01:00",
                time=6.0,
                xid="45",
                msg="channel 0x0b00000a caused by previous Xid 149",
            ),
            event("nvl.victim", "n2", gpu="0009:01:00", time=5.0, xid="145", line=2),
        ),
    ),
)
def xid_45_names_its_cause(view: View) -> Iterable[Change]:
    """The driver itself says which fault removed the channel: that event, on that GPU, is a stated cause.

    A number that means a victim (lost packets over NVLink) states nothing: the fault is at another GPU.
    """
    stated: set[str] = set()
    for removal in view.of("gpu.preempt_removal", live=False):
        named = _PREVIOUS.search(removal.fields.get("msg", ""))
        if named is None:
            continue
        for cause in _behind(view, removal, named.group(1)):
            if cause.id not in stated and cause.symptom not in ("nvl.victim", "nvl.peer_down", "nvl.peer_thermal"):
                stated.add(cause.id)
                yield Stated(event=cause.id, reason=f"XID 45 of the same GPU says that XID {named.group(1)} caused it")


@filter_rule(
    name="xid-45-names-a-lost-line",
    stage="EARLY",
    example=Example(
        given=(
            event(
                "gpu.preempt_removal", "n1", gpu="0000:dc:00", time=6.0, xid="45", msg="Ch 00000001 caused by previous Xid 149"
            ),
        ),
        expect=("retag gpu.preempt_removal nvl.netir",),
        quiet=(
            event("nvl.netir", "n1", gpu="0000:dc:00", time=5.0, xid="149"),
            event(
                "gpu.preempt_removal", "n1", gpu="0000:dc:00", time=6.0, xid="45", msg="Ch 00000001 caused by previous Xid 149"
            ),
        ),
    ),
)
def xid_45_names_a_lost_line(view: View) -> Iterable[Change]:
    """The line of the fault itself is gone, but XID 45 still names its number: one such line per GPU stands for it."""
    seen = {(e.node, e.gpu, e.fields.get("xid")) for e in view.events}
    for removal in view.of("gpu.preempt_removal"):
        named = _PREVIOUS.search(removal.fields.get("msg", ""))
        number = named.group(1) if named else ""
        if number in MEANS and (removal.node, removal.gpu, number) not in seen:
            seen.add((removal.node, removal.gpu, number))
            why = f"XID 45 says that XID {number} caused it, and that line is not in the log"
            yield Retag(event=removal.id, symptom=MEANS[number], reason=why, fields={"xid": number})


@filter_rule(
    name="xid-45-names-a-notice",
    stage="MID",
    example=Example(
        given=(
            event("nvl.unit_notice", "n1", gpu="0000:66:00", time=5.0, xid="145", emit="interesting_node"),
            event(
                "gpu.preempt_removal", "n1", gpu="0000:66:00", time=5.0, xid="45", msg="Ch 00000003 caused by previous Xid 145"
            ),
        ),
        expect=("retag nvl.unit_notice nvl.victim",),
        quiet=(
            event("nvl.unit_notice", "n1", gpu="0000:66:00", time=5.0, xid="145", emit="interesting_node"),
            event("nvl.rlw", "n1", gpu="0000:66:00", time=5.0, xid="145", line=2),
            event(
                "gpu.preempt_removal", "n1", gpu="0000:66:00", time=5.0, xid="45", msg="Ch 00000003 caused by previous Xid 145"
            ),
        ),
    ),
)
def xid_45_names_a_notice(view: View) -> Iterable[Change]:
    """A word that should only be a notice, and yet the driver says that it took the channels down: then it was more."""
    done: set[tuple[str | None, str | None, str]] = set()
    for removal in view.of("gpu.preempt_removal"):
        named = _PREVIOUS.search(removal.fields.get("msg", ""))
        number = named.group(1) if named else ""
        key = (removal.node, removal.gpu, number)
        if number not in MEANS or key in done or _behind(view, removal, number):
            continue
        done.add(key)
        for notice in view.of("nvl.unit_notice"):
            if (notice.node, notice.gpu, notice.fields.get("xid")) == key:
                yield Retag(
                    event=notice.id, symptom=MEANS[number], reason=f"XID 45 of the same GPU says that XID {number} caused it"
                )
                break
