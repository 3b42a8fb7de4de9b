"""Comparing times: only what both lines say themselves counts, and never finer than clocks and stamps allow."""

from __future__ import annotations

from attribution.model import Event

SAME_NODE, BETWEEN_NODES = 1.0, 2.0


def tolerance(a: Event, b: Event) -> float:
    """Seconds by which two stamps may differ without saying anything."""
    if a.source == b.source:
        base = 0.0
    elif a.node is not None and a.node == b.node:
        base = SAME_NODE
    else:
        base = BETWEEN_NODES
    if a.source != b.source:
        base = max(base, a.uncertainty + b.uncertainty)
    return base + max(a.grain, b.grain)


def comparable(a: Event, b: Event) -> bool:
    return a.own_time and b.own_time and a.time is not None and b.time is not None and a.clock == b.clock


def earlier(a: Event, b: Event, slack: float | None = None) -> bool:
    """Whether `a` is earlier than `b` for certain."""
    if not comparable(a, b):
        return False
    assert a.time is not None and b.time is not None  # noqa: PT018 - for the type checker
    return a.time < b.time - (tolerance(a, b) if slack is None else slack)


def gap(a: Event, b: Event) -> float | None:
    """Seconds from a to b, where both say their own time."""
    return b.time - a.time if comparable(a, b) and a.time is not None and b.time is not None else None
