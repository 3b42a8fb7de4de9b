"""Requests that failed because the process at their other end had been ended already."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, View, event, filter_rule

UNANSWERED = ("ib.err12", "roce.err12", "efa.error", "ucx.retry", "ucx.retry_roce", "mpi.unreachable", "nccl.peer_reset")
LEFT = ("nccl.watchdog_exit", "nccl.watchdog_died", "nccl.heartbeat")
APART = 2.0


def _first(found: list[Event]) -> Event | None:
    timed = [e for e in found if e.own_time and e.clock == "wall" and e.time is not None]
    return min(timed, key=lambda e: e.time or 0.0, default=None)


@filter_rule(
    name="unanswered-after-ranks-had-left",
    stage="STANDARD",
    example=Example(
        given=(
            event("nccl.heartbeat", "n1", kind="app", line=1, time=100.0),
            event("ib.err12", "n2", kind="app", line=9, time=108.0),
        ),
        expect=("demote ib.err12",),
        quiet=(
            event("ib.err12", "n2", kind="app", line=1, time=100.0),
            event("nccl.heartbeat", "n1", kind="app", line=9, time=700.0),
        ),
    ),
)
def unanswered_after_ranks_had_left(view: View) -> Iterable[Change]:
    """A rank that ends itself after a hang no longer answers: its peers' retries run out because of that. A fabric that
    fails says so within its retries, long before any watchdog's timeout.
    """
    found = view.of(*UNANSWERED)
    left = _first(view.of(*LEFT, live=False))
    if not found or left is None or left.time is None:
        return
    if any(e.kind != "app" or not e.own_time or e.clock != "wall" or e.time is None for e in found):
        return
    if all((e.time or 0.0) > left.time + APART for e in found):
        for e in found:
            yield Demote(event=e.id, reason="a rank of the job had ended itself before", by=left.id)


# Errors that are a rank's own: not what a lost connection makes a library or an interpreter print.
NOT_OWN = (
    "py.runtime",
    "py.traceback",
    "py.echo",
    "py.oserror",
    "nccl.",
    "mpi.",
    "rdzv.",
    "gloo.",
    "ucx.",
    "jax.",
    "ray.",
    "vllm.",
    "slurm.",
)
SURE = ("ib.err12", "roce.err12")


def _own_errors(view: View) -> list[Event]:
    return [
        e
        for e in view.live()
        if e.kind == "app"
        and e.emit == "bad_node"
        and view.role(e) == "root"
        and view.symptoms[e.symptom].domain == "application"
        and not e.symptom.startswith(NOT_OWN)
    ]


def _order(own: Event, lost: Event) -> int:
    """1: the error came first for certain; -1: the lost connection did; 0: nothing says."""
    if own.own_time and lost.own_time and own.clock == lost.clock and own.time is not None and lost.time is not None:
        return (lost.time > own.time + APART) - (lost.time < own.time - APART)
    if own.source == lost.source:
        return 1 if own.line < lost.line else -1
    return 0


@filter_rule(
    name="peers-of-a-rank-that-failed-by-itself",
    stage="STANDARD",
    example=Example(
        given=(
            event("py.type_attr", "n1", kind="app", line=3, time=100.0),
            event("nccl.peer_reset", "n2", kind="app", line=9, time=130.0),
        ),
        expect=("demote nccl.peer_reset",),
        quiet=(
            event("nccl.peer_reset", "n2", kind="app", line=3, time=100.0),
            event("py.type_attr", "n1", kind="app", line=9, time=130.0),
        ),
    ),
)
def peers_of_a_rank_that_failed_by_itself(view: View) -> Iterable[Change]:
    """A rank that ends with an error of its own no longer answers. Status 12 needs proof that the error came first; a reset
    is a consequence unless it was there before.
    """
    own = _own_errors(view)
    for lost in view.of(*UNANSWERED):
        if lost.kind != "app":
            continue
        orders = [(_order(e, lost), e) for e in own]
        first = next((e for o, e in orders if o == 1), None)
        if first is None and lost.symptom not in SURE and not any(o == -1 for o, _ in orders):
            first = next((e for _, e in orders), None)
        if first is not None:
            yield Demote(event=lost.id, reason="a rank had ended by an error of its own", by=first.id)
