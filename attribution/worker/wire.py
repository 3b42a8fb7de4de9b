"""What the worker and its children say to each other: MessagePack values, each after its length in four bytes."""

from __future__ import annotations

import asyncio
import socket
import struct

import msgspec

from attribution.errors import SattribError
from attribution.model import Frozen
from attribution.pipeline import AnalyzedBundle

LONGEST = 256 << 20
_HEAD = struct.Struct(">I")


class Task(Frozen, frozen=True, tag=True):
    """Judge the bundle in this directory."""

    folder: str


class Ready(Frozen, frozen=True, tag=True):
    """The child has loaded its rules; `rules` is their hash."""

    rules: str


class Broken(Frozen, frozen=True, tag=True):
    """The child can't work at all: the rules are wrong. `what` is for people."""

    what: str


class Step(Frozen, frozen=True, tag=True):
    """The child begins this part of its work: if it dies, it died here."""

    name: str


class Answer(Frozen, frozen=True, tag=True):
    """The verdict, and the line for sacct."""

    analyzed: AnalyzedBundle
    line: str


class Refused(Frozen, frozen=True, tag=True):
    """An exception came out of the work: its name and its text."""

    name: str
    what: str


Message = Ready | Broken | Step | Answer | Refused


class WireError(SattribError):
    """What came over the socket is no message."""


def pack(message: Message | Task) -> bytes:
    """A message with its length in front. Raises WireError where it is longer than the other end would take."""
    body = msgspec.msgpack.encode(message)
    if len(body) > LONGEST:
        raise WireError(f"a message of {len(body)} bytes is longer than {LONGEST}")
    return _HEAD.pack(len(body)) + body


async def read_message(reader: asyncio.StreamReader) -> Message:
    """The next message of a child. Raises IncompleteReadError at its end, WireError for anything that is no message."""
    (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if length > LONGEST:
        raise WireError(f"a child announced {length} bytes")
    try:
        return msgspec.msgpack.decode(await reader.readexactly(length), type=Message)
    except msgspec.DecodeError as problem:
        raise WireError(f"a child said something that is no message: {problem}") from None


def receive_task(connection: socket.socket) -> Task | None:
    """The next task, in a child; None when the worker has closed its end."""
    head = _exactly(connection, _HEAD.size)
    body = head and _exactly(connection, _HEAD.unpack(head)[0])
    return msgspec.msgpack.decode(body, type=Task) if body else None


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        piece = connection.recv(count - len(found))
        if not piece:
            return None
        found += piece
    return bytes(found)
