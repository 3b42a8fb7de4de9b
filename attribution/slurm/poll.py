"""Ends that the hook missed: slurmctld was down, the hook is not configured, a record was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from attribution.model import Frozen
from attribution.slurm.values import End

SLICE = 600


class Plan(Frozen, frozen=True):
    """What to ask now: spans [since, until] in epoch seconds, newest first, and whether they reach all the way back."""

    spans: tuple[tuple[int, int], ...]
    deep: bool


class Schedule(Frozen, frozen=True):
    """Seconds: how often to poll, how far back to catch up, and how often to do that without need."""

    every: int = 60
    catch_up: int = 24 * 3600
    catch_up_every: int = 6 * 3600


def plan(now: int, last: int | None, last_deep: int | None, schedule: Schedule) -> Plan:
    """Which spans to ask for at `now`; none where it is not yet time.

    `last` and `last_deep` are when the last poll and the last one that reached all the way back began, None: never.
    Rows arrive late (slurmdbd was down, its queue was long), so every poll looks back over ten minutes, and over a day
    at start, after a gap, and now and then.
    """
    deep = last is None or last_deep is None or now - last > SLICE or now - last_deep >= schedule.catch_up_every
    if not deep and last is not None and 0 <= now - last < schedule.every:
        return Plan(spans=(), deep=False)
    first = now - (schedule.catch_up if deep else SLICE)
    spans = []
    until = now
    while until > first:
        since = max(first, until - SLICE)
        spans.append((since, until))
        until = since
    return Plan(spans=tuple(spans), deep=deep)


async def poll(
    todo: Plan,
    ends: Callable[[int, int], Awaitable[Iterable[End]]],
    take: Callable[[End], None],
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Ask for each span and `take` what ended in it; after each answer pause for as long as it took.

    An end on the border of two spans is taken twice: the taker knows its keys. `clock` is a monotonic one, in seconds.
    Raises SlurmError from the first answer that fails; what was taken by then stays taken.
    """
    for at, (since, until) in enumerate(todo.spans):
        began = clock()
        for end in await ends(since, until):
            take(end)
        if at + 1 < len(todo.spans):
            await sleep(clock() - began)
