"""Which fields this sacct has: they differ by release, so `sacct --helpformat` is asked, and nothing is assumed."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.errors import SlurmError

# No user can put a character of their own into these: their rows are always one line each.
SAFE: tuple[str, ...] = (
    "JobID", "JobIDRaw", "Cluster", "DBIndex", "SLUID", "State", "ExitCode", "DerivedExitCode", "Submit", "Start", "End",
    "NodeList", "FailedNode", "Restarts", "User", "UID", "Account", "Partition", "TimelimitRaw",
)  # fmt: skip
# Polling asks for these alone: without steps and long columns a day of 100,000 jobs is 2 s instead of 20.
ENDS: tuple[str, ...] = ("JobID", "JobIDRaw", "Cluster", "DBIndex", "State", "Start", "End")
NEIGHBOURS: tuple[str, ...] = ("JobID", "JobIDRaw", "Cluster", "DBIndex", "SLUID", "UID", "State", "Start", "End", "NodeList")
# Users write these, with line breaks or whatever else they like. The first and the last column are safe ones: between
# two rows that leaves only a line break between two known numbers (see sacct.parse_texts).
TEXTS: tuple[str, ...] = ("JobIDRaw", "JobName", "WorkDir", "StdOut", "StdErr", "DBIndex")
COMMENTS: tuple[str, ...] = ("JobIDRaw", "SLUID", "State", "Submit", "AdminComment", "SystemComment", "DBIndex")
NEEDED = frozenset({"JobID", "JobIDRaw", "Cluster", "DBIndex", "State", "Start", "End", "NodeList"})


def parse_helpformat(text: str) -> frozenset[str]:
    """The field names that `sacct --helpformat` prints. Raises SlurmError where the indispensable ones are missing."""
    names = frozenset(text.split())
    if missing := NEEDED - names:
        raise SlurmError(f"sacct --helpformat: lacks {', '.join(sorted(missing))}; sattrib needs Slurm 22.05 or later")
    return names


def choose(wanted: Iterable[str], available: frozenset[str]) -> tuple[str, ...]:
    """The wanted fields that this sacct has, in order."""
    return tuple(name for name in wanted if name in available)
