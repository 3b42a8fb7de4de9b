"""The processes that read files for the worker, so that a hung file system, or what a file holds, takes down none of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
import weakref
from asyncio.subprocess import Process
from pathlib import Path

import msgspec

from attribution import proc
from attribution.config import Config
from attribution.connectors.order import MOST_MESSAGE, Answer, Order
from attribution.connectors.places import Places
from attribution.connectors.rotated import NotReadError
from attribution.errors import SattribError

MOST = 8
IDLE = 4
REPLACE_AFTER = 200
# Shorter than this, a time limit says more about our own queue than about a file system.
FAIR = 5.0


class Reader:
    """One reader process and our end of its socket."""

    def __init__(self, process: Process, door: socket.socket, signature: tuple[object, ...]) -> None:
        self.process, self.door, self.signature, self.served = process, door, signature, 0

    async def ask(self, order: Order, fd: int | None) -> Answer:
        """Raises EOFError where it ended instead of answering."""
        self.served += 1
        try:
            socket.send_fds(self.door, [msgspec.json.encode(order)], [] if fd is None else [fd])
            text = await asyncio.get_running_loop().sock_recv(self.door, MOST_MESSAGE)
        except (ConnectionError, BlockingIOError):
            text = b""
        if not text:
            raise EOFError
        return msgspec.json.decode(text, type=Answer)


class Readers:
    """A few reader processes. Call `close` at the end."""

    def __init__(self, rule_dirs: tuple[str, ...], limit: int, memory_mb: int) -> None:
        self._dirs, self._memory = rule_dirs, memory_mb
        self.places = Places(limit)
        self._idle: list[Reader] = []
        self._room = asyncio.Semaphore(MOST)
        self._left_behind: set[asyncio.Task[None]] = set()

    async def read(self, order: Order, place: str, also: tuple[str, ...], deadline: float, fd: int | None = None) -> Answer:
        """Have one source read, until `deadline` (time.monotonic). What can't be read is an answer. Keeps `fd` open."""
        try:
            await self.places.take(place, also, deadline - time.monotonic())
        except NotReadError as problem:
            return Answer(problem.state, str(problem))
        reader = None
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()), self._room:
                reader = await self._reader()
                began = time.monotonic()
                answer = await reader.ask(order, fd)
        except TimeoutError:
            silent = reader is not None and time.monotonic() - began >= FAIR
            self.places.answered(place, silent=silent)
            await self._leave(reader, place, also)
            return Answer("timed_out", f"{place} did not answer within the limit (collect.timeout_seconds)")
        except (EOFError, SattribError) as problem:
            await self._leave(reader, place, also)
            return Answer("unreachable", f"the reader process ended: {str(problem) or 'the log of the worker says why'}")
        except asyncio.CancelledError:
            await self._leave(reader, place, also)
            raise
        self.places.answered(place, silent=False)
        self._put_back(reader)
        await self.places.give_back(place, also)
        return answer

    async def close(self) -> None:
        """End the readers; one that can't be killed is left to init."""
        for reader in self._idle:
            reader.door.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.process.wait(), 2.0)
            _kill(reader)
        self._idle.clear()
        for task in self._left_behind:
            task.cancel()

    # ---- processes --------------------------------------------------------------------------------------------------

    async def _reader(self) -> Reader:
        signature = _signature(self._dirs)
        while self._idle:
            reader = self._idle.pop()
            if reader.signature == signature and reader.process.returncode is None:
                return reader
            reader.door.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                process = await proc.start(self._argv(theirs), pass_fds=(theirs.fileno(),))
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        return Reader(process, ours, signature)

    def _argv(self, door: socket.socket) -> list[str]:
        dirs = [folder for folder in self._dirs if Path(folder).is_dir()]
        return [sys.executable, "-I", "-m", "attribution.connectors.reader", str(door.fileno()), str(self._memory), *dirs]

    def _put_back(self, reader: Reader) -> None:
        if reader.served < REPLACE_AFTER and len(self._idle) < IDLE:
            self._idle.append(reader)
        else:
            # It ends by itself when our end is closed.
            reader.door.close()

    async def _leave(self, reader: Reader | None, place: str, also: tuple[str, ...]) -> None:
        """Kill it. Where it sleeps in the kernel it holds its place until it is gone, and nobody waits for it."""
        if reader is None:
            await self.places.give_back(place, also)
            return
        _kill(reader)
        reader.door.close()
        task = asyncio.create_task(self._bury(reader, place, also))
        self._left_behind.add(task)
        task.add_done_callback(self._left_behind.discard)

    async def _bury(self, reader: Reader, place: str, also: tuple[str, ...]) -> None:
        await reader.process.wait()
        await self.places.give_back(place, also)


def _kill(reader: Reader) -> None:
    with contextlib.suppress(ProcessLookupError):
        reader.process.kill()


def _signature(dirs: tuple[str, ...]) -> tuple[object, ...]:
    """Changes when a site's rules do: a reader that has loaded older ones is replaced."""
    found: list[object] = []
    for folder in dirs:
        for path in sorted(Path(folder).rglob("*")) if Path(folder).is_dir() else []:
            with contextlib.suppress(OSError):
                state = path.stat()
                found.append((str(path), state.st_mtime_ns, state.st_size))
    return tuple(found)


_BY_LOOP: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[object, ...], Readers]] = weakref.WeakKeyDictionary()


def of_this_loop(config: Config) -> Readers:
    """The readers that all attempts of this event loop share."""
    pools = _BY_LOOP.setdefault(asyncio.get_running_loop(), {})
    key = (config.rules.dirs, config.app.readers, config.worker.memory_mb)
    if key not in pools:
        pools[key] = Readers(*key)
    return pools[key]


async def close_all() -> None:
    """End the readers of this event loop."""
    for readers in _BY_LOOP.pop(asyncio.get_running_loop(), {}).values():
        await readers.close()


def about(path: str, answer: Answer) -> Answer:
    """The answer with the path in front of its reason: the source's own name says nothing to people."""
    return msgspec.structs.replace(answer, reason=f"{path}: {answer.reason}") if answer.reason else answer


__all__ = ["Order", "Readers", "about", "close_all", "of_this_loop"]
