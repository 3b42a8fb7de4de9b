"""sacct's rows into attempts: steps to their job, sizes of one run together, every requeued run for itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from attribution.bundle import Attempt, Step
from attribution.slurm import patterns
from attribution.slurm.exits import unshift, unshift_steps
from attribution.slurm.hostlist import expand
from attribution.slurm.sacct import Row
from attribution.slurm.times import epoch, iso
from attribution.slurm.values import Accounted, InMemory, base_state

Texts = Mapping[tuple[str, str], Row]
_ID = re.compile(r"([0-9]+)(?:_([0-9]+)|\+([0-9]+))?", re.ASCII)
# A resized row's successor starts where it ended; slurmctld reads its clock for each of the two.
JOINT = 2


def attempts(rows: Sequence[Row], texts: Texts | None = None) -> tuple[Accounted, ...]:
    """Every attempt in the rows of `sacct -D` (safe fields, jobs and steps), oldest first per job.

    `texts` are the user-written fields by (JobIDRaw, DBIndex), None where they were not asked for; an attempt that is
    missing in them is `unclear`. Pending array
    masters (`10_[5-9]`) are no attempts and left out. Raises SlurmError on a node list that can't be read.
    """
    jobs = [row for row in rows if _ID.fullmatch(row["JobID"])]
    steps: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if "." in row["JobID"]:
            steps.setdefault((row["Cluster"], row["DBIndex"]), []).append(row)
    found = []
    for run in _runs(jobs):
        own = [step for job in run for step in steps.get((job["Cluster"], job["DBIndex"]), [])]
        found.append(_accounted(run, own, texts))
    return tuple(found)


def with_memory(accounted: Accounted, memory: InMemory | None) -> Accounted:
    """The same with the failure reason and the unshifted exit code that slurmctld remembers, if they are of this attempt.

    A requeued job stands in slurmctld's memory as its next attempt: state and end must be the same.
    """
    if memory is None or memory.state != accounted.state or not accounted.terminal:
        return accounted
    if memory.end is None or accounted.end is None or abs(memory.end - accounted.end) > JOINT:
        return accounted
    attempt = accounted.attempt
    shown = attempt.exit_code
    changed = msgspec.structs.replace(
        attempt,
        reason=_reason(attempt, memory) or attempt.reason,
        exit_code=unshift(shown, memory.exit_code),
        # The job's exit code is its batch script's.
        steps=tuple(
            msgspec.structs.replace(step, exit_code=unshift(shown, memory.exit_code))
            if step.step_id == "batch" and step.exit_code == shown
            else step
            for step in attempt.steps
        ),
    )
    return msgspec.structs.replace(accounted, attempt=changed)


def _reason(attempt: Attempt, memory: InMemory) -> str | None:
    """Slurm's word; 22.05 calls it JobLaunchFailure too when a signal ended a batch script that ran (later: RaisedSignal)."""
    signal = memory.exit_code.rpartition(":")[2]
    ran = any(step.step_id == "batch" and step.exit_code == f"0:{signal}" for step in attempt.steps)
    return f"RaisedSignal:{signal}" if memory.reason == "JobLaunchFailure" and signal != "0" and ran else memory.reason


def _runs(jobs: Sequence[Row]) -> list[list[Row]]:
    """Job rows, those of one run together: RESIZING rows and the row that continues them."""
    runs: list[list[Row]] = []
    for row in sorted(jobs, key=_order):
        before = runs[-1][-1] if runs else None
        if before is not None and _continues(before, row):
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _order(row: Row) -> tuple[str, int, int, int]:
    begin = epoch(row["Start"]) or epoch(row.get("Submit", "")) or 0
    return row["Cluster"], int(row["JobIDRaw"]), begin, int(row["DBIndex"])


