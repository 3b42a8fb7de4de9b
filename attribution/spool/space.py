"""The stop file: set before the spool's file system is full, cleared when there is room again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

STOP = "stop"
OURS = "sattrib: the file system is full\n"


def measure(directory: Path) -> int:
    """How full the file system is, in percent: of its blocks or its inodes, whichever is worse."""
    state = os.statvfs(directory)
    parts = [(state.f_blocks, state.f_bavail), (state.f_files, state.f_favail)]
    return max((100 - 100 * free // total for total, free in parts if total), default=0)


def update_stop(directory: Path, percent: int, stop_at: int, resume_at: int) -> bool:
    """Set or clear the stop file for a file system that is `percent` full; True while the hook is stopped.

    A stop file that a person made is left alone.
    """
    stop = directory / STOP
    present = os.path.lexists(stop)
    if percent >= stop_at and not present:
        # A full disk can still hold an empty file, so the text is allowed to get lost: then a person clears it.
        with contextlib.suppress(OSError):
            descriptor = os.open(stop, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            try:
                os.write(descriptor, OURS.encode())
            finally:
                os.close(descriptor)
        return os.path.lexists(stop)
    if percent <= resume_at and present and _is_ours(stop):
        stop.unlink()
        return False
    return present


def _is_ours(stop: Path) -> bool:
    try:
        descriptor = os.open(stop, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.read(descriptor, len(OURS) + 1) == OURS.encode()
    finally:
        os.close(descriptor)
