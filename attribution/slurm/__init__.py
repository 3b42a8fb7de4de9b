"""All that knows Slurm: attempts, hostlists, when an attempt is ready, comments. `open_backend` is the way in."""

from __future__ import annotations

from attribution.config import Config
from attribution.slurm.backend import Backend


def open_backend(config: Config) -> Backend:
    """The backend that the configuration names. Raises SattribError where a program is missing."""
    from attribution.slurm.cli import Cli

    return Cli(config)


__all__ = ["Backend", "open_backend"]
