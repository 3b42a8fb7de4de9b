"""Where evidence comes from. One file per connector."""

from __future__ import annotations

from pathlib import Path

from attribution.bundle import Attempt, Source
from attribution.config import Config
from attribution.model import Frozen


class Request(Frozen, frozen=True, kw_only=True):
    """What is asked of every connector."""

    attempt: Attempt
    window_start: float | None
    window_end: float | None
    folder: Path
    batch_host: str | None
    complete: bool


async def collect_all(request: Request, config: Config) -> tuple[Source, ...]:
    """Run every connector."""
    del request, config
    return ()
