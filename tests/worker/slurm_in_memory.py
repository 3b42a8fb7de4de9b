"""A Slurm in memory, behind the backend's door: rows, what slurmctld remembers, comments; it can be made silent."""

from __future__ import annotations

import time

import msgspec

from attribution.bundle import Attempt, Step
from attribution.errors import SlurmError
from attribution.slurm.times import iso
from attribution.slurm.values import Accounted, Cluster, CommentRow, End, InMemory


class Slurm:
    def __init__(self):
        self.rows = {}
        self.memory = {}
        self.completing_ids = frozenset()
        self.comment_rows = {}
        self.own_comments = set()
        self.wrote = []
        self.down = False
        self.asked = []
        self.swallow = 0
        self.broken_jobs = set()

    def end(
        self, number, state="FAILED", exit_code="1:0", *, ago=60, dbindex=None, job=None, nodes=("node-01",), lasted=60, **more
    ):
        """An attempt that ended `ago` seconds before now."""
        at = int(time.time()) - ago
        raw_id, dbindex = str(number), str(dbindex or number + 1000)
        start = at - lasted if nodes else None
        steps = (Step(step_id="batch", state=state, exit_code=exit_code, nodes=nodes[:1]),) if nodes else ()
        attempt = Attempt(
            cluster="test",
            job_id=raw_id,
            state=state,
            exit_code=exit_code,
            nodes=nodes,
            start=iso(start),
            end=iso(at),
            submit=iso(at - lasted),
            dbindex=dbindex,
            user="alice",
            uid=2001,
            steps=steps,
            **more,
        )
        one = Accounted(
            attempt=attempt,
            job=job or raw_id,
            raw_id=raw_id,
            start=start,
            end=at,
            starts=(start,) if start else (),
            texts="read",
            work_dir="/shared/alice",
        )
        self.rows[dbindex] = one
        self.comment_rows[dbindex] = CommentRow(
            raw_id=raw_id, dbindex=dbindex, sluid="", state=state, admin="", system="", newest=True
        )
        return one

    def set_comment(self, dbindex, **fields):
        self.comment_rows[dbindex] = msgspec.structs.replace(self.comment_rows[dbindex], **fields)

    def _ask(self, *words):
        self.asked.append(words)
        if self.down:
            raise SlurmError("Connection refused")

    async def cluster(self):
        self._ask("cluster")
        return Cluster(name="test", version=(24, 11), kill_wait=1, unkillable_timeout=1)

    async def ends(self, since, until):
        self._ask("ends", since, until)
        return tuple(
            End(
                cluster="test",
                job=o.job,
                raw_id=o.raw_id,
                dbindex=o.attempt.dbindex,
                state=o.attempt.state,
                end=o.end,
                start=o.start,
            )
            for o in self.rows.values()
            if o.terminal and since <= o.end <= until
        )

    async def attempts(self, jobs):
        self._ask("attempts", *jobs)
        wanted = set(jobs)
        if self.broken_jobs & wanted:
            raise SlurmError("a node list that can't be read")
        return tuple(o for o in self.rows.values() if {o.job, o.raw_id, o.attempt.array_job_id, o.attempt.het_job_id} & wanted)

    async def in_memory(self, raw_ids):
        self._ask("in_memory", *raw_ids)
        return {raw: self.memory[raw] for raw in raw_ids if raw in self.memory}

    async def completing(self):
        self._ask("completing")
        return self.completing_ids

    async def nodes(self, names):
        self._ask("nodes")
        return ()

    async def neighbours(self, accounted, since, until):
        self._ask("neighbours")
        return ()

    async def comments(self, jobs):
        self._ask("comments", *jobs)
        raw = {o.raw_id for o in self.rows.values() if o.job in set(jobs)}
        return {key: row for key, row in self.comment_rows.items() if row.raw_id in raw}

    async def has_comment(self, raw_id):
        self._ask("has_comment", raw_id)
        return raw_id in self.own_comments

    async def write_comment(self, decision, line):
        self._ask("write", decision.selector)
        self.wrote.append((decision.selector, decision.field, line))
        if self.swallow:
            self.swallow -= 1
            return
        (row,) = [o for o in self.rows.values() if o.job == decision.selector and self.comment_rows[o.attempt.dbindex].newest]
        self.set_comment(row.attempt.dbindex, **{"admin" if decision.field == "AdminComment" else "system": line})


def remembers(one, reason):
    return InMemory(
        raw_id=one.raw_id, state=one.state, reason=reason, exit_code=one.attempt.exit_code, start=one.start, end=one.end
    )
