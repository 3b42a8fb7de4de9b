"""One attempt from ready to its verdict. Whatever dies over it, its try is counted before, and after three it gets a
verdict that says so.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from attribution import pipeline
from attribution.errors import SattribError
from attribution.report.line import comment_line
from attribution.spool import TRIES
from attribution.worker.gather import gather
from attribution.worker.keep import Keep, Kept
from attribution.worker.pool import ChildDiedError, RulesBrokenError
from attribution.worker.shared import Shared
from attribution.worker.wire import Answer
from attribution.worker.work import Work

RULES_DELAY = 30.0
DISK_DELAY = 10.0


class Judge:
    """`serve` runs several times side by side: more than there are slots, since collecting is mostly waiting."""

    def __init__(self, shared: Shared, keep: Keep) -> None:
        self._shared, self._keep = shared, keep
        self._alone = asyncio.Lock()

    async def serve(self) -> None:
        """Take what is ready, one after the other, until cancelled."""
        while True:
            *_, work = await self._shared.works.ready.get()
            if work.claims and work.claims[0].tries >= TRIES - 1:
                # Only one record at a time can lose its last try to a worker that dies: not all that were in hand with it.
                async with self._alone:
                    await self._guarded(work)
            else:
                await self._guarded(work)

    async def _guarded(self, work: Work) -> None:
        try:
            await self._one(work)
        except (SattribError, OSError) as problem:
            # A full disk, our own state: not this attempt's fault. Its try stays counted where it can't be given back.
            self._later(work, f"job {work.accounted.job}", problem, DISK_DELAY)

    async def _one(self, work: Work) -> None:
        if not await self._begin(work):
            await self._unjudged(work, f"the worker died {TRIES} times while it worked on it")
            return
        try:
            folder = await gather(work, self._shared)
            answer = await self._shared.pool.judge(folder)
        except ChildDiedError as died:
            await self._crashed(work, died)
        except RulesBrokenError as problem:
            await self._put_back(work, "rules", problem, RULES_DELAY)
        except (SattribError, OSError) as problem:
            await self._put_back(work, f"job {work.accounted.job}", problem, DISK_DELAY)
        except Exception as bug:  # noqa: BLE001 - a bug with one attempt must not stop the others
            await self._crashed(work, ChildDiedError(type(bug).__name__, "collect", str(bug)))
        else:
            await self._keep.put(Kept(work=work, answer=answer, folder=folder))

    async def _begin(self, work: Work) -> bool:
        """Count the try: in the record's name, or in our own state where no record speaks of it."""
        work.begun = True
        if not work.claims:
            return await asyncio.to_thread(self._shared.state.begin, work.key) <= TRIES
        try:
            begun = self._shared.spool.begin(work.claims[0])
        except FileNotFoundError:
            # A person took the record away; the attempt is judged all the same.
            work.claims.pop(0)
            return await self._begin(work)
        if begun is None:
            work.claims.pop(0)
            return False
        work.claims[0] = begun
        return True

    async def release(self, work: Work) -> None:
        """The work on it was stopped, or could not be done, through no fault of its own: its try does not count."""
        if not work.begun:
            return
        work.begun = False
        if work.claims:
            work.claims[0] = self._shared.spool.release(work.claims[0])
        else:
            await asyncio.to_thread(self._shared.state.release, work.key)

    async def _put_back(self, work: Work, where: str, problem: Exception, delay: float) -> None:
        """Not this attempt's fault: try it again later."""
        await self.release(work)
        self._later(work, where, problem, delay)

    def _later(self, work: Work, where: str, problem: Exception, delay: float) -> None:
        self._shared.news.trouble(where, problem)
        asyncio.get_running_loop().call_later(delay, self._shared.works.to_judge, work)

    async def _crashed(self, work: Work, died: ChildDiedError) -> None:
        self._shared.news.trouble(f"job {work.accounted.job}", f"its work died: {died}")
        if work.claims:
            claim = self._shared.spool.crashed(work.claims[0], died.signal, died.step)
            again = claim is not None
            work.claims[:1] = [claim] if claim is not None else []
        else:
            again = await asyncio.to_thread(self._shared.state.tries, work.key) < TRIES
        if again:
            self._shared.works.to_judge(work)
            return
        await self._unjudged(work, f"the analysis died {TRIES} times, the last time by {died}")

    async def _unjudged(self, work: Work, what: str) -> None:
        analyzed = pipeline.unjudged(work.accounted.attempt, what)
        answer = Answer(analyzed=analyzed, line=comment_line(analyzed.verdict))
        await self._keep.put(Kept(work=work, answer=answer, folder=Path()))
