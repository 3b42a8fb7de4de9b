"""The connectors: each reads one kind of evidence into a bundle directory. `collect_all` runs them side by side.

A connector is a module with `async def collect(request, config) -> list[Source]`, which never raises for what can't be
read, and `check(config) -> list[str]`, what `config check` should say.
"""

from __future__ import annotations

import asyncio
from types import ModuleType

import msgspec

from attribution.bundle import Source
from attribution.config import Config
from attribution.connectors import app, local, readers
from attribution.connectors.request import Request, unread
from attribution.errors import SattribError
from attribution.model import SourceKind

# Name of the connector, its module, and the kind that is unread where the connector itself fails.
TABLE: dict[str, tuple[ModuleType, SourceKind]] = {"app": (app, "app"), "local": (local, "slurmctld")}
# A connector keeps its own time limit; this much later it is given up.
GRACE = 5.0


async def collect_all(request: Request, config: Config) -> tuple[Source, ...]:
    """Everything that is configured for this attempt, read into `request.folder`; sorted, each path once.

    What could not be read is a source with its coverage. Raises only OSError for a folder that can't be written.
    """
    if not request.complete:
        return ()
    found = await asyncio.gather(*(_guarded(name, request, config) for name in TABLE))
    return tuple(sorted((source for sources in found for source in sources), key=lambda s: (s.path, s.kind)))


async def _guarded(name: str, request: Request, config: Config) -> list[Source]:
    module, kind = TABLE[name]
    try:
        async with asyncio.timeout(config.collect.timeout_seconds + GRACE):
            sources: list[Source] = await module.collect(request, config)
            return sources
    except TimeoutError:
        return [unread(f"connector {name}", kind, "timed_out", "it did not end within the limit (collect.timeout_seconds)")]
    except (SattribError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as problem:
        return [unread(f"connector {name}", kind, "unreachable", f"it failed: {type(problem).__name__}: {problem}")]


def check_all(config: Config) -> list[str]:
    """What `config check` should say of all connectors, a line each."""
    return [line for module, _kind in TABLE.values() for line in module.check(config)]


async def close() -> None:
    """End the reader processes of this event loop: call it before the loop ends."""
    await readers.close_all()


__all__ = ["TABLE", "Request", "check_all", "close", "collect_all"]
