"""Asking sattrib-open for a descriptor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import Any

from attribution.connectors.rotated import NotReadError
from attribution.model import CoverageState
from attribution.opener import RefusedError, open_regular

STATES: dict[str, CoverageState] = {"denied": "denied", "refused": "denied", "not_regular": "denied", "missing": "unreachable"}
AGAIN = 0.3
NOT_RUNNING = "sattrib-open does not run: systemctl enable --now sattrib-open.socket"


async def open_as(uid: int, path: str, door: str) -> int:
    """A descriptor of the user's file; close it. `door` is the socket. Waits while it is busy. Raises NotReadError.

    Without sattrib-open a file is opened directly if this process is that very user.
    """
    if not os.path.exists(door) and os.geteuid() == uid:  # noqa: ASYNC240, PTH110 - a socket on /run
        try:
            return await asyncio.to_thread(open_regular, path)
        except RefusedError as why:
            raise _not_read(*why.args) from None
    while True:
        text, fds = await _ask(door, json.dumps({"uid": uid, "path": path}).encode() + b"\n")
        try:
            answer: Any = json.loads(text)
            if fds and answer == {"ok": True}:
                return fds.pop()
        except ValueError:
            raise NotReadError("unreachable", "sattrib-open gave no answer: opening took too long, or it failed") from None
        finally:
            for fd in fds:
                os.close(fd)
        if answer.get("error") != "busy":
            raise _not_read(str(answer.get("error")), str(answer.get("reason")))
        await asyncio.sleep(AGAIN)


async def _ask(door: str, text: bytes) -> tuple[bytes, list[int]]:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.setblocking(False)
        try:
            await loop.sock_connect(line, door)
            # A request that is not taken (busy, another user's) is answered before it was read.
            with contextlib.suppress(BrokenPipeError):
                await loop.sock_sendall(line, text)
            await _readable(loop, line)
            answer, fds, _flags, _address = socket.recv_fds(line, 4096, 1, socket.MSG_CMSG_CLOEXEC)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotReadError("denied", NOT_RUNNING) from None
        except PermissionError:
            raise NotReadError("denied", f"{door}: only user sattrib may ask") from None
        except OSError as problem:
            raise NotReadError("unreachable", f"{door}: {problem.strerror}") from None
    return answer, fds


async def _readable(loop: asyncio.AbstractEventLoop, line: socket.socket) -> None:
    ready = asyncio.Event()
    loop.add_reader(line, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(line)


def _not_read(word: str, reason: str) -> NotReadError:
    return NotReadError(STATES.get(word, "unreachable"), reason)
