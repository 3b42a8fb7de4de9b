"""A GPU that no reset brings back is the fault, whatever hung it first."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, View, event, filter_rule

HUNG = ("amd.ring_timeout", "amd.queue_evict", "amd.mes")
BROKEN = ("amd.reset_fail", "amd.ras_recovery_fail", "amd.off_bus")
SOON = 300.0


def _broken(hung: Event, broken: list[Event]) -> Event | None:
    for e in broken:
        same = e.node == hung.node and e.clock == hung.clock and (e.gpu is None or hung.gpu is None or e.gpu == hung.gpu)
        if same and e.time is not None and hung.time is not None and 0.0 <= e.time - hung.time <= SOON:
            return e
    return None


@filter_rule(
    name="amd-reset-that-fails",
    stage="STANDARD",
    example=Example(
        given=(event("amd.ring_timeout", "n1", time=5.0), event("amd.reset_fail", "n1", gpu="0000:43:00", time=20.0)),
        expect=("demote amd.ring_timeout",),
        quiet=(event("amd.ring_timeout", "n1", time=5.0), event("amd.reset_fail", "n2", gpu="0000:43:00", time=20.0)),
    ),
)
def amd_reset_that_fails(view: View) -> Iterable[Change]:
    """A hang can be a program's; a reset that fails within minutes can't."""
    broken = view.of(*BROKEN)
    for e in view.of(*HUNG) if broken else ():
        cause = _broken(e, broken)
        if cause is not None:
            yield Demote(
                event=e.id,
                reason="the GPU was gone or could not be reset afterwards: the device, not the work on it",
                by=cause.id,
            )


LINGERING = ("amd.ue", "amd.ue_memory", "amd.poison", "amd.xgmi", "amd.mes")


@filter_rule(
    name="amd-reset-before-the-start",
    stage="EARLY",
    example=Example(
        given=(
            event("amd.ue", "n1", gpu="0000:43:00", time=-500.0),
            event("amd.reset_ok", "n1", gpu="0000:43:00", time=-490.0),
        ),
        expect=("demote amd.ue",),
        quiet=(event("amd.ue", "n1", gpu="0000:43:00", time=50.0), event("amd.reset_ok", "n1", gpu="0000:43:00", time=60.0)),
    ),
)
def amd_reset_before_the_start(view: View) -> Iterable[Change]:
    """What a GPU had before the start is gone when a reset of it succeeded before the start."""
    start = view.state.start
    resets = [r for r in view.of("amd.reset_ok", live=False) if start is not None and r.own_time and (r.time or 0.0) < start]
    for e in view.of(*LINGERING) if resets else ():
        done = next(
            (r for r in resets if r.node == e.node and r.gpu == e.gpu and r.clock == e.clock and (r.time or 0) > (e.time or 0)),
            None,
        )
        if done is not None:
            yield Demote(event=e.id, reason=f"this GPU was reset before the start (line {done.line})")
