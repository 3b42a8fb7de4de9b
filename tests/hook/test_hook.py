"""The EpilogSlurmctld hook by itself: hostile text, caps, broken spools, many at a time."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / "slurm" / "epilog.d" / "sattrib"
MARKER = b"SATTRIB_END=1\0"
CAP = 64 * 1024
SHELLS = [shell for shell in ("/bin/dash", "/bin/bash", "/bin/busybox") if os.path.exists(shell)]
ANY_BYTE = bytes(range(1, 256))
CONTEXT = {b"SLURM_SCRIPT_CONTEXT": b"epilog_slurmctld", b"SLURM_JOB_ID": b"4711"}

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs needs root")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir(mode=0o2770)
    return path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A spool on a file system of its own with room for 8 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(path)], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def run_hook(
    spool: Path, extra: dict[bytes, bytes] | None = None, shell: str = "/bin/sh"
) -> subprocess.CompletedProcess[bytes]:
    """As slurmctld does it: only these variables, no PATH; bash is called sh, so it is POSIX."""
    argv = ["sh", str(HOOK), str(spool)]
    if shell.endswith("busybox"):
        argv = ["busybox", *argv]
    return subprocess.run(
        argv,
        executable=shell,
        env={**CONTEXT, **(extra or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )


def names(spool: Path) -> list[str]:
    return sorted(os.listdir(spool))


def the_record(spool: Path) -> Path:
    (name,) = names(spool)
    assert name.endswith(".env")
    assert "4711" not in name
    return spool / name


def variables(record: bytes) -> dict[bytes, bytes]:
    """The complete variables of a record, whole or cut."""
    pieces = record.split(b"\0")[:-1]
    return dict(piece.split(b"=", 1) for piece in pieces if b"=" in piece)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_byte_survives(spool: Path, shell: str) -> None:
    hostile = {
        b"SLURM_JOB_NAME": ANY_BYTE,
        b"SLURM_JOB_COMMENT": b"a|b $(id) `id` \"q\" 'q' \\ ; & \n\nSATTRIB_END=1\n",
        b"SLURM_JOB_WORK_DIR": "/shared/älice/ \n -rf *".encode(),
        b"SPANK_X": b"",
    }
    assert run_hook(spool, hostile, shell).returncode == 0
    record = the_record(spool).read_bytes()
    assert record.endswith(b"\0" + MARKER)
    found = variables(record)
    assert {key: found[key] for key in hostile} == hostile
    assert {key: found[key] for key in CONTEXT} == CONTEXT
    assert found.keys() - hostile.keys() - CONTEXT.keys() <= {
        b"PWD", b"SHLVL", b"_", b"OLDPWD", b"SATTRIB_END",
    }  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_evaluated(spool: Path, tmp_path: Path, shell: str) -> None:
    trap = tmp_path / "evaluated"
    texts = [f"$(touch {trap})", f"`touch {trap}`", f"x\ntouch {trap}\n", f"'; touch {trap}; '"]
    for text in texts:
        keys = (b"SLURM_JOB_NAME", b"SLURM_JOB_COMMENT", b"SPANK_ENV", b"SLURM_JOB_ID")
        assert run_hook(spool, dict.fromkeys(keys, text.encode()), shell).returncode == 0
        # The path that reports a broken spool handles the same text.
        broken = run_hook(tmp_path / "absent", dict.fromkeys(keys, text.encode()), shell)
        assert broken.returncode == 0
    assert not trap.exists()
    assert len(names(spool)) == len(texts)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_record_is_cut_at_the_cap(spool: Path, shell: str) -> None:
    big = {b"SPANK_%d" % number: b"x" * 30_000 for number in range(4)}
    assert run_hook(spool, big, shell).returncode == 0
    record = the_record(spool).read_bytes()
    assert len(record) == CAP
    assert not record.endswith(MARKER)
    complete = variables(record)
    assert 1 <= sum(complete.get(key) == value for key, value in big.items()) < len(big)


def test_a_record_that_just_fits_has_its_marker(spool: Path) -> None:
    run_hook(spool, {b"SPANK_FILL": b""})
    empty = the_record(spool)
    room = CAP - empty.stat().st_size
    empty.unlink()
    run_hook(spool, {b"SPANK_FILL": b"x" * room})
    full = the_record(spool)
    assert full.stat().st_size == CAP
    assert full.read_bytes().endswith(MARKER)
    full.unlink()
    run_hook(spool, {b"SPANK_FILL": b"x" * (room + 1)})
    assert not the_record(spool).read_bytes().endswith(MARKER)


def test_mode_and_group_of_a_record(spool: Path) -> None:
    if os.geteuid() == 0:
        os.chown(spool, -1, 4242)
        spool.chmod(0o2770)
    run_hook(spool)
    found = the_record(spool).stat()
    assert stat.S_IMODE(found.st_mode) == 0o640
    assert found.st_gid == spool.stat().st_gid


def test_another_context_writes_nothing(spool: Path) -> None:
    for context in (b"epilog_slurmd", b"prolog_slurmctld", b""):
        assert run_hook(spool, {b"SLURM_SCRIPT_CONTEXT": context}).returncode == 0
    assert names(spool) == []


def test_without_any_environment(spool: Path) -> None:
    done = subprocess.run(["/bin/sh", str(HOOK), str(spool)], env={}, timeout=20, check=False)
    assert done.returncode == 0
    assert names(spool) == []


def test_a_stop_file_stops_it(spool: Path) -> None:
    (spool / "stop").touch()
    assert run_hook(spool).returncode == 0
    assert names(spool) == ["stop"]
    (spool / "stop").unlink()
    run_hook(spool)
    assert len(names(spool)) == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_a_missing_spool(tmp_path: Path, shell: str) -> None:
    assert run_hook(tmp_path / "absent", shell=shell).returncode == 0
    assert names(tmp_path) == []


def test_a_spool_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    assert run_hook(tmp_path / "file").returncode == 0
    assert (tmp_path / "file").read_text() == "kept"


@needs_root
@pytest.mark.parametrize("shell", SHELLS)
def test_a_read_only_spool(small_disk: Path, shell: str) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert run_hook(small_disk, shell=shell).returncode == 0
    assert names(small_disk) == []


@needs_root
@pytest.mark.parametrize("shell", SHELLS)
def test_a_full_spool_keeps_no_leftovers(small_disk: Path, shell: str) -> None:
    fill(small_disk / "fill", 8192)
    assert run_hook(small_disk, shell=shell).returncode == 0
    assert names(small_disk) == ["fill"]


@needs_root
@pytest.mark.parametrize("shell", SHELLS)
def test_a_disk_that_fills_up_in_the_middle_cuts_the_record(small_disk: Path, shell: str) -> None:
    fill(small_disk / "fill", 4096)
    assert run_hook(small_disk, {b"SPANK_BIG": b"x" * 10_000}, shell).returncode == 0
    (small_disk / "fill").unlink()
    record = the_record(small_disk).read_bytes()
    assert 0 < len(record) <= 4096
    assert MARKER not in record


def fill(path: Path, size: int) -> None:
    path.write_bytes(b"f" * size)


def test_links_in_the_spool_are_not_followed(spool: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for name in (".tmp", ".tmp.", ".env", "tmp", "record.env"):
        (spool / name).symlink_to(victim)
    before = names(spool)
    assert run_hook(spool).returncode == 0
    assert victim.read_text() == "kept"
    assert len(names(spool)) == len(before) + 1


def test_the_same_job_twice_gives_two_records(spool: Path) -> None:
    run_hook(spool)
    run_hook(spool)
    assert len(names(spool)) == 2


def test_output_nobody_reads(spool: Path, tmp_path: Path) -> None:
    """A closed pipe on stdout and stderr, with a message to write, is no reason to fail."""
    reader, writer = os.pipe()
    os.close(reader)
    for target in (spool, tmp_path / "absent"):
        done = subprocess.run(["/bin/sh", str(HOOK), str(target)], env=CONTEXT, stdout=writer, stderr=writer, check=False)
        assert done.returncode == 0
    os.close(writer)
    assert len(names(spool)) == 1


def in_own_mounts(commands: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs shell text where a mount changes nothing outside."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare")
    return subprocess.run(
        [unshare, "-m", "/bin/sh", "-ec", commands, "sh", *arguments],
        env={**CONTEXT, b"PATH": os.environb[b"PATH"]},
        timeout=30,
        capture_output=True,
        check=False,
    )


@needs_root
@pytest.mark.parametrize("syslog", ["reading", "hanging"])
def test_syslog_gets_one_line_and_cannot_hang_it(tmp_path: Path, syslog: str) -> None:
    """A private /dev with a log socket that is read, or whose queue is full."""
    dev = tmp_path / "dev"
    dev.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(dev / "log"))
        if syslog == "hanging":
            fill_queue(str(dev / "log"))
        started = time.monotonic()
        done = in_own_mounts(
            'touch "$1/null"; mount --bind /dev/null "$1/null"; mount --bind "$1" /dev;'
            'exec /bin/sh "$2" "$3"',
            str(dev), str(HOOK), str(tmp_path / "absent"),
        )  # fmt: skip
        took = time.monotonic() - started
        assert done.returncode == 0, done.stderr
        assert took < 10
        if syslog == "reading":
            line = log.recv(4096)
            assert re.match(rb"<27>.*sattrib-hook.*: job 4711: not recorded, .*absent", line)
            log.setblocking(False)
            with pytest.raises(BlockingIOError):
                log.recv(4096)
        else:
            assert took >= 1, "the queue was not full: nothing was tested"


def fill_queue(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.connect(path)
        try:
            while True:
                sender.send(b"x")
        except BlockingIOError:
            return


def test_2000_ends_64_at_a_time_give_2000_records(spool: Path) -> None:
    def end(number: int) -> int:
        return run_hook(spool, {b"SLURM_JOB_NAME": b"job %d" % number}).returncode

    with ThreadPoolExecutor(64) as pool:
        assert set(pool.map(end, range(2000))) == {0}
    records = names(spool)
    assert len(records) == 2000
    seen = {variables((spool / name).read_bytes())[b"SLURM_JOB_NAME"] for name in records}
    assert len(seen) == 2000


def processes(trace: Path) -> int:
    """How many processes a trace of `strace -f` saw: every line begins with its pid."""
    return len({line.split()[0] for line in trace.read_text(errors="replace").splitlines()})


@pytest.mark.parametrize("case", ["kept", "missing", "full"])
def test_at_most_three_processes(spool: Path, tmp_path: Path, case: str, request: pytest.FixtureRequest) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: the processes of the hook were not counted")
    target = spool
    if case == "missing":
        target = tmp_path / "absent"
    elif case == "full":
        if os.geteuid() != 0:
            pytest.skip("mounting a tmpfs needs root")
        target = request.getfixturevalue("small_disk")
        fill(target / "fill", 8192)
    trace = tmp_path / "trace"
    subprocess.run(
        [strace, "-f", "-o", str(trace), "-e", "trace=%process", "/bin/sh", str(HOOK), str(target)],
        env=CONTEXT,
        check=True,
        capture_output=True,
    )
    assert 1 < processes(trace) <= 3
