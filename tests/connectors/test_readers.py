"""Reader processes that hang, die, or are outdated; real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from attribution.connectors import places as places_module
from attribution.connectors import readers as readers_module
from attribution.connectors.order import Order
from attribution.connectors.places import Places, mount_of, mount_of_fd
from attribution.connectors.readers import Readers
from attribution.connectors.rotated import NotReadError


@pytest.fixture
def log(tmp_path, xid):
    path = tmp_path / "kern.log"
    path.write_text(xid(-60))
    return path


@pytest.fixture
def ask(log, tmp_path, now):
    """Asks a pool to read the log once more."""

    def make(pool, place="/", seconds=30.0, also=()):
        out = tmp_path / f"out-{time.monotonic_ns()}"
        order = Order(kind="kern", out=str(out), limit=1 << 20, path=str(log), start=now - 4500, end=now + 300)
        return pool.read(order, place, also, time.monotonic() + seconds)

    return make


def with_pool(rule_dir, test, limit=4, memory=1024):
    async def run():
        pool = Readers((str(rule_dir),), limit, memory)
        try:
            return await asyncio.wait_for(test(pool), 60)
        finally:
            await pool.close()

    return asyncio.run(run())


def stop(pool):
    """The one idle reader, stopped like a process that sleeps in a dead file system."""
    (reader,) = pool._idle
    os.kill(reader.process.pid, signal.SIGSTOP)
    return reader


def test_a_reader_is_kept_for_the_next_order(rule_dir, ask):
    async def test(pool):
        answers = [await ask(pool) for _ in range(3)]
        assert [a.state for a in answers] == ["read"] * 3
        (reader,) = pool._idle
        assert reader.served == 3

    with_pool(rule_dir, test)


def test_many_at_once_share_a_few_processes(rule_dir, ask):
    async def test(pool):
        answers = await asyncio.gather(*(ask(pool, place=f"/{n % 3}") for n in range(40)))
        assert {a.state for a in answers} == {"read"}
        assert len(pool._idle) <= readers_module.IDLE

    with_pool(rule_dir, test, limit=2)


def test_one_that_hangs_is_left_behind_and_its_file_system_is_unreachable_until_it_answers(rule_dir, ask, monkeypatch):
    monkeypatch.setattr(readers_module, "FAIR", 0.2)
    monkeypatch.setattr(places_module, "RETRY", 1.0)

    async def test(pool):
        await ask(pool)
        stop(pool)
        assert (await ask(pool, "/dead", seconds=1.0)).state == "timed_out"
        began = time.monotonic()
        answer = await ask(pool, "/dead")
        assert (answer.state, answer.reason) == ("unreachable", "/dead does not answer")
        assert time.monotonic() - began < 0.5
        assert (await ask(pool, "/alive")).state == "read"
        await asyncio.sleep(1.0)
        # One may try, and it answers: the file system is back for all.
        assert (await ask(pool, "/dead")).state == "read"
        assert (await ask(pool, "/dead")).state == "read"

    with_pool(rule_dir, test)


def test_one_that_can_not_be_killed_keeps_its_place_and_the_others_go_on(rule_dir, ask, monkeypatch):
    monkeypatch.setattr(readers_module, "_kill", lambda reader: None)

    async def test(pool):
        await ask(pool)
        reader = stop(pool)
        assert (await ask(pool, "/dead", seconds=0.5)).state == "timed_out"
        began = time.monotonic()
        answers = await asyncio.gather(ask(pool, "/dead", seconds=0.5), *(ask(pool, "/alive") for _ in range(4)))
        assert answers[0].state == "timed_out"
        assert "are busy" in answers[0].reason
        assert {a.state for a in answers[1:]} == {"read"}
        assert time.monotonic() - began < 15
        os.kill(reader.process.pid, signal.SIGKILL)
        await asyncio.sleep(0.3)
        assert (await ask(pool, "/dead")).state == "read"

    with_pool(rule_dir, test, limit=1)


@pytest.fixture
def freezer():
    """A cgroup in which a process neither runs nor takes SIGKILL: what a dead file system does to a reader."""
    group = Path("/sys/fs/cgroup/freezer") / f"sattrib-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no freezer of cgroup v1 here: a reader that SIGKILL does not end is NOT tested for real")
    yield group
    (group / "freezer.state").write_text("THAWED")
    for _ in range(100):
        try:
            group.rmdir()
            break
        except OSError:
            time.sleep(0.05)


def test_a_reader_that_sigkill_does_not_end_costs_its_file_system_only(rule_dir, ask, freezer, monkeypatch):
    monkeypatch.setattr(readers_module, "FAIR", 0.2)
    monkeypatch.setattr(places_module, "RETRY", 0.5)

    async def test(pool):
        await ask(pool)
        (reader,) = pool._idle
        (freezer / "cgroup.procs").write_text(str(reader.process.pid))
        (freezer / "freezer.state").write_text("FROZEN")
        assert (await ask(pool, "/dead", seconds=1.0)).state == "timed_out"
        assert (await ask(pool, "/dead")).state == "unreachable"
        assert {a.state for a in await asyncio.gather(*(ask(pool, "/alive") for _ in range(4)))} == {"read"}
        await asyncio.sleep(0.6)
        # It still holds the only place there, and whoever tries waits for it.
        assert (await ask(pool, "/dead", seconds=0.5)).state == "timed_out"
        assert reader.process.returncode is None
        (freezer / "freezer.state").write_text("THAWED")
        assert await asyncio.wait_for(reader.process.wait(), 10) == -signal.SIGKILL
        await asyncio.sleep(0.6)
        assert (await ask(pool, "/dead")).state == "read"

    with_pool(rule_dir, test, limit=1)


def test_one_that_dies_is_an_answer_and_the_next_is_new(rule_dir, ask):
    async def test(pool):
        await ask(pool)
        reader = stop(pool)
        task = asyncio.create_task(ask(pool))
        await asyncio.sleep(0.2)
        os.kill(reader.process.pid, signal.SIGKILL)
        answer = await task
        assert answer.state == "unreachable"
        assert "reader process ended" in answer.reason
        assert (await ask(pool)).state == "read"

    with_pool(rule_dir, test)


def test_broken_rules_are_an_answer(tmp_path, ask):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "bad.toml").write_text("schema = 1\n[[extractor]]\nname = 3\n")

    async def test(pool):
        assert (await ask(pool)).state == "unreachable"

    with_pool(tmp_path / "rules", test)


def test_changed_rules_replace_the_readers(rule_dir, ask, tmp_path):
    async def test(pool):
        await ask(pool)
        (first,) = pool._idle
        (tmp_path / "site" / "new.toml").write_text((rule_dir / "gpu.toml").read_text().replace("gpu", "gpz"))
        assert (await ask(pool)).state == "read"
        (second,) = pool._idle
        assert second.process.pid != first.process.pid
        assert await asyncio.wait_for(first.process.wait(), 5) == 0

    (tmp_path / "site").mkdir()
    with_pool(tmp_path / "site", test)


def test_a_cancelled_attempt_leaves_nothing_busy(rule_dir, ask):
    async def test(pool):
        await ask(pool)
        stop(pool)
        task = asyncio.create_task(ask(pool, "/x"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.3)
        assert not +pool.places._busy
        assert (await ask(pool, "/x")).state == "read"

    with_pool(rule_dir, test, limit=1)


def test_the_limit_holds_for_a_file_system_and_for_a_user():
    async def run():
        places = Places(2)
        await places.take("/a", ("uid 1",), 1)
        await places.take("/b", ("uid 1",), 1)
        with pytest.raises(NotReadError, match="uid 1 are busy"):
            await places.take("/c", ("uid 1",), 0.05)
        await places.take("/c", ("uid 2",), 0.05)
        waiting = asyncio.create_task(places.take("/c", ("uid 1",), 5))
        await asyncio.sleep(0.01)
        await places.give_back("/a", ("uid 1",))
        await waiting

    asyncio.run(run())


def test_only_one_at_a_time_tries_a_silent_place(monkeypatch):
    monkeypatch.setattr(places_module, "RETRY", 0.0)

    async def run():
        places = Places(4)
        places.answered("/a", silent=True)
        await places.take("/a", (), 1)
        with pytest.raises(NotReadError, match="does not answer"):
            await places.take("/a", (), 1)
        places.answered("/a", silent=False)
        await places.take("/a", (), 1)
        await places.take("/a", (), 1)

    asyncio.run(run())


def test_mount_points_are_told_without_touching_them(tmp_path):
    assert mount_of("/proc/self/environ") == "/proc"
    assert mount_of("/proc/../proc/x") == "/proc"
    assert mount_of("/procession") == "/"
    with (tmp_path / "x").open("w") as file:
        assert mount_of_fd(file.fileno()) == mount_of(str(tmp_path))
