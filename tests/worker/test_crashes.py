"""Nothing is lost and nothing comes twice, whatever dies and whenever."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from controller import wait_until

from attribution.worker.lock import AlreadyRunningError
from attribution.worker.pool import Pool
from attribution.worker.status import read_status

HERE = Path(__file__).parent


@pytest.fixture
def dying(monkeypatch):
    program = (sys.executable, "-P", str(HERE / "child_that_dies.py"))
    monkeypatch.setattr("attribution.worker.loop.Pool", lambda *a, **k: Pool(*a, **k, program=program))


@pytest.mark.parametrize("by", ["hook", "polling"])
def test_after_three_crashes_the_verdict_names_them(site, dying, by):
    bad, good = site.slurm.end(1, account="segv"), site.slurm.end(2)
    if by == "hook":
        site.hook(bad)
        site.hook(good)
    shared = site.once()
    (stored,) = site.archived("1")
    assert (stored.verdict.verdict, stored.verdict.domain) == ("insufficient", "unknown")
    assert stored.verdict.missing == ("the analysis died 3 times, the last time by SIGSEGV in read app",)
    assert site.archived()["test/1002"]
    assert site.left() == (["failed/end-1.env.sigsegv-in-read-app"] if by == "hook" else [])
    assert sum("SIGSEGV" in one.what for one in shared.news.troubles) == 1
    assert site.slurm.comment_rows["1001"].admin == "sattrib:1 unknown_failure unknown/no_evidence insufficient - low"


def test_one_crash_is_only_a_try(site, dying):
    site.hook(site.slurm.end(1, account="once"))
    site.once()
    (stored,) = site.archived("1")
    assert "died" not in str(stored.verdict.missing)
    assert site.left() == []


def test_a_worker_that_died_three_times_over_a_record_gives_it_up(site):
    one = site.slurm.end(1)
    site.hook(one)
    with site.opened() as shared:
        claim = shared.spool.claim("end-1.env")
        for _ in range(3):
            claim = shared.spool.begin(claim)
    site.once()
    assert site.archived("1")[0].verdict.missing == ("the worker died 3 times while it worked on it",)
    assert site.left() == ["failed/end-1.env.worker-died"]


def test_there_is_one_worker_for_an_archive(site):
    with site.opened(), pytest.raises(AlreadyRunningError, match="another worker is running"), site.opened():
        pass


RUNNER = """
import pathlib, pickle, sys
sys.path[:0] = [{here!r}]
from controller import Site
from attribution.worker.loop import serve
site = Site.__new__(Site)
site.__dict__.update(pickle.loads(pathlib.Path({state!r}).read_bytes()))
serve(site.config, backend=site.slurm)
"""


def start(site):
    import pickle

    state = site.root / "site.pickle"
    if not state.exists():
        state.write_bytes(pickle.dumps({"config": site.config, "slurm": site.slurm}))
    code = RUNNER.format(here=str(HERE), state=str(state))
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def test_killed_again_and_again_it_loses_nothing_and_judges_nothing_twice(site):
    """With kill -9 at moments that nobody chose; the archive's versions would show a second verdict."""
    ends = [
        site.slurm.end(number, "FAILED" if number % 3 else "COMPLETED", "1:0" if number % 3 else "0:0") for number in range(60)
    ]
    for one in ends[:40]:
        site.hook(one)
    chance = random.Random(4)
    kills = 0
    while kills < 6:
        worker = start(site)
        time.sleep(0.6 + 2.5 * chance.random())
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        kills += 1
    worker = start(site)
    wait_until(lambda: len(site.archived()) == 60, 60)
    wait_until(lambda: not [name for name in site.left() if not name.startswith("failed/")], 20)
    wait_until(lambda: read_status(site.state).pid == worker.pid)
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=30)
    # On a busy machine asyncio may add that a command which was killed at the end was reaped after the loop closed.
    assert worker.returncode == 0
    assert "stopped" in said.splitlines()
    assert {row.version for row in site.archived().values()} == {1}
    # A record whose work the worker died over three times is given up, and then its verdict says so.
    given_up = [name for name in site.left() if name.startswith("failed/")]
    assert all(name.endswith(".env.worker-died") for name in given_up)
    said_so = [key for key in site.archived() if "worker died" in str(verdict_of(site, key).missing)]
    assert len(said_so) == len(given_up) <= 2


def verdict_of(site, key):
    return site.archived(key)[0].verdict


def test_sigterm_gives_tries_back(site):
    """Stopped in the middle, the attempt has all its tries, and its record is where the next worker looks."""
    site.slurm.completing_ids = frozenset({"1"})
    site.hook(site.slurm.end(1, ago=0))
    worker = start(site)
    wait_until(lambda: site.left() == ["claimed/end-1.env.0"])
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert site.left() == ["claimed/end-1.env.0"]
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_child_of(site, pid)]


def _is_child_of(site, pid):
    try:
        return b"attribution.worker.child" in Path(f"/proc/{pid}/cmdline").read_bytes() and os.getppid() == int(pid)
    except OSError:
        return False
