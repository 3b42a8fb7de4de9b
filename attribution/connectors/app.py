"""The job's own output: paths that the user chose, opened with the owner's rights and read by a process of its own."""

from __future__ import annotations

import asyncio
import os
import time

from attribution.bundle import Source
from attribution.config import Config
from attribution.connectors import readers
from attribution.connectors.handover import NOT_RUNNING, open_as
from attribution.connectors.order import Answer
from attribution.connectors.places import Places, mount_of, mount_of_fd
from attribution.connectors.request import Request, deadline, order_of, plain, source_of, unique, unread
from attribution.connectors.rotated import NotReadError
from attribution.slurm import patterns

ELSEWHERE = "the file is not on the controller; if its file system is mounted on nodes only, it can't be read from here"


async def collect(request: Request, config: Config) -> list[Source]:
    """stdout, stderr and the `[app] extra` files of an attempt."""
    if config.app.via not in ("", "controller"):
        return [
            unread("app/stdout", "app", "not_configured", f"app.via = {config.app.via!r}: only the controller reads so far")
        ]
    until = deadline(config)
    paths = _paths(request, config)
    if not paths:
        return [unread("app/stdout", "app", "not_configured", "Slurm names no output file: srun printed to a terminal")]
    names = unique([plain(os.path.basename(path)) for path, _ in paths])  # noqa: PTH119 - a user's text, not our path
    return list(
        await asyncio.gather(
            *(_one(request, config, path, f"app/{name}", until, node) for (path, node), name in zip(paths, names, strict=True))
        )
    )


def check(config: Config) -> list[str]:
    """What `config check` should say."""
    found = []
    if config.app.via not in ("", "controller"):
        found.append(f"app.via = {config.app.via!r}: output is read on the controller only so far")
    if not os.path.exists(config.app.opener):  # noqa: PTH110
        found.append(f"app.opener: {config.app.opener}: {NOT_RUNNING}")
    return found


def _paths(request: Request, config: Config) -> list[tuple[str, str | None]]:
    """(path, node on which it is written), each path once."""
    attempt = request.attempt
    found: dict[str, str | None] = {}
    for path in (attempt.stdout, attempt.stderr):
        if path:
            found.setdefault(path, request.batch_host)
    for pattern in config.app.extra:
        for path, node in patterns.extra_files(attempt, pattern, request.work_dir, request.name):
            found.setdefault(path, node or request.batch_host)
    return list(found.items())


async def _one(request: Request, config: Config, path: str, place: str, until: float, node: str | None) -> Source:
    order = order_of(request, config, "app", place)
    uid = request.attempt.uid
    if path == "/dev/null":
        answer = Answer("empty", "/dev/null: the job threw its output away")
    elif uid is None:
        answer = Answer("denied", f"{path}: Slurm does not say whose file it is")
    else:
        answer = await _read(config, order, uid, path, until)
    return source_of(order, place, answer, node)


async def _read(config: Config, order: readers.Order, uid: int, path: str, until: float) -> Answer:
    pool, owner = readers.of_this_loop(config), f"uid {uid}"
    try:
        fd = await _open(pool.places, uid, path, config.app.opener, until)
    except NotReadError as problem:
        missing = problem.state == "unreachable" and str(problem) == os.strerror(2)
        return Answer(problem.state, f"{path}: {ELSEWHERE if missing else problem}")
    try:
        answer = await pool.read(order, mount_of_fd(fd), (owner,), until, fd)
    finally:
        os.close(fd)
    return readers.about(path, answer)


async def _open(places: Places, uid: int, path: str, door: str, until: float) -> int:
    """Opening can hang as reading can: it counts for the file system that the path is on by its letters."""
    place, left = f"opening on {mount_of(path)}", until - time.monotonic()
    await places.take(place, (f"opening for uid {uid}",), left)
    silent = False
    try:
        async with asyncio.timeout(max(0.0, until - time.monotonic())):
            return await open_as(uid, path, door)
    except TimeoutError:
        silent = True
        raise NotReadError("timed_out", "opening it did not end within the limit (collect.timeout_seconds)") from None
    finally:
        places.answered(place, silent=silent)
        await places.give_back(place, (f"opening for uid {uid}",))
