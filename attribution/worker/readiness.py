"""From found to ready: why it failed is asked early, its rows are read again late."""

from __future__ import annotations

from attribution.errors import SattribError
from attribution.slurm import ready
from attribution.slurm.completing import Completing
from attribution.slurm.sacct import slices
from attribution.slurm.values import InMemory
from attribution.worker.shared import STDOUT_SINCE, Shared
from attribution.worker.work import REASON_TRIES, Work, key_of

EVERY = 0.5
# slurmctld forgets a job after MinJobAge: 300 s by default, and hardly anywhere more than an hour.
REMEMBERED = 3600.0


class Readiness:
    """Moves works from waiting to ready."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._completing = Completing(shared.backend)

    async def ask_reasons(self) -> float:
        """One question to slurmctld for all failed attempts that want their reason, at most twice a second."""
        now = self._shared.clock()
        wanting = [work for work in self._shared.works.waiting.values() if work.reason == "wanted"]
        for work in wanting:
            if now - (work.accounted.end or 0) > REMEMBERED:
                work.reason = "not_read"
        asked = [work for work in wanting if work.reason == "wanted"]
        if not asked:
            return EVERY
        try:
            memory = await self._shared.backend.in_memory({work.accounted.raw_id for work in asked})
        except SattribError as problem:
            self._shared.news.trouble("slurmctld", problem)
            memory = None
        for work in asked:
            _remember(work, memory)
        return EVERY

    async def step(self) -> float:
        """Judge what can be judged now. Raises SlurmError where the accounting does not answer."""
        shared = self._shared
        now = shared.clock()
        waits, has_stdout = await self._cluster()
        found = []
        for work in [one for one in shared.works.waiting.values() if one.again_at <= now]:
            raw_id = work.accounted.raw_id
            started = work.accounted.start is not None
            completing, quiet = await self._completing.look(raw_id, now) if started else (None, None)
            decision = ready.decide(work.accounted, completing, quiet, now, waits)
            work.again_at = decision.again_at or now + EVERY
            if decision.ready and work.reason != "wanted":
                work.timed_out = decision.timed_out
                self._completing.forget(raw_id)
                found.append(work)
        await self._read_again(found, has_stdout=has_stdout)
        return EVERY

    async def _cluster(self) -> tuple[ready.Waits, bool]:
        """How long this cluster waits, and whether its sacct names output files; Slurm's defaults until slurmctld answers."""
        settle = self._shared.config.worker.settle_seconds
        try:
            cluster = await self._shared.cluster()
        except SattribError as problem:
            self._shared.news.trouble("slurmctld", problem)
            return ready.Waits(settle=settle), False
        waits = ready.Waits(kill_wait=cluster.kill_wait, unkillable=cluster.unkillable_timeout, settle=settle)
        return waits, cluster.version >= STDOUT_SINCE

    async def _read_again(self, works: list[Work], *, has_stdout: bool) -> None:
        """The step rows of the end state: those of the first look can be older than the last task."""
        shared = self._shared
        by_job: dict[str, list[Work]] = {}
        for work in works:
            by_job.setdefault(work.accounted.job, []).append(work)
        for jobs in slices(by_job, shared.config.slurm.ids_per_query):
            found, _ = await shared.attempts(jobs)
            rows = {key_of(one): one for one in found}
            for work in (one for job in jobs for one in by_job[job]):
                fresh = rows.get(work.key)
                # A row that is gone (a purge, a lost table) is no reason to lose what was read of it.
                work.renew(fresh if fresh is not None and fresh.terminal else work.accounted, has_stdout=has_stdout)
                shared.works.to_judge(work)


def _remember(work: Work, memory: dict[str, InMemory] | None) -> None:
    """Take what slurmctld said; `memory` None: it did not answer."""
    work.reason_tries += 1
    one = memory.get(work.accounted.raw_id) if memory is not None else None
    last = work.reason_tries >= REASON_TRIES
    if one is not None and one.state == work.accounted.state:
        work.memory = one
        if one.reason is not None or last:
            work.reason = "read"
    elif memory is not None or last:
        # Purged, or the job was requeued and stands there as its next attempt.
        work.reason = "not_read"
