"""Ends that no record told of: the accounting is asked, and what the archive does not have is taken in hand."""

from __future__ import annotations

import time

from attribution.slurm import poll
from attribution.slurm.values import End
from attribution.worker.shared import Shared
from attribution.worker.work import key_of

EVERY = 1.0
# Works in hand beyond which polled ends wait: what the hook tells of comes first.
ROOM = 2000


class Polling:
    """`ask` finds ends, `take` turns them into works. `idle` after the first poll with nothing left to take."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        settings = shared.config.worker
        self._schedule = poll.Schedule(
            every=settings.poll_seconds,
            catch_up=settings.catch_up_hours * 3600,
            catch_up_every=settings.catch_up_every_hours * 3600,
        )
        self._last: int | None = None
        self._last_deep: int | None = None
        self._found: dict[str, End] = {}
        self.failures = 0

    @property
    def idle(self) -> bool:
        return self._last is not None and not self._found

    @property
    def last(self) -> int | None:
        """When the last poll that got all its answers began."""
        return self._last

    async def ask(self) -> float:
        """One poll, where it is time for one. Raises SlurmError where the accounting does not answer."""
        now = int(self._shared.clock())
        todo = poll.plan(now, self._last, self._last_deep, self._schedule)
        if todo.spans:
            try:
                await poll.poll(todo, self._shared.backend.ends, self._take_end, time.monotonic)
            except Exception as problem:
                self._shared.slurm_says = str(problem)
                self.failures += 1
                raise
            self._shared.slurm_says = "ok"
            self.failures = 0
            self._last = now
            self._last_deep = now if todo.deep else self._last_deep
        return EVERY

    async def take(self) -> float:
        """Take in hand what the archive does not know, failed ones first, at most 200 jobs at a time."""
        shared = self._shared
        if not self._found or len(shared.works) >= ROOM:
            return EVERY
        order = sorted(self._found.items(), key=lambda item: (item[1].state == "COMPLETED", item[1].end))
        batch = dict(order[: shared.config.slurm.ids_per_query])
        known = await shared.known(list(batch))
        passed = known | shared.works.refused
        wanted = [end for key, end in batch.items() if key not in passed and shared.works.get(key) is None]
        if wanted:
            await self._admit(wanted)
        for key in batch:
            self._found.pop(key, None)
        return 0.0 if self._found else EVERY

    async def _admit(self, wanted: list[End]) -> None:
        shared = self._shared
        found, bad = await shared.attempts(sorted({end.job for end in wanted}))
        for job, problem in bad.items():
            shared.news.trouble(f"job {job}", problem)
        ended = [one for one in found if one.terminal]
        known = await shared.known([key_of(one) for one in ended])
        for one in ended:
            if key_of(one) not in known | shared.works.refused:
                shared.works.admit(one, shared.clock())

    def _take_end(self, end: End) -> None:
        self._found[f"{end.cluster}/{end.dbindex}"] = end
