"""What is done now and then: the stop file, old files of the spool, the status, signs of life."""

from __future__ import annotations

import asyncio
import os

from attribution.spool import measure, update_stop
from attribution.worker.intake import Intake
from attribution.worker.notify import Notify
from attribution.worker.polling import Polling
from attribution.worker.shared import Shared
from attribution.worker.status import Status, write_status

STATUS_EVERY = 2.0
DISK_EVERY = 5.0
CLEAN_EVERY = 600.0


class Upkeep:
    """Each method is one turn of a loop of its own."""

    def __init__(self, shared: Shared, intake: Intake, polling: Polling, notify: Notify) -> None:
        self._shared, self._intake, self._polling, self._notify = shared, intake, polling, notify
        self._started = shared.clock()
        self._percent, self._stopped = 0, False

    async def disk(self) -> float:
        """Set or clear the hook's stop file. Raises OSError."""
        settings, spool = self._shared.config.spool, self._shared.spool
        self._percent = measure(spool.directory)
        stopped = update_stop(spool.directory, self._percent, settings.stop_percent, settings.resume_percent)
        if stopped != self._stopped:
            says = "the hook is stopped" if stopped else "the hook writes again"
            self._shared.news.tell(f"{spool.directory}: {self._percent} % full: {says}")
        self._stopped = stopped
        return DISK_EVERY

    async def clean(self) -> float:
        """Deal with records that were never finished. Raises OSError."""
        self._shared.spool.clean(self._shared.clock())
        return CLEAN_EVERY

    async def alive(self) -> float:
        self._notify.alive()
        return (self._notify.watchdog or 60.0) / 3

    async def status(self) -> float:
        """Write the status file. Raises OSError."""
        status = await self._status()
        write_status(self._shared.folder, status)
        self._notify.status(
            f"{status.in_hand} in hand, {status.archived} archived, {status.comments_behind} comments behind, Slurm: {status.slurm}"
        )
        return STATUS_EVERY

    async def _status(self) -> Status:
        shared, news = self._shared, self._shared.news
        behind, oldest = await asyncio.to_thread(shared.state.behind)
        waiting = shared.spool.waiting(100_000)
        times = [one.claim.record.time for one in self._intake.pending]
        times += [claim.record.time for work in shared.works.all() for claim in work.claims]
        return Status(
            pid=os.getpid(), started=self._started, now=shared.clock(), records_waiting=len(waiting),
            records_unmatched=len(self._intake.pending), in_hand=len(shared.works), ready=shared.works.ready.qsize(),
            oldest=min(times, default=None), archived=news.total, last_minute=news.in_last(60),
            last_ten_minutes=news.in_last(600), comments_written=news.comments, comments_behind=behind,
            comments_oldest=oldest, last_poll=self._polling.last, slurm=shared.slurm_says, hook_stopped=self._stopped,
            disk_percent=self._percent, troubles=tuple(news.troubles),
        )  # fmt: skip
