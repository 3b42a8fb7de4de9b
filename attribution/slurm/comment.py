"""The line in sacct: whether it may be written, where, and with which command. Nothing but ours is ever overwritten."""

from __future__ import annotations

import re
from typing import Literal

from attribution.errors import SlurmError
from attribution.model import Frozen
from attribution.slurm.sacct import check_id, is_sluid
from attribution.slurm.values import TERMINAL, Accounted, CommentRow, base_state

PREFIX = "sattrib:"
JOBSTATS = "JS1:"
LONGEST = 200
# jobid=<SLUID> selects exactly one row; before, a job id selects the newest row, whatever attempt it is of.
SLUID_SINCE = (26, 5)

Field = Literal["AdminComment", "SystemComment"]


class Decision(Frozen, frozen=True):
    """`write`: to `field` of what `selector` names. `keep`: it stands there already. `wait`: ask again later.

    `archive`: no row may carry the line, it stays in the archive alone. `why` says so in words.
    """

    action: Literal["write", "keep", "wait", "archive"]
    why: str
    field: Field = "AdminComment"
    selector: str = ""


def check_line(line: str) -> str:
    """`line` if it is fit to be a comment. Raises SlurmError: a line that is not would be a fault of ours.

    22.05 lower-cases, every sacctmgr turns quotes into backquotes, and `|` separates sacct's columns.
    """
    if not re.fullmatch(r"sattrib:[0-9]{1,3} [ -~]+", line) or re.search(r"[A-Z'\"`|\\]", line):
        raise SlurmError(f"comment {line[:80]!r}: is not lower-case plain ASCII that begins with {PREFIX}N")
    if len(line) > LONGEST or line != line.strip():
        raise SlurmError(f"comment {line[:80]!r}: is longer than {LONGEST} characters, or has spaces around it")
    return line


def is_jobstats(value: str) -> bool:
    """Whether jobstats wrote this comment: it owns the field then. Without case: 22.05 lower-cases its text too."""
    return value.casefold().startswith(JOBSTATS.casefold())


def decide(
    line: str,
    accounted: Accounted,
    row: CommentRow | None,
    version: tuple[int, int],
    *,
    fallback: Literal["auto", "system", "archive"] = "auto",
    jobstats_seen: bool = False,
    in_memory: bool = False,
) -> Decision:
    """What to do with `line` for the attempt, whose own row is `row` (None: sacct has none).

    `version` is Slurm's (major, minor). `fallback` is `[comment] fallback`; `jobstats_seen`: jobstats wrote a comment
    on this cluster in the last 7 days. `in_memory`: slurmctld's own record of the job has an AdminComment.
    Raises SlurmError where the line is not fit to be written.
    """
    check_line(line)
    if row is None or base_state(row.state) not in TERMINAL:
        return Decision(action="wait", why="the row is not there yet" if row is None else f"the row says {row.state}")
    if in_memory:
        return Decision(action="wait", why="slurmctld has a comment of its own and would write it over ours")
    selector = _selector(accounted, row, version)
    if not selector:
        return Decision(action="archive", why="a later attempt has this job id, and its row would get the line")
    if is_ours(row.admin):
        return _ours(line, row.admin, "AdminComment", selector)
    owner = "jobstats" if is_jobstats(row.admin) else "somebody"
    if fallback == "archive" or (fallback == "auto" and not (jobstats_seen or is_jobstats(row.admin))):
        return Decision(action="archive", why=f"{owner} wrote the AdminComment")
    if is_ours(row.system):
        return _ours(line, row.system, "SystemComment", selector)
    return Decision(action="archive", why=f"{owner} wrote the AdminComment, and SystemComment is not empty either")


def command(sacctmgr: str, cluster: str, decision: Decision, line: str) -> list[str]:
    """The command for a decision to write. Raises SlurmError where an argument is not what it should be."""
    if not is_sluid(decision.selector):
        check_id(decision.selector)
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", cluster):
        raise SlurmError(f"{cluster[:80]!r} is no cluster name")
    where = ["where", f"jobid={decision.selector}", f"cluster={cluster}"]
    return [sacctmgr, "-i", "modify", "job", *where, "set", f"{decision.field}={check_line(line)}"]


def is_written(line: str, row: CommentRow | None, field: Field) -> bool:
    """Whether the row that was read back has the line. Without case: 22.05 lower-cases."""
    if row is None:
        return False
    return (row.admin if field == "AdminComment" else row.system).strip().casefold() == line.casefold()


def is_ours(value: str) -> bool:
    """Empty, or a line of ours: only such a field may be written."""
    text = value.strip().casefold()
    return not text or text.startswith(PREFIX)


def _ours(line: str, value: str, field: Field, selector: str) -> Decision:
    if value.strip().casefold() == line.casefold():
        return Decision(action="keep", why="it stands there already", field=field, selector=selector)
    why = "an older line of ours stands there" if value.strip() else "the field is empty"
    return Decision(action="write", why=why, field=field, selector=selector)


def _selector(accounted: Accounted, row: CommentRow, version: tuple[int, int]) -> str:
    """What names this row and no other; empty where nothing does.

    Always the task (10_3) or the component (11+1): an array's or a leader's number would select all of them.
    """
    if version >= SLUID_SINCE and is_sluid(row.sluid):
        return row.sluid
    return accounted.job if row.newest else ""
