"""For `sattrib comment`: what the worker would do with the line of each attempt of a job, asked now."""

from __future__ import annotations

import asyncio
from pathlib import Path

from attribution import ruleset
from attribution.archive.open import open_archive
from attribution.archive.read import StoredVerdict
from attribution.config import Config
from attribution.model import Frozen
from attribution.report.line import comment_line
from attribution.slurm import Backend, comment, open_backend
from attribution.worker.comments import decide
from attribution.worker.state import Owed


class Explained(Frozen, frozen=True):
    """One attempt's line, the decision, and what stands in AdminComment now."""

    attempt: str
    line: str
    decision: comment.Decision
    admin: str


def explain(config: Config, job: str, backend: Backend | None = None) -> tuple[Explained, ...]:
    """Every attempt of `job` that has a verdict, the oldest first. Raises SlurmError, ConfigError, ArchiveError."""
    dirs = tuple(Path(name) for name in config.rules.dirs if Path(name).is_dir())
    symptoms = ruleset.load(dirs, samples=False).symptoms
    aliases = {name: symptom.aliases for name, symptom in symptoms.items()}
    with open_archive(config.archive.url, create=False) as archive:
        found = archive.latest(job)
    lines = [(one, comment_line(one.verdict, aliases)) for one in found]
    return asyncio.run(_explain(config, backend or open_backend(config), lines)) if lines else ()


async def _explain(config: Config, backend: Backend, lines: list[tuple[StoredVerdict, str]]) -> tuple[Explained, ...]:
    owed = [_owed(one, line) for one, line in lines]
    rows = await backend.comments(sorted({one.job for one in owed}))
    found = []
    for one in owed:
        row = rows.get(one.dbindex)
        decision = await decide(config, backend, one, row, jobstats_seen=bool(row and comment.is_jobstats(row.admin)))
        found.append(Explained(attempt=one.attempt, line=one.line, decision=decision, admin=row.admin if row else ""))
    return tuple(found)


def _owed(one: StoredVerdict, line: str) -> Owed:
    view = one.verdict.attempt
    job = view.job_id
    if view.array_job_id and view.array_task_id:
        job = f"{view.array_job_id}_{view.array_task_id}"
    elif view.het_job_id and view.het_offset is not None:
        job = f"{view.het_job_id}+{view.het_offset}"
    failed = one.verdict.verdict != "no_failure"
    return Owed(
        attempt=one.attempt, job=job, raw_id=view.job_id, dbindex=view.dbindex or "", line=line, failed=failed, since=one.stored
    )  # fmt: skip
