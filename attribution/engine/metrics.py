"""Metric rules: when does a condition hold on a series of (epoch seconds, value) samples."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from attribution.engine.rules import Metric
from attribution.engine.stamps import iso

_OPS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def holds(metric: Metric, points: Sequence[tuple[float, float]]) -> tuple[float, float, float, float] | None:
    """(first time, last time, the values at both) of the first stretch in which the condition is true for `hold`
    seconds on end; None where there is none. Counter resets count as no growth.
    """
    test = _OPS[metric.op]
    since: tuple[float, float] | None = None
    grown, before = 0.0, None
    for at, value in sorted(points):
        seen = value
        if metric.mode == "increase":
            grown += max(0.0, value - before) if before is not None else 0.0
            before, seen = value, grown
        if seen != seen or not test(seen, metric.value):  # noqa: PLR0124 - NaN is no value
            since = None
            continue
        since = since or (at, seen)
        if at - since[0] >= metric.hold:
            return since[0], at, since[1], seen
    return None


def words(rule: str, metric: Metric, held: tuple[float, float, float, float]) -> str:
    """What `holds` found, as evidence."""
    since, until, first, last = held
    seen = f"{first:g} to {last:g}" if last != first else f"{first:g}"
    grown = "grown by " if metric.mode == "increase" else ""
    return f"{rule}: {grown}{seen}, limit {metric.op} {metric.value:g}, from {iso(since)} to {iso(until)}"
