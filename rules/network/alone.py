"""A broken connection seen from one side only, where nothing else says why: the network, or the process at its other end."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Add, Change, Event, Example, Retag, View, event, filter_rule, second

BROKEN = ("ib.err5", "ib.err13", "ib.err_remote", "ib.status_*")
# A hang is reported by whoever waits; the queues of a rank that gives up are flushed because of that.
HUNG = ("nccl.watchdog", "nccl.heartbeat", "nccl.abort_timeout")
MESH = ("connectFullMesh failed", "] connect [")


def _read_as(e: Event) -> str | None:
    if e.symptom == "eth.no_route":
        return "net.unreachable"
    if e.symptom == "gloo.close":
        return "net.mesh" if any(words in e.text for words in MESH) else None
    return "rdma.broken"


@filter_rule(
    name="connection-that-broke-for-no-other-reason",
    stage="LATE",
    example=Example(
        given=(event("ib.err5", "n1", kind="app", line=3), event("nccl.remote_err", "n1", kind="app", line=4)),
        expect=("retag ib.err5 rdma.broken", "add nccl.peer_crash"),
        quiet=(event("ib.err5", "n1", kind="app", line=3), event("py.type_attr", "n2", kind="app", line=4)),
    ),
)
def connection_that_broke_for_no_other_reason(view: View) -> Iterable[Change]:
    """Flushed requests, a receiver that is not ready, a host without a route are consequences of something. Where no cause is
    seen anywhere they still say what broke: the network or the process at the other end, and not which.
    """
    if any(view.role(e) == "root" and e.emit in ("bad_node", "bad_peers") for e in view.live()):
        return
    names = ("eth.no_route", "gloo.close") if view.of(*HUNG) else ("eth.no_route", "gloo.close", *BROKEN)
    found = [(e, name) for e in view.of(*names) if (name := _read_as(e)) is not None]
    for e, name in found:
        yield Retag(event=e.id, symptom=name, reason="nothing else says why the connection broke")
    first = next((e for e, name in found if name != "net.unreachable"), None)
    if first is not None:
        yield Add(
            event=second(first, "nccl.peer_crash", id=f"{first.id}+crash", rule="connection-that-broke-for-no-other-reason", emit="bad_peers", count=1, gpu=None, fields={}),
            reason="a process that ended at the other end leaves the same behind",
        )  # fmt: skip
