"""sacct's command lines, and its output as rows: never by line where users write the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attribution.errors import SlurmError

Row = dict[str, str]
COLUMN = "\x1f"
# The states in which a row can end, as every release since 22.05 knows them.
END_STATES = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"
_RAW = re.compile(r"[0-9]+(?:\.[A-Za-z0-9]+)?", re.ASCII)
_JOB = re.compile(r"[0-9]+(?:_[0-9]+|\+[0-9]+)?", re.ASCII)
_SLUID = re.compile(r"s[0-9A-HJKMNP-TV-Z]{13}", re.ASCII)


def check_id(job: str) -> str:
    """`job` if it is a job id as sacct takes it (5, 10_3, 11+1). Raises SlurmError: an id comes from records and people."""
    if not _JOB.fullmatch(job):
        raise SlurmError(f"{job[:80]!r} is no job id: write 123, 123_4 or 123+1")
    return job


def is_sluid(text: str) -> bool:
    return _SLUID.fullmatch(text) is not None


def by_id(sacct: str, ids: Sequence[str], fields: Sequence[str], delimiter: str = COLUMN, *, steps: bool = True) -> list[str]:
    """All rows of these jobs, older attempts too (-D). A number that is an array's id gives all of its tasks."""
    jobs = ",".join(check_id(job) for job in ids)
    return [*_base(sacct, fields, delimiter), *([] if steps else ["-X"]), "-j", jobs]


def ended_between(sacct: str, since: int, until: int, fields: Sequence[str]) -> list[str]:
    """Jobs that ended in [since, until], epoch seconds. Without the states, jobs that were never eligible are left out."""
    return [*_base(sacct, fields, COLUMN), "-X", "-a", "-s", END_STATES, "-S", f"uts{since}", "-E", f"uts{until}"]


def on_nodes(sacct: str, nodes: str, since: int, until: int, fields: Sequence[str]) -> list[str]:
    """Jobs that were on any of the nodes (a hostlist) in [since, until], epoch seconds."""
    return [*_base(sacct, fields, COLUMN), "-X", "-a", "-N", nodes, "-S", f"uts{since}", "-E", f"uts{until}"]


def _base(sacct: str, fields: Sequence[str], delimiter: str) -> list[str]:
    return [sacct, "-P", "-n", "-D", f"--delimiter={delimiter}", "-o", ",".join(fields)]


def parse_rows(text: str, fields: Sequence[str]) -> list[Row]:
    """Rows of safe fields, one a line. Raises SlurmError with the line number where a line has other columns."""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        cells = line.split(COLUMN)
        if len(cells) != len(fields):
            raise SlurmError(f"sacct: line {number} has {len(cells)} columns instead of {len(fields)}: {line[:80]!r}")
        rows.append(dict(zip(fields, cells, strict=True)))
    return rows


def parse_texts(text: str, fields: Sequence[str], delimiter: str) -> dict[tuple[str, str], Row]:
    """Rows of user-written fields by (JobIDRaw, DBIndex); those that are unclear are left out. Takes any text.

    The first field must be JobIDRaw and the last DBIndex. `delimiter` is a random word that no user knows, so line
    breaks in a text do no harm; should somebody have seen it in the process list and used it in time, then a key
    appears twice or a number is no number, and nobody's text is taken from there.
    """
    found: dict[tuple[str, str], Row] = {}
    unclear: set[tuple[str, str]] = set()
    width = len(fields) - 1
    cells = text.removesuffix("\n").split(delimiter)
    if len(cells) % width != 1:
        return {}
    first = cells[0]
    for at in range(1, len(cells), width):
        *middle, joint = cells[at : at + width]
        last, newline, following = joint.partition("\n")
        if not (_RAW.fullmatch(first) and re.fullmatch(r"[0-9]+", last, re.ASCII)):
            return {}
        if (first, last) in found:
            unclear.add((first, last))
        found[first, last] = dict(zip(fields, [first, *middle, last], strict=True))
        first = following if newline else ""
    return {key: row for key, row in found.items() if key not in unclear}


def slices(ids: Iterable[str], size: int) -> list[list[str]]:
    """Ids in portions of one query."""
    listed = sorted(set(ids))
    return [listed[at : at + size] for at in range(0, len(listed), size)]
