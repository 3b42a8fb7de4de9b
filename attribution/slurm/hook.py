"""What the hook's record says of a job end: the environment of EpilogSlurmctld, which differs by release.

It never holds state, reason or failed node. SLURM_JOB_RESTART_COUNT is no attempt number: a requeue through the normal
end raises it before the hook runs, one by node failure after it. The texts are the user's.
"""

from __future__ import annotations

import re

from attribution.model import Frozen
from attribution.slurm.sacct import is_sluid
from attribution.slurm.times import epoch
from attribution.spool import Record


class HookEnd(Frozen, frozen=True):
    """A job end as the hook saw it. `time` is when the hook ran; `start` is there since 23.02, `sluid` since 25.11."""

    raw_id: str
    job: str
    cluster: str
    time: float
    sluid: str = ""
    start: int | None = None
    stdout: str = ""
    stderr: str = ""
    work_dir: str = ""
    complete: bool = True


def read_end(record: Record) -> HookEnd | None:
    """The job end in a record of the hook; None where not even its job id got into it."""
    values = record.values
    raw_id = values.get("SLURM_JOB_ID") or values.get("SLURM_JOBID") or ""
    if record.kind != "end" or not _number(raw_id):
        return None
    sluid = values.get("SLURM_JOB_SLUID", "")
    return HookEnd(
        raw_id=raw_id,
        job=_job(raw_id, values.get("SLURM_ARRAY_JOB_ID", ""), values.get("SLURM_ARRAY_TASK_ID", ""), values.get("SLURM_HET_JOB_ID", ""), values.get("SLURM_HET_JOB_OFFSET", "")),
        cluster=values.get("SLURM_CLUSTER_NAME", ""),
        time=record.time,
        sluid=sluid if is_sluid(sluid) else "",
        start=epoch(values.get("SLURM_JOB_START_TIME", "")),
        stdout=values.get("SLURM_JOB_STDOUT", ""),
        stderr=values.get("SLURM_JOB_STDERR", ""),
        work_dir=values.get("SLURM_JOB_WORK_DIR", ""),
        complete=record.complete,
    )  # fmt: skip


def _job(raw_id: str, array: str, task: str, het: str, offset: str) -> str:
    """The id to ask sacct for. The last task of an array has the array's own number, which would select all of them."""
    if _number(array) and _number(task):
        return f"{array}_{task}"
    if _number(het) and _number(offset):
        return f"{het}+{offset}"
    return raw_id


def _number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) is not None
