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
