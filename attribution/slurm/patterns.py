"""Output file patterns of sbatch (`slurm-%A_%a.out`) into paths, as slurmstepd makes them for the batch script."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from attribution.bundle import Attempt
from attribution.slurm.values import Accounted

# What Slurm shows as the task of a job that is no array: NO_VAL.
NO_TASK = 4294967294
_SYMBOL = re.compile(r"%(%|([0-9]*)([AaJjNnstubx]))", re.ASCII)
_NUMBERS = "AajJnstb"


def output_files(accounted: Accounted, stdout: str, stderr: str) -> tuple[str | None, str | None]:
    """Absolute paths of the batch script's output; None where there is none to name.

    Empty patterns mean Slurm's defaults: slurm-%j.out, for an array slurm-%A_%a.out, and stderr into stdout. Without a
    batch script an empty stdout means that srun printed to somebody's terminal.
    """
    if not stdout and not accounted.batch:
        return None, None
    symbols = _symbols(accounted)
    default = "slurm-%A_%a.out" if accounted.attempt.array_job_id else "slurm-%j.out"
    out = expand(stdout or default, symbols, accounted.work_dir)
    return out, expand(stderr, symbols, accounted.work_dir) if stderr else out


def expand(pattern: str, symbols: Mapping[str, str], work_dir: str) -> str | None:
    """One pattern into an absolute path; None where it is relative and the working directory is not known.

    With a backslash anywhere nothing is replaced, and each backslash only protects what follows it. (26.05 drops two in
    a row altogether: a file whose name was meant to have a backslash in it is not found there.)
    """
    if "\\" in pattern:
        name = re.sub(r"(?s)\\(.?)", r"\1", pattern)
    else:
        name = _SYMBOL.sub(lambda match: _replace(match, symbols), pattern)
    path = posixpath.join(work_dir, name) if work_dir else name
    return path if path.startswith("/") and "\0" not in path else None


def extra_files(attempt: Attempt, pattern: str, work_dir: str, name: str) -> list[tuple[str, str | None]]:
    """Paths that a further pattern names for an attempt, with the node that writes each, as far as the pattern tells.

    %N and %n (node name, number of the node in the job) give a path for each node; %t is task 0 only.
    """
    known = Accounted(attempt=attempt, job=attempt.job_id, raw_id=attempt.job_id, name=name, work_dir=work_dir)
    symbols = _symbols(known)
    per_node = "\\" not in pattern and any(match[3] in ("N", "n") for match in _SYMBOL.finditer(pattern))
    found: list[tuple[str, str | None]] = []
    for number, node in enumerate(attempt.nodes if per_node else ("",)):
        own = {**symbols, "N": node.partition(".")[0], "n": str(number)} if per_node else symbols
        path = expand(pattern, own, work_dir)
        if path is not None:
            found.append((path, node or None))
    return found


def _replace(match: re.Match[str], symbols: Mapping[str, str]) -> str:
    whole, width, symbol = match[1], match[2], match[3]
    if whole == "%":
        return "%"
    value = symbols.get(symbol)
    if value is None:
        return match[0]
    # Only numbers are padded, to ten digits at most.
    return value.zfill(min(int(width[:3]), 10)) if width and symbol in _NUMBERS and value.isdigit() else value


def _symbols(accounted: Accounted) -> dict[str, str]:
    attempt = accounted.attempt
    task = int(attempt.array_task_id) if attempt.array_task_id is not None else NO_TASK
    found = {
        "A": attempt.array_job_id or attempt.job_id, "a": str(task), "b": str(task % 10), "j": attempt.job_id,
        "J": attempt.job_id, "n": "0", "t": "0", "s": "batch",
    }  # fmt: skip
    if attempt.nodes:
        found["N"] = attempt.nodes[0].partition(".")[0]
    if attempt.user:
        found["u"] = attempt.user
    if accounted.name:
        found["x"] = accounted.name
    return found
