"""Why a job failed, as slurmctld remembers it for MinJobAge: sacct only has the last *pending* reason.

Asked with squeue and not with `scontrol show job`: both cost slurmctld the same request, but scontrol prints the
user's job name and comment between its fields, and a line break in a comment can then forge the record of another job.
squeue prints only the fields that are asked for, and none of these is the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attribution.slurm.sacct import check_id
from attribution.slurm.times import epoch
from attribution.slurm.values import InMemory

_COLUMNS = ("JobID", "State", "exit_code", "StartTime", "EndTime", "Reason")
_LINE = re.compile(r"([0-9]+)\|([A-Z_]+)\|([0-9]+(?::[0-9]+)?)\|([^|]*)\|([^|]*)\|(.*)\|", re.ASCII)


def command(squeue: str, raw_ids: Iterable[str] | None) -> list[str]:
    """The command that asks for these jobs; None asks for all at once, which is cheaper in a burst."""
    ids = [] if raw_ids is None else ["-j", ",".join(check_id(job) for job in raw_ids)]
    return [squeue, "-a", "-h", "-t", "all", *ids, "-O", ",".join(f"{name}:|" for name in _COLUMNS)]


def parse(text: str) -> dict[str, InMemory]:
    """By job id (the number behind an array task). Takes any text: a line that does not fit is left out."""
    found = {}
    for line in text.splitlines():
        if match := _LINE.fullmatch(line.strip()):
            raw_id, state, exit_code, start, end, reason = match.groups()
            found[raw_id] = InMemory(
                raw_id=raw_id, state=state, exit_code=_exit_code(exit_code), start=epoch(start), end=epoch(end),
                reason=None if reason in {"", "None", "(null)"} else reason,
            )  # fmt: skip
    return found


def _exit_code(text: str) -> str:
    """22.05 prints the wait status as a number (2304 is 9:0), later ones `code:signal`."""
    if ":" in text:
        return text
    status = int(text)
    return f"{status >> 8 & 0xFF}:{status & 0x7F}"


def has_comment(show_job: str) -> bool:
    """Whether `scontrol -o show job N` shows an AdminComment of slurmctld's own, which it will write into the row again.

    A user can put the word into a job name: that only makes us wait until the record is purged.
    """
    return " AdminComment=" in show_job
