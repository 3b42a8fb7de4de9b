"""Verdicts into the archive, many in one commit; only then may their records go."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from attribution.archive.write import Finished
from attribution.errors import SattribError
from attribution.worker.news import Backoff
from attribution.worker.shared import Shared
from attribution.worker.state import Owed
from attribution.worker.wire import Answer
from attribution.worker.work import Work, aliases_of

BATCH = 200
ROOM = 400
GATHER_SECONDS = 0.02


@dataclass(eq=False)
class Kept:
    """A finished attempt. `folder` holds its bundle and is removed; an empty path is none."""

    work: Work
    answer: Answer
    folder: Path


class Keep:
    """`put` waits while the archive can't follow, so that verdicts don't pile up in memory."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._queue: asyncio.Queue[Kept] = asyncio.Queue(maxsize=ROOM)
        self._backoff = Backoff()

    async def put(self, kept: Kept) -> None:
        await self._queue.put(kept)

    async def serve(self) -> None:
        """Commit what there is, until cancelled."""
        while True:
            batch = [await self._queue.get()]
            await asyncio.sleep(GATHER_SECONDS)
            while len(batch) < BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            await self._commit(batch)

    async def _commit(self, batch: list[Kept]) -> None:
        """All of it, in one commit; one that the database refuses for itself does not take the others with it."""
        while True:
            try:
                await self._store(batch)
            except (SattribError, OSError) as problem:
                self._shared.news.trouble("archive", problem)
                await asyncio.sleep(self._backoff.next())
                continue
            except Exception as bug:  # noqa: BLE001
                if len(batch) == 1:
                    self._refuse(batch[0], bug)
                    _remove(batch)
                    return
                for kept in batch:
                    await self._commit([kept])
                return
            self._backoff.reset()
            self._forget(batch)
            await asyncio.to_thread(_remove, batch)
            return

    async def _store(self, batch: list[Kept]) -> None:
        """What is owed to sacct is remembered first: a crash in between leaves a line without a verdict, which is dropped."""
        shared, now = self._shared, self._shared.clock()
        finished = [
            Finished(
                verdict=kept.answer.analyzed.verdict, input_hash=kept.answer.analyzed.input_hash,
                stored_input=kept.answer.analyzed.stored_input, aliases=aliases_of(kept.work.accounted),
            ) for kept in batch
        ]  # fmt: skip
        owed = [one for kept in batch if (one := self._owed(kept, now))]
        if owed:
            await asyncio.to_thread(shared.state.owe, owed)
        await asyncio.to_thread(shared.archive.store_all, finished, now)
        if polled := [kept.work.key for kept in batch if not kept.work.claims]:
            await asyncio.to_thread(shared.state.forget, polled)

    def _owed(self, kept: Kept, now: float) -> Owed | None:
        on, verdict = self._shared.config.comment.on, kept.answer.analyzed.verdict
        failed = verdict.verdict != "no_failure"
        if on == "off" or (on == "failed" and not failed):
            return None
        accounted = kept.work.accounted
        return Owed(
            attempt=kept.work.key, job=accounted.job, raw_id=accounted.raw_id, dbindex=accounted.attempt.dbindex or "",
            line=kept.answer.line, failed=failed, since=now,
        )  # fmt: skip

    def _forget(self, batch: list[Kept]) -> None:
        for kept in batch:
            for claim in kept.work.claims:
                self._shared.drop(claim)
            self._shared.works.done(kept.work)
        self._shared.news.finished(len(batch))

    def _refuse(self, kept: Kept, bug: Exception) -> None:
        job = kept.work.accounted.job
        self._shared.news.trouble(f"job {job}", f"the archive can't take its verdict: {type(bug).__name__}: {bug}")
        self._shared.works.refused.add(kept.work.key)
        for claim in kept.work.claims:
            self._shared.spool.fail(claim, f"{type(bug).__name__}-in-archive")
        self._shared.works.done(kept.work)


def _remove(batch: list[Kept]) -> None:
    for kept in batch:
        if kept.folder.name:
            shutil.rmtree(kept.folder, ignore_errors=True)
