"""Where evidence comes from. One file per connector."""

from __future__ import annotations

from pathlib import Path

from attribution.bundle import Attempt, Source
from attribution.config import Config
from attribution.model import Frozen


class Request(Frozen, frozen=True):
    """What is asked of every connector."""

    attempt: Attempt
    window_start: float | None
    window_end: float | None
    folder: Path
    batch_host: str | None = None
    complete: bool = True
    work_dir: str = ""
    name: str = ""


async def collect_all(request: Request, config: Config) -> tuple[Source, ...]:
    """Run every connector."""
    del request, config
    return ()


def check_all(config: Config) -> list[str]:
    """What is wrong."""
    del config
    return []


async def close() -> None:
    """End readers."""
