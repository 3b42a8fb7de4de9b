"""Children with real limits, that die in every way there is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from attribution import pipeline
from attribution.bundle import Attempt
from attribution.config.sections import Worker as Settings
from attribution.worker.pool import ChildDiedError, Pool, RulesBrokenError

PROGRAM = (sys.executable, "-P", str(Path(__file__).with_name("child_that_dies.py")))
LIMITS = Settings(slots=2, cpu_seconds=1, wall_seconds=4, memory_mb=1024)


def bundle(tmp_path, deed="", number=1):
    folder = tmp_path / "work" / f"{deed}-{number}"
    folder.mkdir(parents=True)
    attempt = Attempt(
        cluster="c",
        job_id=str(number),
        state="FAILED",
        exit_code="1:0",
        nodes=("n1",),
        account=deed or None,
        dbindex=str(number),
    )
    pipeline.write_bundle(folder, pipeline.live_bundle(attempt, ()))
    return folder


def run(work, settings=LIMITS, rule_dirs=(), program=PROGRAM):
    async def inside():
        pool = Pool(settings, rule_dirs, program=program)
        try:
            return await work(pool)
        finally:
            await pool.close()

    return asyncio.run(inside())


@pytest.mark.parametrize(
    ("deed", "cause"),
    [
        ("segv", "SIGSEGV"),
        ("kill", "SIGKILL"),
        ("exit", "exit-9"),
        ("hang", "wall-clock-limit"),
        ("spin", "SIGXCPU"),
        ("eat", "MemoryError"),
        ("raise", "KeyError"),
        ("babble", "nonsense"),
    ],
)
def test_a_child_that_dies_fails_only_its_own_attempt(tmp_path, deed, cause):
    async def work(pool):
        bad = pool.judge(bundle(tmp_path, deed))
        good = [pool.judge(bundle(tmp_path, number=number)) for number in range(2, 8)]
        return await asyncio.gather(bad, *good, return_exceptions=True)

    died, *answers = run(work)
    assert isinstance(died, ChildDiedError)
    assert (died.signal, died.step) == (cause, "read app")
    assert [answer.analyzed.verdict.attempt.job_id for answer in answers] == [str(number) for number in range(2, 8)]
    assert answers[0].line.startswith("sattrib:1 ")


def test_the_limit_of_cpu_time_is_each_attempts_own(tmp_path):
    """Half a second each: together far more than one attempt may take."""

    async def work(pool):
        for number in range(12):
            await pool.judge(bundle(tmp_path, "busy", number))
        return pool._slots[0]._served

    assert run(work, Settings(slots=1, cpu_seconds=3, memory_mb=1024)) == 12


def test_a_child_is_replaced_after_its_share(tmp_path):
    pids = []

    async def work(pool):
        for number in range(5):
            await pool.judge(bundle(tmp_path, number=number))
            pids.append(pool._slots[0]._process.pid)

    run(work, Settings(slots=1, replace_after=2))
    assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4]


def test_rules_that_do_not_load_are_no_attempts_fault(tmp_path):
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "a.toml").write_text("schema = 1\n[[extractor]]\nname = 3\n")

    async def work(pool):
        await pool.judge(bundle(tmp_path))

    with pytest.raises(RulesBrokenError, match=r"a\.toml"):
        run(work, rule_dirs=(rules,))


def test_a_cancelled_attempt_leaves_no_child_behind(tmp_path):
    async def work(pool):
        task = asyncio.create_task(pool.judge(bundle(tmp_path, "hang")))
        await asyncio.sleep(3)
        pid = pool._slots[-1]._process.pid
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return pid

    pid = run(work)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIG_DFL)
