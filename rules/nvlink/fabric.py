"""Fabric Manager over time: stopped, started again, with or without a reset of the GPUs; or not needed at all."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule

NEAR = 300.0
ALIVE = ("fm.configured",)
SHORT = 3600.0


def _at(e: Event) -> float:
    return e.time if e.time is not None and e.clock == "wall" else 0.0


def _timed(view: View, *patterns: str) -> list[Event]:
    return sorted((e for e in view.of(*patterns, live=False) if e.time is not None and e.clock == "wall"), key=_at)


def _cleared(view: View, node: str | None, after: float, before: float) -> bool:
    """Whether the node booted, or its GPUs were reset, in between."""
    return any(e.node == node and e.fields.get("clears") and after <= _at(e) <= before for e in view.events)


@filter_rule(
    name="fabric-manager-not-needed",
    stage="EARLY",
    example=Example(
        given=(event("fm.nothing_to_do", "n1", time=10.0), event("fm.down", "n1", time=10.0)),
        expect=("demote fm.down",),
        quiet=(
            event("fm.nothing_to_do", "n1", time=10.0),
            event("fm.down", "n1", time=10.0),
            event("fm.cuda_not_init", None, time=90.0, kind="app"),
        ),
    ),
)
def fabric_manager_not_needed(view: View) -> Iterable[Change]:
    """A start that failed because there is no NVSwitch is harmless, unless CUDA says that its system is not ready."""
    if view.of("fm.cuda_not_init", live=False):
        return
    for e in view.of("fm.down", "fm.stopped"):
        notice = next(
            (n for n in view.of("fm.nothing_to_do", live=False) if n.node == e.node and abs(_at(n) - _at(e)) <= NEAR), None
        )
        if notice is not None:
            yield Demote(event=e.id, reason="the node has no NVSwitch for Fabric Manager to manage: harmless")


@filter_rule(
    name="fabric-manager-restarted",
    stage="EARLY",
    example=Example(
        given=(event("fm.stopped", "n1", time=10.0), event("fm.configured", "n1", time=40.0)),
        expect=("retag fm.stopped fm.restarted",),
        quiet=(
            event("fm.stopped", "n1", time=10.0),
            event("krn.boot", "n1", time=20.0, clears="boot"),
            event("fm.configured", "n1", time=40.0),
        ),
    ),
)
def fabric_manager_restarted(view: View) -> Iterable[Change]:
    """Stopped (or dead) and then running again: the GPUs still belong to the old one until they are reset.

    A stop with nothing after it means that the service is down.
    """
    alive = _timed(view, *ALIVE)
    for e in view.of("fm.stopped", "fm.down"):
        ran = e.symptom == "fm.stopped" or "Main process exited" in e.text
        if not ran or e.time is None or e.clock != "wall":
            continue
        back = next((a for a in alive if a.node == e.node and _at(e) < _at(a) <= _at(e) + SHORT), None)
        until = max(_at(back), view.state.start or 0.0) if back is not None else float("inf")
        if _cleared(view, e.node, _at(e), until):
            continue
        if back is not None:
            yield Retag(event=e.id, symptom="fm.restarted", reason="it ran again afterwards, and the GPUs were not reset since")
        elif e.symptom == "fm.stopped" and not any(a.node == e.node and _at(a) > _at(e) for a in alive):
            yield Retag(event=e.id, symptom="fm.down", reason="stopped, and not started again")
