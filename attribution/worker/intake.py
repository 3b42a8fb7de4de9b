"""Records of the spool: claimed, matched with an attempt of the accounting, and taken in hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from attribution.slurm.hook import HookEnd, read_end
from attribution.slurm.match import match
from attribution.slurm.sacct import slices
from attribution.slurm.values import Accounted
from attribution.spool import Claim
from attribution.worker.shared import Shared
from attribution.worker.work import key_of

ROOM = 5000
EVERY = 0.5
FIRST_DELAY, MOST_DELAY = 1.0, 60.0
COVERED_AFTER = 600.0
GIVEN_UP_AFTER = 24 * 3600.0


@dataclass(eq=False)
class Pending:
    """A claimed record whose attempt is not settled: a job end (`hook`), or a person's request for `job`."""

    claim: Claim
    job: str
    hook: HookEnd | None = None
    due: float = 0.0
    delay: float = FIRST_DELAY
    asked: int = 0
    keys: frozenset[str] = frozenset()

    def later(self, now: float) -> None:
        self.due, self.delay = now + self.delay, min(MOST_DELAY, self.delay * 1.7)


class Intake:
    """Turns records into works. `recover` once, then `step` again and again."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.pending: list[Pending] = []

    def recover(self) -> None:
        """Take up what an earlier worker had claimed."""
        for claim in self._shared.spool.recover():
            self._add(claim)

    async def step(self) -> float:
        """One look at the spool and one question to the accounting. Raises SlurmError, OSError."""
        shared = self._shared
        names = shared.spool.waiting(ROOM) if len(self.pending) + len(shared.works) < ROOM else []
        for name in names[: ROOM - len(self.pending)]:
            if claim := shared.spool.claim(name):
                self._add(claim)
        await self._finish_requests()
        now = shared.clock()
        due = [one for one in self.pending if one.due <= now and not one.keys]
        for jobs in slices((one.job for one in due), shared.config.slurm.ids_per_query)[:1]:
            some = [one for one in due if one.job in set(jobs)]
            await self._ask(jobs, some)
            return 0.0 if len(some) < len(due) else EVERY
        return EVERY

    def _add(self, claim: Claim) -> None:
        if claim.record.kind == "request":
            job = claim.record.values.get("JOB", "")
            if claim.record.values.get("ASK") != "attribute" or not job.isascii():
                self._shared.spool.fail(claim, "unknown-request")
                return
            self.pending.append(Pending(claim=claim, job=job))
            return
        hook = read_end(claim.record)
        if hook is None:
            self._shared.spool.fail(claim, "no-job-id")
            return
        self.pending.append(Pending(claim=claim, job=hook.job, hook=hook))

    async def _ask(self, jobs: list[str], some: list[Pending]) -> None:
        found, bad = await self._shared.attempts(jobs)
        known = await self._shared.known([key_of(one) for one in found])
        for pending in some:
            pending.asked += 1
            if pending.job in bad and pending.hook is None:
                self._shared.spool.fail(pending.claim, f"refused-{bad[pending.job]}")
                self.pending.remove(pending)
            elif pending.job in bad:
                self._shared.news.trouble(f"job {pending.job}", bad[pending.job])
                self._unsettled(pending, "unusable-accounting-row")
            elif pending.hook is not None:
                self._settle_end(pending, pending.hook, found, known)
            else:
                self._settle_request(pending, found, known)

    def _settle_end(self, pending: Pending, hook: HookEnd, found: Iterable[Accounted], known: frozenset[str]) -> None:
        shared, own = self._shared, [one for one in found if one.raw_id == hook.raw_id]
        one = match(hook, own).found
        if one is None:
            self._unmatched(pending, own, known)
        elif key_of(one) in known:
            shared.drop(pending.claim)
            self.pending.remove(pending)
        elif not one.terminal:
            self._unsettled(pending, "never-ended-in-the-accounting")
        else:
            shared.works.admit(one, shared.clock(), pending.claim, hook)
            self.pending.remove(pending)

    def _unmatched(self, pending: Pending, own: list[Accounted], known: frozenset[str]) -> None:
        """None or two attempts fit. Polling takes up every end: when all that there are have a verdict, nothing is lost."""
        old = self._shared.clock() - pending.claim.record.time > COVERED_AFTER
        if old and own and all(key_of(one) in known for one in own):
            self._shared.drop(pending.claim)
            self.pending.remove(pending)
        else:
            self._unsettled(pending, "no-attempt-fits" if own else "not-in-the-accounting")

    def _unsettled(self, pending: Pending, why: str) -> None:
        now = self._shared.clock()
        if now - pending.claim.record.time > GIVEN_UP_AFTER:
            self._shared.spool.fail(pending.claim, why)
            self.pending.remove(pending)
            self._shared.news.trouble(f"job {pending.job}", f"its record went to failed/: {why}")
        else:
            pending.later(now)

    # ---- requests ----------------------------------------------------------------------------------------------

    def _settle_request(self, pending: Pending, found: Iterable[Accounted], known: frozenset[str]) -> None:
        shared = self._shared
        own = [one for one in found if _is_asked_for(one, pending.job)]
        ended = [one for one in own if one.terminal]
        if not ended:
            shared.spool.fail(pending.claim, "has-not-ended" if own else "no-such-job")
            self.pending.remove(pending)
            return
        for one in ended:
            if key_of(one) not in known:
                shared.works.admit(one, shared.clock())
        pending.keys = frozenset(key_of(one) for one in ended)

    async def _finish_requests(self) -> None:
        """A request is done when all its attempts are in the archive."""
        open_ = [one for one in self.pending if one.keys]
        asked = [one for one in open_ if not any(self._shared.works.get(key) for key in one.keys)]
        for pending in asked:
            if pending.keys <= await self._shared.known(sorted(pending.keys)):
                self._shared.drop(pending.claim)
                self.pending.remove(pending)
            else:
                pending.keys = frozenset()


def _is_asked_for(one: Accounted, job: str) -> bool:
    attempt = one.attempt
    return job in {one.job, one.raw_id, attempt.array_job_id, attempt.het_job_id}
