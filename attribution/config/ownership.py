"""Who could have written a file: config, rules and hook must come from root alone where root's or sattrib's rights are used."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from attribution.errors import ConfigError


def trusts_only_root() -> bool:
    """Whether this process must refuse files that others could write: root, or the units' user sattrib."""
    uid = os.geteuid()
    if uid == 0:
        return True
    try:
        return pwd.getpwuid(uid).pw_name == "sattrib"
    except KeyError:
        return False


def check_ownership(path: Path, owners: frozenset[int] | None = None, *, sticky: bool = False) -> None:
    """Raise ConfigError unless `path` and all its parents are owned by one of `owners` and not writable by others.

    `owners` are uids; None means root and the caller. Links are followed, and what they pass through is checked as
    well; a sticky directory like /tmp counts as safe only with `sticky`: for what is there already, nobody can swap it.
    """
    allowed = frozenset({0, os.geteuid()}) if owners is None else owners
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute() keeps "..", and resolve() hides the links
    try:
        real = Path(os.path.realpath(absolute, strict=True))
        for step in {*absolute.parents, absolute, *real.parents, real}:
            _check_one(step, path, allowed, sticky=sticky and step != path)
    except OSError as problem:
        raise ConfigError(f"can't be checked: {problem.strerror}", str(path)) from None


def _check_one(step: Path, path: Path, allowed: frozenset[int], *, sticky: bool) -> None:
    state = step.lstat()
    what = "is" if step == path else f"has the parent {step}, which is"
    if state.st_uid not in allowed:
        raise ConfigError(f"{what} owned by uid {state.st_uid}: chown it to root", str(path))
    if sticky and stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_ISVTX:
        return
    if not stat.S_ISLNK(state.st_mode) and state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"{what} writable by others: chmod go-w", str(path))
