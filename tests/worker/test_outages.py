"""Slurm is silent, the archive is locked, the disk is full: the worker waits, says so, and loses nothing."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
import time

import pytest
from controller import wait_until
from slurm_in_memory import remembers

from attribution.errors import SlurmError
from attribution.worker.loop import Worker
from attribution.worker.notify import Notify
from attribution.worker.state import Owed, State
from attribution.worker.status import read_status


def running(site, during, seconds=40):
    """A worker, and in between what `during` does with its `shared`; gives that."""

    async def run(worker, shared):
        async with asyncio.timeout(seconds):
            task = asyncio.create_task(worker.run())
            try:
                await asyncio.to_thread(during, shared)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    with site.opened() as shared:
        asyncio.run(run(Worker(shared), shared))
        return shared


def test_a_silent_slurm_is_waited_out(site):
    site.hook(site.slurm.end(7))
    site.slurm.down = True

    def during(shared):
        wait_until(lambda: site.left() == ["claimed/end-1.env.0"])
        time.sleep(2)
        asked = len(site.slurm.asked)
        assert asked < 30
        site.slurm.down = False
        wait_until(lambda: "test/1007" in site.archived())
        wait_until(lambda: site.slurm.wrote)

    shared = running(site, during)
    assert any("Connection refused" in one.what for one in shared.news.troubles)
    assert site.left() == []


def test_once_gives_up_where_slurm_does_not_answer(site):
    site.slurm.down = True
    with pytest.raises(SlurmError, match="Connection refused"):
        site.once()


def test_a_locked_archive_is_waited_out(site):
    site.once()
    site.hook(site.slurm.end(7))

    def during(shared):
        other = sqlite3.connect(site.archive_file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        wait_until(lambda: site.left() == ["claimed/end-1.env.1"])
        wait_until(lambda: any("is locked by another process" in one.what for one in shared.news.troubles), 60)
        assert site.left() == ["claimed/end-1.env.1"]
        other.execute("ROLLBACK")
        wait_until(lambda: "test/1007" in site.archived(), 60)

    running(site, during, 120)


def test_a_record_that_a_person_takes_away_in_the_middle(site):
    site.slurm.completing_ids = frozenset({"7"})
    site.hook(site.slurm.end(7, ago=1))

    def during(shared):
        wait_until(lambda: site.left() == ["claimed/end-1.env.0"])
        (site.spool / "claimed" / "end-1.env.0").unlink()
        site.slurm.completing_ids = frozenset()
        wait_until(lambda: "test/1007" in site.archived())

    running(site, during)


def test_a_task_that_will_not_die_is_not_waited_for_for_ever(site):
    """KillWait, UnkillableStepTimeout and a minute after its end it is judged, and the verdict says so."""
    site.slurm.completing_ids = frozenset({"7"})
    site.slurm.end(7, ago=60)
    site.once()
    (stored,) = site.archived("7")
    assert any("COMPLETING" in one.reason and one.state == "timed_out" for one in stored.verdict.coverage)


def test_why_it_failed_is_asked_again_while_slurmctld_does_not_say(site):
    one = site.slurm.end(7, ago=1)
    site.slurm.memory["7"] = remembers(one, None)

    def during(shared):
        wait_until(lambda: sum(asked[0] == "in_memory" for asked in site.slurm.asked) >= 2)
        site.slurm.memory["7"] = remembers(one, "NonZeroExitCode")
        wait_until(lambda: "test/1007" in site.archived())

    running(site, during)
    assert site.archived("7")[0].verdict.attempt.reason == "NonZeroExitCode"


def test_why_it_failed_is_not_known_any_more(site):
    site.slurm.end(7)
    site.once()
    (stored,) = site.archived("7")
    assert any(one.state == "unreachable" and "no longer knew" in one.reason for one in stored.verdict.coverage)


def test_a_comment_in_slurmctlds_memory_is_waited_for(site):
    site.slurm.end(7)
    site.slurm.own_comments.add("7")
    shared = site.once()
    assert site.slurm.wrote == []
    assert shared.news.comments == 0
    state = State(site.state / "state.db")
    (owed,) = state.due(2e10, 10)
    assert "slurmctld has a comment of its own" in owed.why
    state.owe([owed])
    site.slurm.own_comments.clear()
    site.once()
    assert len(site.slurm.wrote) == 1


def test_a_line_without_a_verdict_is_dropped(site):
    """A crash between remembering and committing."""
    site.slurm.end(7, "COMPLETED", "0:0")
    with site.opened() as shared:
        shared.state.owe([Owed(attempt="test/1", job="1", raw_id="1", dbindex="1", line="sattrib:1 x", failed=True, since=1.0)])
    site.once()
    assert State(site.state / "state.db").behind() == (0, None)
    assert site.slurm.wrote == []


def test_failed_ones_come_first(tmp_path):
    state = State(tmp_path / "s.db")
    one = Owed(attempt="a", job="1", raw_id="1", dbindex="1", line="x", failed=False, since=1.0)
    state.owe(
        [one, Owed(**{f: getattr(one, f) for f in one.__struct_fields__} | {"attempt": "b", "failed": True, "since": 2.0})]
    )
    assert [owed.attempt for owed in state.due(9, 9)] == ["b", "a"]
    state.later(one, 100.0, "not yet")
    assert [owed.attempt for owed in state.due(9, 9)] == ["b"]
    assert [owed.tries for owed in state.due(100, 9)] == [0, 1]


def test_systemd_is_told(tmp_path, monkeypatch):
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "3000000")
        notify = Notify()
        assert notify.watchdog == 3.0
        notify.ready()
        notify.status("a\nb")
        assert [listener.recv(100) for _ in range(2)] == [b"READY=1", b"STATUS=a b"]
    notify.alive()


def test_a_worker_tells_systemd_while_it_lives(site, tmp_path, monkeypatch):
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "600000")
        heard = []

        def during(shared):
            while heard.count(b"WATCHDOG=1") < 5:
                heard.append(listener.recv(1000))

        running(site, during)
        heard.append(listener.recv(1000))
    assert b"READY=1" in heard
    assert any(text.startswith(b"STATUS=0 in hand") for text in heard)


def test_the_hook_is_stopped_on_a_full_disk_and_the_status_says_so(make_site, monkeypatch):
    site = make_site("")
    site.config = type(site.config)(**{
        **{f: getattr(site.config, f) for f in site.config.__struct_fields__},
        "spool": type(site.config.spool)(dir=str(site.spool), stop_percent=90, resume_percent=80),
    })  # fmt: skip
    monkeypatch.setattr("attribution.worker.upkeep.measure", lambda _path: 95)
    site.once()
    assert (site.spool / "stop").exists()
    assert read_status(site.state).hook_stopped
    monkeypatch.setattr("attribution.worker.upkeep.measure", lambda _path: 50)
    site.once()
    assert not (site.spool / "stop").exists()
    assert threading.active_count() < 50
