from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest

from attribution.errors import SattribError, SlurmError
from attribution.proc import arun, find, run

SH = "/bin/sh"


def test_output_and_status():
    done = run([SH, "-c", "printf out; printf 'first\nsecond' >&2; exit 3"], check=False)
    assert (done.stdout, done.returncode, done.complaint, done.cut) == (b"out", 3, "first", False)


def test_the_environment_is_minimal(monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/evil")
    monkeypatch.setenv("LD_PRELOAD", "")
    done = run(["/usr/bin/env"], env={"SLURM_TIME_FORMAT": "%s"})
    assert sorted(done.text.split()) == ["LC_ALL=C", "PATH=/usr/bin:/bin", "SLURM_TIME_FORMAT=%s"]


def test_stdin_is_fed_and_closed():
    big = bytes(range(256)) * 4096
    assert run(["/bin/cat"], stdin=big).stdout == big
    assert run(["/bin/cat"]).stdout == b""


def test_a_reader_that_stops_early_is_no_error():
    assert run(["/usr/bin/head", "-c", "1"], stdin=b"x" * (1 << 20)).stdout == b"x"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([SH, "-c", "echo 'sacct: error: down' >&2; exit 1"], "sacct: error: down"),
        ([SH, "-c", "exit 7"], "exit status 7"),
        (["/no/such/program"], "No such file or directory"),
        (["sacct"], "needs an absolute path"),
        ([], "needs an absolute path"),
        (["/bin/echo", "a\0b"], "null byte"),
    ],
)
def test_errors_name_the_command_and_the_reason(argv, says):
    with pytest.raises(SlurmError, match=says) as caught:
        run(argv, error=SlurmError)
    assert "\n" not in str(caught.value)


def test_a_time_limit_kills_the_whole_group(tmp_path):
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(SattribError, match=r"no answer after 0\.3 s"):
        run([SH, "-c", f"sleep 60 & echo $! > {pid_file}; wait"], timeout=0.3)
    assert time.monotonic() - began < 5
    assert _gone(int(pid_file.read_text()))


def test_a_child_that_holds_the_output_is_killed_too(tmp_path):
    pid_file = tmp_path / "pid"
    with pytest.raises(SattribError, match="no answer"):
        run([SH, "-c", f"sleep 60 & echo $! > {pid_file}; exit 0"], timeout=0.3)
    assert _gone(int(pid_file.read_text()))


def test_too_much_output_is_cut():
    done = run([SH, "-c", "yes"], limit=1000, check=False)
    assert done.cut
    assert len(done.stdout) == 1000
    with pytest.raises(SattribError, match="more than 1000 bytes"):
        run([SH, "-c", "yes"], limit=1000)


def test_exactly_the_limit_is_not_cut():
    assert not run([SH, "-c", "printf 12345"], limit=5).cut


def test_a_cancelled_task_leaves_nothing(tmp_path):
    pid_file = tmp_path / "pid"

    async def main():
        task = asyncio.create_task(arun([SH, "-c", f"echo $$ > {pid_file}; exec sleep 60"]))
        while not (pid_file.exists() and pid_file.read_text()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert _gone(int(pid_file.read_text()))


def test_stderr_beyond_the_cap_does_not_block():
    done = run([sys.executable, "-c", "import sys; sys.stderr.write('e' * 1000000)"])
    assert len(done.stderr) == 64 * 1024


def test_find(tmp_path):
    program = tmp_path / "sacct"
    program.write_text("")
    with pytest.raises(SattribError, match="sacct: not found in"):
        find("sacct", [str(tmp_path)])
    program.chmod(0o755)
    assert find("sacct", [str(tmp_path)]) == str(program)
    assert find("/any/where") == "/any/where"


def _gone(pid):
    """The process ended (a zombie that waits for its parent counts as ended)."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False
