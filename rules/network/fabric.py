"""Links that several nodes lose together, and a subnet manager that changed before everything broke."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule

PAIR = 2.0
GROUP = 10.0
TOGETHER = {
    "ib.port_down": "fabric.switch",
    "ib.flap": "fabric.switch",
    "eth.link_down": "eth.switch",
    "eth.bond": "eth.switch",
}


def _at(e: Event) -> float:
    return e.time or 0.0


def _near(e: Event, others: list[Event], times: list[float]) -> set[str]:
    """The nodes whose links went with this one: two within seconds, three or more within some more."""
    doubt = e.grain + e.uncertainty
    # A second more on both sides: what is near is decided below.
    first, last = (bisect_left(times, _at(e) + side * (GROUP + doubt + 1.0)) for side in (-1, 1))
    apart = [(o.node, abs(_at(o) - _at(e))) for o in others[first:last] if o.node]
    group = {node for node, seconds in apart if seconds <= GROUP + doubt}
    pair = {node for node, seconds in apart if seconds <= PAIR + doubt}
    return group if len(group) > 2 else pair if len(pair) > 1 else set()


@filter_rule(
    name="links-lost-together",
    stage="MID",
    example=Example(
        given=(event("ib.flap", "n1", time=100.0, grain=1.0), event("ib.port_down", "n2", time=101.0, grain=1.0)),
        expect=("retag ib.flap fabric.switch", "retag ib.port_down fabric.switch"),
        quiet=(event("ib.flap", "n1", time=100.0, grain=1.0), event("ib.port_down", "n2", time=190.0, grain=1.0)),
    ),
)
def links_lost_together(view: View) -> Iterable[Change]:
    """Cables and NICs break one at a time: ports of several nodes that go in the same seconds share a switch."""
    found = [e for e in view.of(*TOGETHER) if e.node and e.own_time and e.clock == "wall" and not e.before_start]
    for kind in ("fabric.switch", "eth.switch"):
        links = [e for e in found if TOGETHER[e.symptom] == kind]
        times = [_at(e) for e in links]
        for e in links:
            nodes = _near(e, links, times)
            if nodes:
                yield Retag(event=e.id, symptom=kind, reason=f"links of {len(nodes)} nodes went together")


BROKEN = ("ib.err12", "ucx.retry")
LINKS = ("ib.port_down", "ib.flap", "ib.cable", "ib.async", "ib.hca_health", "fabric.*")


@filter_rule(
    name="new-manager-before-everything-broke",
    stage="STANDARD",
    example=Example(
        given=(
            event("fabric.sm_note", "n1", kind="app", source="out", emit="interesting_node", what="SM change", line=2),
            event("ib.err12", "n2", kind="app", source="out", line=9, emit="bad_peers"),
        ),
        expect=("retag fabric.sm_note fabric.lid_change",),
        quiet=(
            event(
                "fabric.sm_note", "n1", kind="app", source="out", emit="interesting_node", what="client reregistration", line=2
            ),
            event("ib.err12", "n2", kind="app", source="out", line=9, emit="bad_peers"),
        ),
    ),
)
def new_manager_before_everything_broke(view: View) -> Iterable[Change]:
    """Connections live through a new subnet manager, unless it routes or numbers the fabric anew. Where requests went
    unanswered right behind its announcement, and no port or NIC says anything of its own, that is what it did.
    """
    broken = view.of(*BROKEN)
    if not broken or any(view.symptoms[e.symptom].role == "root" for e in view.of(*LINKS)):
        return
    for e in view.of("fabric.sm_note"):
        after = [b for b in broken if b.source == e.source and b.line > e.line]
        if e.fields.get("what") in ("SM change", "P_Key change") and after and not view.steps_after(e):
            yield Retag(event=e.id, symptom="fabric.lid_change", reason="requests went unanswered from then on")
            return
