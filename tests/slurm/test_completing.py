from __future__ import annotations

import asyncio

from attribution.errors import SlurmError
from attribution.slurm.completing import Completing


class Slurmctld:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def completing(self):
        self.asked += 1
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return frozenset(answer)


def looks(slurmctld, *asked):
    async def main():
        completing = Completing(slurmctld)
        return [await completing.look(job, now) for job, now in asked]

    return asyncio.run(main())


def test_one_question_for_all_and_two_seconds():
    slurmctld = Slurmctld({"1"}, {"1"}, set())
    assert looks(slurmctld, ("1", 10.0), ("2", 11.9), ("1", 12.0), ("2", 12.0), ("1", 14.5)) == [
        (True, None), (False, 10.0), (True, None), (False, 10.0), (False, 14.5),
    ]  # fmt: skip
    assert slurmctld.asked == 3


def test_many_at_once_ask_once():
    slurmctld = Slurmctld({"1"})

    async def main():
        completing = Completing(slurmctld)
        return await asyncio.gather(*(completing.look(str(n), 10.0) for n in range(100)))

    assert asyncio.run(main())[:2] == [(False, 10.0), (True, None)]
    assert slurmctld.asked == 1


def test_silence_is_not_quiet():
    assert looks(Slurmctld(SlurmError("down"), {"1"}), ("1", 10.0), ("1", 13.0)) == [(None, None), (True, None)]


def test_a_clock_that_was_set_back_asks_again():
    assert looks(Slurmctld(set(), {"1"}), ("1", 10.0), ("1", 5.0)) == [(False, 10.0), (True, None)]
