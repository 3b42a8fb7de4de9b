"""Lines into sacct: after the archive, one at a time, read back, and never over anything that is not ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from attribution.bundle import Attempt
from attribution.config import Config
from attribution.slurm import Backend, comment
from attribution.slurm.values import Accounted, CommentRow
from attribution.worker.shared import Shared
from attribution.worker.state import Owed

EVERY = 1.0
BATCH = 200
JOBSTATS_SEEN = "jobstats_seen"
JOBSTATS_DAYS = 7 * 86400.0
FIRST_DELAY, MOST_DELAY = 2.0, 600.0
GIVEN_UP_AFTER = 7 * 86400.0


class Comments:
    """`step` tries what is due: 200 rows are read in one query, then written no faster than `per_second`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._next_write = 0.0

    async def step(self) -> float:
        """One round. Raises SlurmError where the accounting does not answer."""
        shared = self._shared
        due = await asyncio.to_thread(shared.state.due, shared.clock(), BATCH)
        if not due:
            return EVERY
        archived = await shared.known([one.attempt for one in due])
        # A crash between remembering and committing: the attempt will come again, and its line with it.
        orphans = [one for one in due if one.attempt not in archived and shared.works.get(one.attempt) is None]
        await asyncio.to_thread(shared.state.settled, orphans)
        todo = [one for one in due if one.attempt in archived]
        if not todo:
            return EVERY
        rows = await self._rows(todo)
        written = []
        for one in todo:
            if decision := await self._decide(one, rows.get(one.dbindex)):
                await self._write(one, decision)
                written.append((one, decision))
        if written:
            await self._read_back(written)
        return 0.0 if len(due) == BATCH else EVERY

    async def _rows(self, owed: Iterable[Owed]) -> Mapping[str, CommentRow]:
        rows = await self._shared.backend.comments(sorted({one.job for one in owed}))
        if any(comment.is_jobstats(row.admin) for row in rows.values()):
            await asyncio.to_thread(self._shared.state.set_moment, JOBSTATS_SEEN, self._shared.clock())
        return rows

    async def _decide(self, one: Owed, row: CommentRow | None) -> comment.Decision | None:
        """The decision to write, or None where that is settled or put off."""
        shared = self._shared
        seen = await asyncio.to_thread(shared.state.moment, JOBSTATS_SEEN)
        lately = seen is not None and shared.clock() - seen < JOBSTATS_DAYS
        decision = await decide(shared.config, shared.backend, one, row, jobstats_seen=lately)
        if decision.action in {"keep", "archive"}:
            await asyncio.to_thread(shared.state.settled, [one])
        elif decision.action == "wait":
            await self._later(one, decision.why)
        return decision if decision.action == "write" else None

    async def _write(self, one: Owed, decision: comment.Decision) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._next_write - loop.time()))
        self._next_write = loop.time() + 1 / self._shared.config.comment.per_second
        await self._shared.backend.write_comment(decision, one.line)

    async def _read_back(self, written: list[tuple[Owed, comment.Decision]]) -> None:
        rows = await self._rows(one for one, _ in written)
        done = []
        for one, decision in written:
            if comment.is_written(one.line, rows.get(one.dbindex), decision.field):
                done.append(one)
            else:
                await self._later(one, "it was written, and did not stand there afterwards")
        await asyncio.to_thread(self._shared.state.settled, done)
        self._shared.news.comments += len(done)

    async def _later(self, one: Owed, why: str) -> None:
        now = self._shared.clock()
        if now - one.since > GIVEN_UP_AFTER:
            self._shared.news.trouble(f"job {one.job}", f"its line is not in sacct, given up: {why}")
            await asyncio.to_thread(self._shared.state.settled, [one])
            return
        delay = min(MOST_DELAY, FIRST_DELAY * 2 ** min(one.tries, 20))
        await asyncio.to_thread(self._shared.state.later, one, now + delay, why)


async def decide(
    config: Config, backend: Backend, one: Owed, row: CommentRow | None, *, jobstats_seen: bool
) -> comment.Decision:
    """What is to be done with a line now, and why. Raises SlurmError."""
    cluster = await backend.cluster()
    accounted = named(one, cluster.name)

    def ask(*, in_memory: bool) -> comment.Decision:
        return comment.decide(
            one.line, accounted, row, cluster.version,
            fallback=config.comment.fallback, jobstats_seen=jobstats_seen, in_memory=in_memory,
        )  # fmt: skip

    decision = ask(in_memory=False)
    # slurmctld sends its own AdminComment again, but never a SystemComment. One question a job: only where it matters.
    if decision.action != "write" or decision.field != "AdminComment":
        return decision
    return ask(in_memory=await backend.has_comment(one.raw_id))


def named(one: Owed, cluster: str) -> Accounted:
    """As much of the attempt as a decision needs: its names."""
    attempt = Attempt(cluster=cluster, job_id=one.raw_id, state="FAILED", nodes=(), dbindex=one.dbindex)
    return Accounted(attempt=attempt, job=one.job, raw_id=one.raw_id)
