"""The children that parse and judge: one a slot, one attempt at a time, each with limits of its own.

Not ProcessPoolExecutor: there one child that dies fails the work of all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path

from attribution.config.sections import Worker as Settings
from attribution.errors import SattribError
from attribution.worker.wire import Answer, Broken, Message, Ready, Refused, Step, Task, WireError, pack, read_message

START_SECONDS = 120.0
STEP_LIMIT = 40
PROGRAM = (sys.executable, "-P", "-m", "attribution.worker.child")
_ENV = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}


class ChildDiedError(SattribError):
    """The work on one attempt ended without an answer: by which signal (or limit, or exception), in which step."""

    def __init__(self, signal_name: str, step: str, detail: str = "") -> None:
        self.signal, self.step = signal_name, step
        super().__init__(f"{signal_name} in {step}" + (f": {detail}" if detail else ""))


class RulesBrokenError(SattribError):
    """No child can work, whatever the attempt: the rules do not load."""


class Pool:
    """`judge` takes a free slot, and waits for one where all are busy. Close it when done. `program` is for tests."""

    def __init__(
        self,
        settings: Settings,
        rule_dirs: tuple[Path, ...],
        *,
        trusted_files: bool = False,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        more = ["1" if trusted_files else "0", *(str(path) for path in rule_dirs)]
        self._slots = [_Slot(settings, program, more) for _ in range(settings.slots)]
        self._free: asyncio.LifoQueue[_Slot] = asyncio.LifoQueue()
        for slot in self._slots:
            self._free.put_nowait(slot)

    async def judge(self, folder: Path) -> Answer:
        """The verdict of the bundle in `folder`. Raises ChildDiedError, RulesBrokenError."""
        slot = await self._free.get()
        try:
            return await slot.judge(folder)
        finally:
            self._free.put_nowait(slot)

    async def warm(self) -> None:
        """Start all children now, so that the first attempts do not wait for it. Raises RulesBrokenError."""
        slots = [await self._free.get() for _ in self._slots]
        try:
            await asyncio.gather(*(slot.ensure() for slot in slots))
        finally:
            for slot in slots:
                self._free.put_nowait(slot)

    def reload(self) -> None:
        """Every slot loads the rules anew before its next attempt."""
        for slot in self._slots:
            slot.stale = True

    async def close(self) -> None:
        """End all children; one that is working loses its work."""
        await asyncio.gather(*(slot.end() for slot in self._slots))


class _Slot:
    def __init__(self, settings: Settings, program: tuple[str, ...], more: list[str]) -> None:
        self._settings, self._program, self._more = settings, program, more
        self._process: Process | None = None
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._served = 0
        self.stale = False

    async def judge(self, folder: Path) -> Answer:
        await self.ensure()
        self._served += 1
        step = "start"
        try:
            async with asyncio.timeout(self._settings.wall_seconds):
                self._writer.write(pack(Task(folder=str(folder))))
                await self._writer.drain()
                while isinstance(message := await read_message(self._reader), Step):
                    step = message.name[:STEP_LIMIT]
        except TimeoutError:
            await self.end()
            raise ChildDiedError("wall-clock-limit", step, f"{self._settings.wall_seconds} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ChildDiedError(await self._cause(), step) from None
        except WireError as problem:
            await self.end()
            raise ChildDiedError("nonsense", step, str(problem)) from None
        except asyncio.CancelledError:
            await self.end()
            raise
        if isinstance(message, Answer):
            return message
        # What is left of a process that ran out of memory is not trusted with the next attempt.
        await self.end()
        name, what = (message.name, message.what) if isinstance(message, Refused) else ("nonsense", repr(message))
        raise ChildDiedError(name, step, what)

    async def ensure(self) -> None:
        """A living child, a fresh one where this one has served long enough. Raises RulesBrokenError."""
        if self.stale or self._served >= self._settings.replace_after:
            await self.end()
        if self._process is not None and self._process.returncode is None:
            return
        await self.end()
        try:
            async with asyncio.timeout(START_SECONDS):
                message = await self._start()
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, WireError, OSError) as problem:
            cause = await self._cause()
            raise RulesBrokenError(f"a child does not start: {cause} {problem}".strip()) from None
        except asyncio.CancelledError:
            await self.end()
            raise
        if not isinstance(message, Ready):
            await self.end()
            raise RulesBrokenError(message.what if isinstance(message, Broken) else repr(message))

    async def _start(self) -> Message:
        ours, theirs = socket.socketpair()
        settings = self._settings
        limits = [str(theirs.fileno()), str(settings.memory_mb), str(settings.cpu_seconds)]
        argv = [*self._program, *limits, *self._more]
        try:
            self._process = await asyncio.create_subprocess_exec(  # noqa: TID251 - the pool's own children
                *argv, stdin=DEVNULL, stdout=DEVNULL, env=_ENV, cwd="/", pass_fds=[theirs.fileno()]
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._served, self.stale = 0, False
        return await read_message(self._reader)

    async def _cause(self) -> str:
        """What a child that closed its end died of."""
        process = self._process
        if process is None:
            return "not-started"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 5.0)
        code = process.returncode
        await self.end()
        if code is None:
            return "closed-its-socket"
        return _signal_name(-code) if code < 0 else f"exit-{code}"

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        if hasattr(self, "_writer"):
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal-{number}"
