"""What all parts of the worker share, and the loop that each of them runs in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attribution.archive.open import Archive
from attribution.config import Config
from attribution.errors import SattribError, SlurmError
from attribution.slurm import Backend
from attribution.slurm.values import Accounted, Cluster
from attribution.spool import Claim, Spool
from attribution.worker.news import Backoff, News
from attribution.worker.pool import Pool
from attribution.worker.state import State
from attribution.worker.work import Works

# sacct names the output files since this release.
STDOUT_SINCE = (24, 5)


@dataclass
class Shared:
    """One worker's rooms and doors. `clock` gives epoch seconds, UTC."""

    config: Config
    backend: Backend
    archive: Archive
    state: State
    spool: Spool
    pool: Pool
    news: News
    works: Works = field(default_factory=Works)
    clock: Callable[[], float] = time.time
    slurm_says: str = "not asked yet"

    @property
    def folder(self) -> Path:
        return Path(self.config.worker.state_dir)

    async def known(self, keys: Sequence[str]) -> frozenset[str]:
        """Those of the keys that are in the archive."""
        return await asyncio.to_thread(self.archive.known, keys) if keys else frozenset()

    async def cluster(self) -> Cluster:
        return await self.backend.cluster()

    def drop(self, claim: Claim) -> None:
        """Its attempt is in the archive. What can't be removed now is removed after the next start."""
        try:
            self.spool.remove(claim)
        except FileNotFoundError:
            return
        except OSError as problem:
            self.news.trouble("spool", problem)

    async def attempts(self, jobs: Sequence[str]) -> tuple[tuple[Accounted, ...], dict[str, SlurmError]]:
        """All attempts of these jobs, and the jobs whose rows can't be used: one such job must not hold up the others.

        Raises SlurmError where the accounting does not answer at all.
        """
        try:
            return await self.backend.attempts(jobs), {}
        except SlurmError as problem:
            if len(jobs) == 1:
                await self._answers()
                return (), {jobs[0]: problem}
        await self._answers()
        middle = len(jobs) // 2
        found, bad = await self.attempts(jobs[:middle])
        more, worse = await self.attempts(jobs[middle:])
        return (*found, *more), {**bad, **worse}

    async def _answers(self) -> None:
        now = int(self.clock())
        await self.backend.ends(now - 1, now)


async def forever(name: str, news: News, step: Callable[[], Awaitable[float]]) -> None:
    """Run `step` again and again, each time after the seconds that it gave.

    What one line explains (Slurm is silent, a disk is full) is waited out; anything else is a bug and ends the worker.
    """
    backoff = Backoff()
    while True:
        try:
            delay = await step()
            backoff.reset()
        except (SattribError, OSError) as problem:
            news.trouble(name, problem)
            delay = backoff.next()
        await asyncio.sleep(delay)
