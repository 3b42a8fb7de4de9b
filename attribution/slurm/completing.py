"""Which jobs slurmctld lists as COMPLETING: one question for all of them, however many wait for the answer."""

from __future__ import annotations

import asyncio

from attribution.errors import SattribError
from attribution.slurm.backend import Backend

EVERY = 2.0


class Completing:
    """Asks at most every two seconds, and remembers since when each job has been quiet."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._asked: float | None = None
        self._listed: frozenset[str] | None = None
        self._quiet: dict[str, float] = {}
        self._lock = asyncio.Lock()

    async def look(self, raw_id: str, now: float) -> tuple[bool | None, float | None]:
        """`completing` and `quiet_since` for ready.decide(); (None, None) while slurmctld does not answer.

        `now` is epoch seconds. Only ask for jobs whose row is terminal, and `forget` them when they are judged.
        """
        async with self._lock:
            if self._asked is None or not 0 <= now - self._asked < EVERY:
                try:
                    self._listed = await self._backend.completing()
                except SattribError:
                    self._listed = None
                self._asked = now
        if self._listed is None:
            return None, None
        if raw_id in self._listed:
            self._quiet.pop(raw_id, None)
            return True, None
        return False, self._quiet.setdefault(raw_id, self._asked)

    def forget(self, raw_id: str) -> None:
        self._quiet.pop(raw_id, None)
