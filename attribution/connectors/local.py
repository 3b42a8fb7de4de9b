"""Log files that the controller itself holds: slurmctld's, slurmdbd's, and those that a central syslog keeps of nodes."""

from __future__ import annotations

import asyncio
import os
import re

from attribution.bundle import Source
from attribution.config import Config
from attribution.connectors import readers
from attribution.connectors.places import mount_of
from attribution.connectors.request import Request, deadline, order_of, plain, source_of, unique, unread
from attribution.errors import SattribError
from attribution.model import SourceKind
from attribution.slurm import open_backend

NODE = "{node}"
# A node's name becomes part of a path: no separators, and no leading dot.
_NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,253}", re.ASCII)


async def collect(request: Request, config: Config) -> list[Source]:
    """The logs of Slurm's daemons and of the attempt's nodes, as far as `[local]` names them."""
    until = deadline(config)
    found: list[Source] = []
    wanted: list[tuple[SourceKind, str, str, str | None]] = []
    for kind, path, missing in await _slurm_logs(config):
        if path:
            wanted.append((kind, path, f"{kind}.log", None))
        elif missing:
            found.append(unread(f"{kind}.log", kind, "not_configured", missing))
    for node in request.attempt.nodes:
        if not _NODE_NAME.fullmatch(node):
            found.append(unread(f"nodes/{plain(node)}", "kern", "not_configured", f"{node!r} is no name of a node", node))
            continue
        for kind, patterns in sorted(config.local.nodes.items()):
            for path, name in _node_files(node, patterns):
                wanted.append((kind, path, f"nodes/{node}/{kind}-{name}", node))
    # A thousand nodes wait here, not all of them for the same reader.
    turn = asyncio.Semaphore(config.app.readers)
    return found + list(await asyncio.gather(*(_one(request, config, item, until, turn) for item in wanted)))


def check(config: Config) -> list[str]:
    """What `config check` should say: patterns that name no node, logs that this user can't read."""
    found = []
    for kind, patterns in sorted(config.local.nodes.items()):
        for pattern in patterns:
            if NODE not in pattern:
                found.append(f"local.nodes.{kind}: {pattern}: has no {NODE}: the same file would be read for every node")
            elif ".." in pattern.split("/"):
                found.append(f"local.nodes.{kind}: {pattern}: write it without ..")
    for key in ("slurmctld_log", "slurmdbd_log"):
        path = getattr(config.local, key)
        if path and not os.access(path, os.R_OK):
            found.append(f"local.{key}: {path}: can't be read")
    return found


def _node_files(node: str, patterns: tuple[str, ...]) -> list[tuple[str, str]]:
    paths = [pattern.replace(NODE, node) for pattern in patterns]
    return list(zip(paths, unique([plain(os.path.basename(path)) for path in paths]), strict=True))  # noqa: PTH119


async def _slurm_logs(config: Config) -> list[tuple[SourceKind, str, str]]:
    """(kind, path, why there is none)."""
    found: list[tuple[SourceKind, str, str]] = []
    controller, why = config.local.slurmctld_log, ""
    if not controller and "slurmctld" in config.collect.sources:
        try:
            controller = (await open_backend(config).cluster()).slurmctld_log
            why = "slurmctld logs to no file (SlurmctldLogFile); name one in local.slurmctld_log"
        except SattribError as problem:
            why = f"Slurm does not say where slurmctld logs: {problem}"
    found.append(("slurmctld", controller, why))
    expected = "slurmdbd" in config.collect.sources
    found.append(("slurmdbd", config.local.slurmdbd_log, "local.slurmdbd_log is not set" if expected else ""))
    return found


async def _one(
    request: Request, config: Config, item: tuple[SourceKind, str, str, str | None], until: float, turn: asyncio.Semaphore
) -> Source:
    kind, path, place, node = item
    order = order_of(request, config, kind, place, path)
    async with turn:
        answer = await readers.of_this_loop(config).read(order, mount_of(path), (), until)
    return source_of(order, place, answer, node)
