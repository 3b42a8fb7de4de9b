"""Bridges that are none, loopback addresses on several nodes, and what a missing fabric may mean."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Add, Change, Demote, Event, Example, Retag, View, event, filter_rule, second


def worked_before(view: View, e: Event) -> Event | None:
    """A step of the program that is older by the times that both lines say themselves."""
    if not e.own_time or e.time is None:
        return None
    steps = (s for s in view.of("app.progress", live=False) if s.source == e.source and s.own_time and s.clock == e.clock)
    return next((s for s in steps if s.time is not None and s.line < e.line and s.time < e.time), None)


@filter_rule(
    name="bridge-that-is-none",
    stage="EARLY",
    example=Example(
        attempt={"nodes": ("n1", "n2")},
        given=(event("net.bridge", "n1", kind="app", line=3, peers=("n2",), emit="bad_peers"),),
        expect=("demote net.bridge",),
        quiet=(event("net.bridge", "n1", kind="app", line=3, emit="bad_peers"),),
    ),
)
def bridge_that_is_none(view: View) -> Iterable[Change]:
    """The address is a node's own, all ranks share one host, or the ranks had worked together before."""
    for e in view.of("net.bridge"):
        before = worked_before(view, e)
        if e.peers:
            yield Demote(event=e.id, reason=f"that address is {e.peers[0]}'s own")
        elif len(view.attempt.nodes) < 2:
            yield Demote(event=e.id, reason="all ranks are on one node: a bridge reaches them")
        elif before:
            yield Demote(event=e.id, reason=f"the ranks had worked together before (line {before.line})")


SET_UP = ("rdma.setup", "mpi.no_fabric", "efa.setup", "ib.memlock", "shm.sysv", "nvshmem.no_peermem", "mpi.gpu_ipc")


@filter_rule(
    name="set-up-that-was-gone-around",
    stage="EARLY",
    example=Example(
        given=(
            event("rdma.setup", "n1", kind="app", line=3),
            event("app.progress", "n1", kind="app", line=30, emit="info"),
        ),
        expect=("demote rdma.setup",),
        quiet=(
            event("app.progress", "n1", kind="app", line=1, emit="info"),
            event("rdma.setup", "n1", kind="app", line=3),
        ),
    ),
)
def set_up_that_was_gone_around(view: View) -> Iterable[Change]:
    """Libraries try one way after the other: where the ranks made steps afterwards, another way was found."""
    for e in view.of(*SET_UP):
        later = view.steps_after(e)
        if later:
            yield Demote(event=e.id, reason=f"the ranks made steps after it (line {later[-1].line})")


@filter_rule(
    name="loopback-between-nodes",
    stage="EARLY",
    example=Example(
        attempt={"nodes": ("n1", "n2")},
        given=(event("net.loopback_tried", "n1", kind="app", line=3),),
        expect=("retag net.loopback_tried net.loopback",),
        quiet=(
            event("app.progress", "n1", kind="app", line=2, time=100.0, emit="info"),
            event("net.loopback_tried", "n1", kind="app", line=3, time=200.0),
        ),
    ),
)
def loopback_between_nodes(view: View) -> Iterable[Change]:
    """On one node a loopback address is as good as any; on several the others can't mean this machine by it."""
    if len(view.attempt.nodes) < 2:
        return
    for e in view.of("net.loopback_tried"):
        if worked_before(view, e) is None:
            yield Retag(event=e.id, symptom="net.loopback", reason="the attempt has several nodes")


@filter_rule(
    name="two-readings-of-a-missing-fabric",
    stage="LATE",
    example=Example(
        given=(event("mpi.no_fabric", "n1", kind="app", line=1),),
        expect=("add mpi.no_provider",),
        quiet=(event("mpi.init", "n1", kind="app", line=1),),
    ),
)
def two_readings_of_a_missing_fabric(view: View) -> Iterable[Change]:
    """No provider: the adapter and its driver, or the environment that hides them. The text is the same."""
    found = view.of("mpi.no_fabric")
    if not found or any(e.kind != "app" for e in found):
        return
    first = found[0]
    yield Add(
        event=second(first, "mpi.no_provider", id=f"{first.id}+environment", rule="two-readings-of-a-missing-fabric", fields={}, count=1, peers=(), gpu=None),
        reason="an environment that hides the network prints the same",
    )  # fmt: skip
