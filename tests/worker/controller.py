"""A controller of its own, and a worker on it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from slurm_in_memory import Slurm

from attribution.archive.open import open_archive
from attribution.config import parse
from attribution.spool import dump
from attribution.worker.loop import Worker, _opened


class Site:
    """A controller of its own: spool, state directory, archive, and a Slurm in memory."""

    def __init__(self, root: Path, more: str = ""):
        self.root, self.spool, self.state = root, root / "spool", root / "state"
        self.spool.mkdir(parents=True)
        self.state.mkdir()
        self.archive_file = self.state / "archive.db"
        self.config = parse(
            f'[spool]\ndir = "{self.spool}"\nstop_percent = 100\nresume_percent = 99\n[archive]\nurl = "sqlite:///{self.archive_file}"\n'
            f'[rules]\ndirs = []\n[comment]\nper_second = 100\n[worker]\nstate_dir = "{self.state}"\nsettle_seconds = 0\n{more}'
        )
        self.slurm = Slurm()
        self.count = 0

    def hook(self, one, *, at=None, name=None, **more):
        """The record of a job end, as the hook writes it."""
        attempt = one.attempt
        values = {
            "SLURM_JOB_ID": one.raw_id,
            "SLURM_CLUSTER_NAME": "test",
            "SLURM_SCRIPT_CONTEXT": "epilog_slurmctld",
            "SLURM_JOB_START_TIME": str(one.start or 0),
        }
        if attempt.array_job_id:
            values |= {"SLURM_ARRAY_JOB_ID": attempt.array_job_id, "SLURM_ARRAY_TASK_ID": attempt.array_task_id}
        self.count += 1
        file = self.spool / (name or f"end-{self.count}.env")
        file.write_bytes(dump({**values, **more}))
        return file

    @contextlib.contextmanager
    def opened(self):
        with _opened(self.config, self.slurm) as shared:
            yield shared

    def once(self, seconds=60):
        """The worker, until nothing is left to do."""

        async def run(worker):
            async with asyncio.timeout(seconds):
                await worker.run(once=True)

        with self.opened() as shared:
            asyncio.run(run(Worker(shared)))
            return shared

    def archived(self, job=None):
        """What the archive holds: by key, or of one job."""
        with open_archive(self.archive_file, create=False) as archive:
            if job is not None:
                return archive.latest(job)
            return {row.attempt: row for row in archive.since(0.0)}

    def left(self):
        """Every file of the spool that is no directory."""
        return sorted(str(path.relative_to(self.spool)) for path in self.spool.rglob("*") if path.is_file())


def wait_until(test, seconds=30.0):
    end = time.monotonic() + seconds
    while not (found := test()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found