def _continues(before: Row, row: Row) -> bool:
    if (before["Cluster"], before["JobIDRaw"]) != (row["Cluster"], row["JobIDRaw"]) or base_state(
        before["State"]
    ) != "RESIZING":
        return False
    end = epoch(before["End"])
    # 22.05 keeps the first start and puts the time of the resize into Submit; 24.11 puts it into both.
    begins = [time for name in ("Start", "Submit") if (time := epoch(row.get(name, ""))) is not None]
    return end is not None and any(abs(time - end) <= JOINT for time in begins)


def _accounted(run: list[Row], step_rows: list[Row], texts: Texts | None) -> Accounted:
    first, last = run[0], run[-1]
    steps = unshift_steps([_step(row, texts or {}) for row in step_rows], last.get("DerivedExitCode", ""))
    nodes = tuple(dict.fromkeys(name for row in run for name in expand(row["NodeList"])))
    # Of a job that was cancelled in the queue 22.05 gives the time of that as its start.
    start = epoch(first["Start"]) if nodes else None
    attempt = _attempt(run, nodes, start, steps)
    text = (texts or {}).get((last["JobIDRaw"], last["DBIndex"]), {})
    known = Accounted(
        attempt=attempt,
        job=last["JobID"],
        raw_id=last["JobIDRaw"],
        aliases=tuple(row["DBIndex"] for row in run[:-1]),
        starts=tuple(time for row in run if start is not None and (time := epoch(row["Start"])) is not None),
        sluids=tuple(sluid for row in run if (sluid := row.get("SLUID", ""))),
        start=start,
        end=epoch(last["End"]),
        name=text.get("JobName", ""),
        work_dir=text.get("WorkDir", ""),
        texts="read" if text else "not_read" if texts is None else "unclear",
    )
    return with_output(known, text.get("StdOut", ""), text.get("StdErr", ""))


def with_output(accounted: Accounted, stdout: str, stderr: str, work_dir: str = "") -> Accounted:
    """The same with the output files that these patterns (sacct's, or the hook's SLURM_JOB_STDOUT) name for it."""
    named = msgspec.structs.replace(accounted, work_dir=work_dir or accounted.work_dir)
    out, err = patterns.output_files(named, stdout, stderr)
    return msgspec.structs.replace(named, attempt=msgspec.structs.replace(named.attempt, stdout=out, stderr=err))


def _attempt(run: list[Row], nodes: tuple[str, ...], start: int | None, steps: tuple[Step, ...]) -> Attempt:
    first, last = run[0], run[-1]
    match = _ID.fullmatch(last["JobID"])
    number, task, offset = match.groups() if match else (None, None, None)
    derived = last.get("DerivedExitCode") or None
    return Attempt(
        cluster=last["Cluster"],
        job_id=last["JobIDRaw"],
        state=last["State"],
        exit_code=last.get("ExitCode") or "0:0",
        nodes=nodes,
        start=iso(start),
        end=iso(epoch(last["End"])),
        array_job_id=number if task else None,
        array_task_id=task,
        het_job_id=number if offset else None,
        het_offset=int(offset) if offset else None,
        dbindex=last["DBIndex"],
        sluid=last.get("SLUID") or None,
        submit=iso(epoch(first.get("Submit", ""))),
        user=last.get("User") or None,
        uid=_number(last.get("UID", "")),
        account=last.get("Account") or None,
        partition=last.get("Partition") or None,
        failed_node=next((row["FailedNode"] for row in reversed(run) if row.get("FailedNode")), None),
        derived_exit_code=derived,
        time_limit=last.get("TimelimitRaw") or None,
        restarts=_number(last.get("Restarts", "")),
        steps=steps,
    )


def _step(row: Row, texts: Texts) -> Step:
    return Step(
        step_id=row["JobID"].partition(".")[2],
        state=row["State"],
        # A step that never ended has none: its node died.
        exit_code=row.get("ExitCode") or "",
        name=texts.get((row["JobIDRaw"], row["DBIndex"]), {}).get("JobName", ""),
        nodes=expand(row["NodeList"]),
        start=iso(epoch(row["Start"])),
        end=iso(epoch(row["End"])),
    )


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) else None
