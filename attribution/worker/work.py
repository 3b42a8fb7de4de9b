"""The attempts that the worker has in hand, each once, whoever found it: the hook, polling or a person."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Literal

from attribution.engine.record import clean_success
from attribution.slurm.attempts import with_memory, with_output
from attribution.slurm.hook import HookEnd
from attribution.slurm.values import Accounted, InMemory
from attribution.spool import Claim

REASON_TRIES = 3


@dataclass(eq=False)
class Work:
    """One attempt on its way to the archive. `claims` are the records of the spool that speak of it, maybe none.

    `again_at` (epoch seconds, UTC) is when it is looked at next; `reason` whether slurmctld's failure reason is known.
    """

    key: str
    accounted: Accounted
    found: float
    claims: list[Claim] = field(default_factory=list)
    hook: HookEnd | None = None
    memory: InMemory | None = None
    reason: Literal["unneeded", "wanted", "read", "not_read"] = "unneeded"
    reason_tries: int = 0
    again_at: float = 0.0
    timed_out: bool = False
    begun: bool = False

    @property
    def clean(self) -> bool:
        return clean_success(self.accounted.attempt)

    def renew(self, accounted: Accounted, *, has_stdout: bool) -> None:
        """Take rows that were read anew, with what slurmctld and the hook said of it.

        `has_stdout`: this sacct names the output files itself (24.05 and later); before, only the hook knows them.
        """
        known = with_memory(accounted, self.memory)
        hook = self.hook
        if hook is not None and not has_stdout and (hook.stdout or hook.stderr):
            known = with_output(known, hook.stdout, hook.stderr, hook.work_dir)
        self.accounted = known


class Works:
    """All that is in hand. An attempt waits until it is ready, then stands in `ready`, failed ones in front."""

    def __init__(self) -> None:
        self._by_key: dict[str, Work] = {}
        self._order = itertools.count()
        self.waiting: dict[str, Work] = {}
        # Attempts whose verdict the archive could not take: polling must not bring them back every minute.
        self.refused: set[str] = set()
        self.ready: asyncio.PriorityQueue[tuple[int, float, int, Work]] = asyncio.PriorityQueue()

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: str) -> Work | None:
        return self._by_key.get(key)

    def all(self) -> list[Work]:
        return list(self._by_key.values())

    def admit(self, accounted: Accounted, now: float, claim: Claim | None = None, hook: HookEnd | None = None) -> Work:
        """The work of this attempt, made if it is not in hand yet; the record is its too."""
        key = key_of(accounted)
        work = self._by_key.get(key)
        if work is None:
            work = Work(key=key, accounted=accounted, found=now)
            wants = accounted.start is not None and not work.clean
            work.reason = "wanted" if wants else "unneeded"
            self._by_key[key] = self.waiting[key] = work
        if claim is not None:
            work.claims.append(claim)
        if hook is not None and work.hook is None:
            work.hook = hook
        return work

    def to_judge(self, work: Work) -> None:
        """It is ready: judge it when its turn comes."""
        self.waiting.pop(work.key, None)
        end = float(work.accounted.end or 0)
        self.ready.put_nowait((1 if work.clean else 0, end, next(self._order), work))

    def done(self, work: Work) -> None:
        self.waiting.pop(work.key, None)
        self._by_key.pop(work.key, None)


def key_of(accounted: Accounted) -> str:
    """The attempt's key in the archive."""
    cluster, dbindex = accounted.key
    return f"{cluster}/{dbindex}"


def aliases_of(accounted: Accounted) -> tuple[str, ...]:
    """Its older keys there: a resized job has one row a size."""
    return tuple(f"{accounted.attempt.cluster}/{dbindex}" for dbindex in accounted.aliases)
