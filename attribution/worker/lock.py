"""One worker for an archive: two would write the same verdicts and comments."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from attribution.errors import SattribError


class AlreadyRunningError(SattribError):
    """Another worker holds the lock."""


def lock(file: Path) -> int:
    """Hold `file` until the process ends; gives the descriptor. Raises AlreadyRunningError, SattribError."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    except OSError as problem:
        raise SattribError(f"{file}: can't be opened: {problem.strerror}; the worker runs as user sattrib") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AlreadyRunningError(f"{file}: another worker is running; stop it first") from None
    return descriptor


def is_held(file: Path) -> bool:
    """Whether a worker is running. Raises OSError where the file can't be read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
