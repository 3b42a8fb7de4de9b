"""The worker and archive of this site, for the commands that need them: its configuration, and the right to look."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from attribution.errors import ConfigError

if TYPE_CHECKING:
    from attribution.config import Config

F = TypeVar("F", bound=Callable[..., Any])


def config_option(function: F) -> F:
    """Adds `--config FILE`, given as `config_file`."""
    return click.option("--config", "config_file", metavar="FILE", help="Instead of /etc/sattrib/sattrib.toml.")(function)


def load(config_file: str | None) -> Config:
    """The configuration. Raises ConfigError."""
    from attribution.config import load as load_config

    return load_config(config_file)


def enter(config_file: str | None) -> Config:
    """The configuration, for root and the worker's user alone; root becomes that user, since nothing parses logs as root.

    Raises ConfigError for anyone else.
    """
    config = load(config_file)
    folder = Path(config.worker.state_dir)
    try:
        owner = folder.stat()
    except OSError as problem:
        raise ConfigError(f"can't be used: {problem.strerror}", str(folder), "worker.state_dir") from None
    if os.geteuid() == 0 and owner.st_uid != 0:
        _become(owner.st_uid, owner.st_gid)
    if os.geteuid() != owner.st_uid:
        raise ConfigError("only root and user sattrib can use this site's worker and archive; ask an admin")
    return config


def _become(uid: int, gid: int) -> None:
    import pwd

    try:
        os.initgroups(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        os.setgroups([gid])
    os.setgid(gid)
    os.setuid(uid)
    os.chdir("/")
