"""The one door to other processes: nothing else in sattrib starts one, and no shell is ever involved.

A command runs in a session of its own with a minimal environment (C locale, a fixed PATH, nothing inherited), so that
nothing it prints depends on who called, and so that a time limit or a cancelled task can kill all of its children.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from attribution.errors import SattribError
from attribution.model import Frozen

__all__ = ["BIN_DIRS", "Finished", "Run", "arun", "find", "run", "start"]

BIN_DIRS: tuple[str, ...] = ("/usr/bin", "/bin", "/usr/local/bin", "/opt/slurm/bin", "/usr/local/slurm/bin")
BASE_ENV: Mapping[str, str] = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
STDERR_LIMIT = 64 * 1024
CHUNK = 256 * 1024


class Finished(Frozen, frozen=True):
    """A command that ended by itself. `cut` says that it printed more than was allowed and was killed for it."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float
    cut: bool = False

    @property
    def text(self) -> str:
        """What it printed, as text; bytes that are no UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The first line of stderr that says something, or the exit status."""
        lines = (line.strip() for line in self.stderr.decode("utf-8", "replace").splitlines())
        return next((line for line in lines if line), f"exit status {self.returncode}")


class Run(Protocol):
    """What `arun` is; a test passes a fake that refuses commands it does not know."""

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - the limit kills a process group, which a caller's own timeout can't
        limit: int = 64 << 20,
        check: bool = True,
        error: type[SattribError] = SattribError,
    ) -> Finished: ...


def find(name: str, dirs: Sequence[str] = BIN_DIRS) -> str:
    """The absolute path of a program; `name` may be one already. Raises SattribError where there is none.

    The caller's PATH is never used: as root it would let a user choose what runs.
    """
    if name.startswith("/"):
        return name
    for directory in dirs:
        path = Path(directory) / name
        if os.access(path, os.X_OK):
            return str(path)
    raise SattribError(f"{name}: not found in {', '.join(dirs)}; give its absolute path in the configuration")


async def arun(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    timeout: float = 30.0,  # noqa: ASYNC109 - see Run
    limit: int = 64 << 20,
    check: bool = True,
    error: type[SattribError] = SattribError,
) -> Finished:
    """Run `argv` (its first word an absolute path) and take what it prints, at most `limit` bytes of stdout.

    `env` is added to the minimal environment; `timeout` is in seconds, after it the whole process group is killed.
    Raises `error` with the command and the reason: can't be started, timed out, and with `check` a non-zero exit or
    output beyond the limit.
    """
    began = time.monotonic()
    process = await _start(argv, env, error)
    out, err = bytearray(), bytearray()
    cut = asyncio.Event()
    try:
        async with asyncio.timeout(timeout):
            await asyncio.gather(
                _feed(process, stdin), _drain(process, process.stdout, out, limit, cut),
                _drain(process, process.stderr, err, STDERR_LIMIT, None),
            )  # fmt: skip
            code = await process.wait()
    except TimeoutError:
        raise error(f"{_shown(argv)}: no answer after {timeout:g} s") from None
    finally:
        await _end(process)
    done = Finished(
        argv=tuple(argv),
        returncode=code,
        stdout=bytes(out),
        stderr=bytes(err),
        seconds=time.monotonic() - began,
        cut=cut.is_set(),
    )
    if check and done.cut:
        raise error(f"{_shown(argv)}: printed more than {limit} bytes")
    if check and code != 0:
        raise error(f"{_shown(argv)}: {done.complaint}")
    return done


def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    timeout: float = 30.0,
    limit: int = 64 << 20,
    check: bool = True,
    error: type[SattribError] = SattribError,
) -> Finished:
    """`arun` for callers without an event loop of their own."""
    return asyncio.run(arun(argv, stdin=stdin, env=env, timeout=timeout, limit=limit, check=check, error=error))


async def start(argv: Sequence[str], *, pass_fds: Sequence[int] = (), error: type[SattribError] = SattribError) -> Process:
    """Start a process that stays, and is talked to over `pass_fds`; it leads a session of its own, stderr is ours.

    Raises `error` where it can't be started. Whoever starts it ends it (`kill`) and waits for it.
    """
    try:
        return await asyncio.create_subprocess_exec(  # noqa: TID251 - this is the door
            *argv, stdin=DEVNULL, stdout=DEVNULL, env=dict(BASE_ENV), cwd="/", start_new_session=True, pass_fds=pass_fds
        )
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise error(f"{_shown(argv)}: {reason}") from None


async def _start(argv: Sequence[str], env: Mapping[str, str] | None, error: type[SattribError]) -> Process:
    if not argv or not argv[0].startswith("/"):
        raise error(f"{_shown(argv)}: a command needs an absolute path")
    try:
        return await asyncio.create_subprocess_exec(  # noqa: TID251 - this is the door
            *argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={**BASE_ENV, **(env or {})}, cwd="/",
            start_new_session=True, close_fds=True,
        )  # fmt: skip
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise error(f"{_shown(argv)}: {reason}") from None


async def _feed(process: Process, stdin: bytes) -> None:
    if process.stdin is None:
        return
    # A command that has read enough closes its end: that is not our problem.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if stdin:
            process.stdin.write(stdin)
            await process.stdin.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.close()
        await process.stdin.wait_closed()


async def _drain(
    process: Process, stream: asyncio.StreamReader | None, into: bytearray, limit: int, cut: asyncio.Event | None
) -> None:
    """Read to the end. Beyond `limit`, bytes are dropped; where `cut` is given, the command is killed as well."""
    while stream is not None and (chunk := await stream.read(CHUNK)):
        room = limit - len(into)
        into += chunk[:room]
        if len(chunk) > room and cut is not None and not cut.is_set():
            cut.set()
            _kill(process)


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: Process) -> None:
    """Leave nothing behind: neither the command nor a child of it that still holds our pipes."""
    open_pipes = any(stream is not None and not stream.at_eof() for stream in (process.stdout, process.stderr))
    if process.returncode is None or open_pipes:
        _kill(process)
    with contextlib.suppress(TimeoutError):
        # SIGKILL can't be refused, but a process in an uninterruptible sleep takes it late: it is left to init.
        await asyncio.wait_for(asyncio.shield(process.wait()), 1.0)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


def _shown(argv: Sequence[str]) -> str:
    text = " ".join(repr(word) if set(word) & set(" \t\n'\"\\\x1f") else word for word in argv)
    return text if len(text) <= 200 else text[:197] + "..."
