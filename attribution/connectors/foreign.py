"""Lines of Slurm's daemons that speak of other jobs only: a busy controller's log is mostly those."""

from __future__ import annotations

import re
from collections.abc import Iterable

_JOB = re.compile(rb"(?i)\b(?:jobid|stepid|job_id|job|step)[ =:]{1,2}(\d{1,10}(?:[_+]\d{1,10})?)(?:\((\d{1,10})\))?")
_WORD = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_.-]*")
# A list of nodes in brackets is not expanded here: such a line is kept.
_LIST = re.compile(rb"[A-Za-z0-9_.-]\[\d")


class Foreign:
    """True for a line that names jobs, none of them one of `jobs`, and no node of `nodes`."""

    def __init__(self, jobs: Iterable[str], nodes: Iterable[str]) -> None:
        self._jobs = frozenset(job.encode() for job in jobs)
        self._nodes = frozenset(name.encode() for node in nodes for name in (node, node.partition(".")[0]))

    def __call__(self, line: bytes) -> bool:
        """Whether the line (bytes, without newline) is about others only."""
        named = {word for match in _JOB.finditer(line) for word in match.groups() if word}
        if not named or named & self._jobs or _LIST.search(line):
            return False
        return not any(word.rstrip(b".") in self._nodes for word in _WORD.findall(line))
