"""What an XID's own text or the driver's version makes of its number."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule

_ILLEGAL = re2.compile(r"(?i)illegal instruction|invalid instruction|illegal sph|out[- ]of[- ]range pc|invalid pc\b")
BURST = 5.0


def _near(a: Event, b: Event) -> bool:
    same = a.node == b.node and a.gpu == b.gpu and a.clock == b.clock
    return same and a.source == b.source and abs((a.time or 0.0) - (b.time or 0.0)) <= BURST


@filter_rule(
    name="xid-13-illegal-instruction",
    stage="EARLY",
    example=Example(
        given=(
            event(
                "gpu.gr_exception",
                "n1",
                gpu="0000:cb:00",
                time=5.0,
                msg="Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction Parameter",
            ),
            event(
                "gpu.gr_exception",
                "n1",
                gpu="0000:cb:00",
                time=5.0,
                line=2,
                msg="Graphics Exception: ESR 0x57c730=0xc04000b 0x57c734=0x24",
            ),
        ),
        expect=("retag gpu.gr_exception gpu.gr_illegal", "retag gpu.gr_exception gpu.gr_illegal"),
        quiet=(
            event(
                "gpu.gr_exception",
                "n1",
                gpu="0000:cb:00",
                time=5.0,
                msg="Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address",
            ),
        ),
    ),
)
def xid_13_illegal_instruction(view: View) -> Iterable[Change]:
    """An instruction that the GPU refuses is a bad kernel or a sick SM: the lines of that burst decide nothing alone."""
    events = view.of("gpu.gr_exception")
    illegal = [e for e in events if _ILLEGAL.search(e.fields.get("msg", ""))]
    for e in events:
        if any(e.id == i.id or _near(e, i) for i in illegal):
            yield Retag(event=e.id, symptom="gpu.gr_illegal", reason="the burst holds an illegal instruction")


def _major(view: View, node: str | None) -> int | None:
    """The major version of the driver that the node's log shows last; None where it shows none, or several."""
    versions = {e.fields.get("version", "").split(".")[0] for e in view.of("gpu.driver_loaded", live=False) if e.node == node}
    return int(versions.pop()) if len(versions) == 1 else None


@filter_rule(
    name="xid-number-by-driver",
    stage="EARLY",
    example=Example(
        given=(
            event("gpu.driver_loaded", "n1", version="550.90.07", time=1.0),
            event("nvl.saw", "n1", gpu="0000:3b:00", xid="144", msg="Key rotation failed", time=5.0),
        ),
        expect=("retag nvl.saw nvl.secure",),
        quiet=(
            event("gpu.driver_loaded", "n1", version="570.133.20", time=1.0),
            event(
                "nvl.saw",
                "n1",
                gpu="0000:3b:00",
                xid="144",
                msg="SAW_MVB Fatal XC0 i0 Link -1 (0x00000001 0x00000002)",
                time=5.0,
            ),
        ),
    ),
)
def xid_number_by_driver(view: View) -> Iterable[Change]:
    """XID 144 is a failed key rotation on R550 and an NVLink unit from R560 on; its text says which, else the version."""
    for e in view.of("nvl.saw"):
        msg = e.fields.get("msg", "")
        if msg.startswith("SAW"):
            continue
        major = _major(view, e.node)
        if "otation" in msg or (major is not None and major < 560):
            yield Retag(event=e.id, symptom="nvl.secure", reason="on this driver XID 144 is a failed key rotation")


@filter_rule(
    name="xid-154-recovered",
    stage="EARLY",
    example=Example(
        given=(
            event(
                "gpu.recovery_action",
                "n1",
                gpu="0000:9b:00",
                time=9.0,
                msg="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
            ),
        ),
        expect=("retag gpu.recovery_action gpu.recovered",),
        quiet=(
            event(
                "gpu.recovery_action",
                "n1",
                gpu="0000:9b:00",
                time=9.0,
                msg="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            ),
        ),
    ),
)
def xid_154_recovered(view: View) -> Iterable[Change]:
    """A recommendation that goes back to None ends what lingered on the GPU."""
    for e in view.of("gpu.recovery_action"):
        if e.fields.get("msg", "").rstrip().endswith("to 0x0 (None)"):
            yield Retag(
                event=e.id, symptom="gpu.recovered", reason="the driver no longer wants a recovery", fields={"clears": "reset"}
            )
