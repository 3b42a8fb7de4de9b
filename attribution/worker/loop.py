"""The worker's loop: starts the parts side by side, and ends them in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from attribution import connectors
from attribution.archive.open import open_archive
from attribution.config import Config
from attribution.errors import ConfigError, SlurmError
from attribution.slurm import Backend, open_backend
from attribution.spool import Spool
from attribution.worker.comments import Comments
from attribution.worker.intake import Intake
from attribution.worker.judge import Judge
from attribution.worker.keep import Keep
from attribution.worker.lock import lock
from attribution.worker.news import News
from attribution.worker.notify import Notify
from attribution.worker.polling import Polling
from attribution.worker.pool import Pool, RulesBrokenError
from attribution.worker.readiness import Readiness
from attribution.worker.shared import Shared, forever
from attribution.worker.state import State
from attribution.worker.upkeep import Upkeep

JUDGES_PER_SLOT = 4
LOCK = "worker.lock"
ONCE_LOOKS = 3


def serve(config: Config, *, once: bool = False, backend: Backend | None = None) -> None:
    """Run the worker until SIGTERM or SIGINT, or with `once` until nothing is left to do.

    Raises ConfigError, SattribError where it can't start (AlreadyRunningError: another one runs). `backend` is for tests.
    """
    with _opened(config, backend or open_backend(config)) as shared:
        asyncio.run(Worker(shared).run(once=once))


@contextlib.contextmanager
def _opened(config: Config, backend: Backend) -> Iterator[Shared]:
    folder = Path(config.worker.state_dir)
    if not folder.is_dir():
        raise ConfigError("is no directory: make it, for user sattrib alone", str(folder), "worker.state_dir")
    spool = Spool(config.spool.dir)
    locks = [lock(folder / LOCK)]
    try:
        url = make_url(config.archive.url)
        if url.get_backend_name() == "sqlite" and url.database:
            locks.append(lock(Path(f"{url.database}.lock")))
        spool.prepare()
        shutil.rmtree(folder / "work", ignore_errors=True)
        dirs = tuple(Path(name) for name in config.rules.dirs if Path(name).is_dir())
        with open_archive(config.archive.url) as archive, contextlib.closing(State(folder / "state.db")) as state:
            pool = Pool(config.worker, dirs, trusted_files=config.collect.trusted_files)
            yield Shared(config=config, backend=backend, archive=archive, state=state, spool=spool, pool=pool, news=News())
    finally:
        for descriptor in locks:
            os.close(descriptor)


class Worker:
    """All parts over one `Shared`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._notify = Notify()
        self._intake, self._polling = Intake(shared), Polling(shared)
        self._readiness, self._comments = Readiness(shared), Comments(shared)
        self._keep = Keep(shared)
        self._judge = Judge(shared, self._keep)
        self._upkeep = Upkeep(shared, self._intake, self._polling, self._notify)
        self._commented = asyncio.Event()

    async def run(self, *, once: bool = False) -> None:
        """Until a signal, or with `once` until all is done. Children are ended, and tries in hand given back."""
        self._intake.recover()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._shared.pool.reload)
        await self._upkeep.disk()
        tasks: list[asyncio.Task[None]] = [asyncio.create_task(part, name=name) for name, part in self._parts()]
        tasks.append(asyncio.create_task(self._warm(), name="warm"))
        ends: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
        if once:
            ends.append(asyncio.create_task(self._all_done()))
        self._notify.ready()
        self._shared.news.tell(f"started: spool {self._shared.spool.directory}, archive {self._shared.archive.where}")
        try:
            await asyncio.wait([*tasks, *ends], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._notify.stopping()
            for task in (*tasks, *ends):
                task.cancel()
            results = await asyncio.gather(*tasks, *ends, return_exceptions=True)
            await self._shared.pool.close()
            await connectors.close()
            for work in self._shared.works.all():
                await self._judge.release(work)
            with contextlib.suppress(OSError):
                await self._upkeep.status()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, asyncio.CancelledError):
                raise result
        self._shared.news.tell("stopped")

    def _parts(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        shared = self._shared
        steps: list[tuple[str, Callable[[], Awaitable[float]]]] = [
            ("spool", self._intake.step),
            ("accounting", self._polling.ask),
            ("ends", self._polling.take),
            ("reasons", self._readiness.ask_reasons),
            ("readiness", self._readiness.step),
            ("comments", self._comment),
            ("disk", self._upkeep.disk),
            ("clean", self._upkeep.clean),
            ("status", self._upkeep.status),
            ("watchdog", self._upkeep.alive),
        ]
        parts: list[tuple[str, Coroutine[Any, Any, None]]] = [(name, forever(name, shared.news, step)) for name, step in steps]
        parts += [(f"judge-{n}", self._judge.serve()) for n in range(shared.config.worker.slots * JUDGES_PER_SLOT)]
        return [*parts, ("archive", self._keep.serve())]

    async def _warm(self) -> None:
        """Children load the rules while the first ends are looked for."""
        try:
            await self._shared.pool.warm()
        except RulesBrokenError as problem:
            self._shared.news.trouble("rules", problem)
        await asyncio.Event().wait()

    async def _comment(self) -> float:
        # Only a round that began when nothing was in hand any more has seen every line.
        idle = not len(self._shared.works)
        delay = await self._comments.step()
        if delay and idle:
            self._commented.set()
        return delay

    async def _all_done(self) -> None:
        """For `--once`: nothing waits, nothing is in hand, every line was tried once."""
        while True:
            await asyncio.sleep(0.2)
            if self._polling.failures >= ONCE_LOOKS:
                raise SlurmError(self._shared.slurm_says)
            looked = all(one.asked >= ONCE_LOOKS for one in self._intake.pending)
            busy = len(self._shared.works) or self._shared.spool.waiting(1) or not self._polling.idle or not looked
            if busy:
                self._commented.clear()
            elif self._commented.is_set():
                return
