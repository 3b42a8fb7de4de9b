"""`sattrib config check|show`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attribution.cli.output import write
from attribution.cli.site import config_option, load
from attribution.errors import ConfigError, SattribError
from attribution.report.escape import escape

if TYPE_CHECKING:
    from attribution.config import Config


@click.group()
def config() -> None:
    """Look at the configuration."""


@config.command()
@config_option
def show(config_file: str | None) -> None:
    """Print every key with its value and what it means."""
    from attribution.config import show as show_config

    write("".join(f"{escape(line)}\n" for line in show_config(load(config_file)).splitlines()))


@config.command()
@config_option
def check(config_file: str | None) -> int:
    """Read the configuration, and try what it names: directories, rules, Slurm's commands, the connectors."""
    loaded = load(config_file)
    problems = [*_places(loaded), *_rules(loaded), *_slurm(loaded), *_connectors(loaded)]
    for problem in problems:
        write(f"problem: {escape(problem)}\n")
    if not problems:
        write("ok\n")
    return ConfigError.exit_code if problems else 0


def _places(config: Config) -> list[str]:
    found = []
    for key, name in (("spool.dir", config.spool.dir), ("worker.state_dir", config.worker.state_dir)):
        path = Path(name)
        if not path.is_dir():
            found.append(f"{key}: {name} is no directory: make it as docs/install-slurm.md says")
        elif not os.access(path, os.W_OK):
            found.append(f"{key}: {name} is not writable by this user: check as user sattrib")
    return found


def _rules(config: Config) -> list[str]:
    from attribution import ruleset

    try:
        ruleset.load(tuple(Path(name) for name in config.rules.dirs if Path(name).is_dir()))
    except SattribError as problem:
        return str(problem).splitlines()
    return []


def _slurm(config: Config) -> list[str]:
    import asyncio

    from attribution.slurm import open_backend

    try:
        asyncio.run(open_backend(config).cluster())
    except SattribError as problem:
        return [str(problem)]
    return []


def _connectors(config: Config) -> list[str]:
    from attribution import connectors

    return connectors.check_all(config)
