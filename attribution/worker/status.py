"""The small file that the worker writes for `sattrib status`, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from attribution.errors import SattribError
from attribution.model import Frozen
from attribution.worker.news import Trouble

FILE = "status.json"


class Status(Frozen, frozen=True):
    """The worker at `now`. Times are epoch seconds, UTC; counts are of attempts, unless they say otherwise."""

    pid: int
    started: float
    now: float
    records_waiting: int
    records_unmatched: int
    in_hand: int
    ready: int
    oldest: float | None
    archived: int
    last_minute: int
    last_ten_minutes: int
    comments_written: int
    comments_behind: int
    comments_oldest: float | None
    last_poll: int | None
    slurm: str
    hook_stopped: bool
    disk_percent: int
    troubles: tuple[Trouble, ...]


def write_status(folder: Path, status: Status) -> None:
    """Replace the file. Raises OSError."""
    writing = folder / f".{FILE}.new"
    writing.write_bytes(msgspec.json.encode(status))
    os.replace(writing, folder / FILE)  # noqa: PTH105 - one rename, so that a reader never sees half of it


def read_status(folder: Path) -> Status:
    """What the worker wrote last. Raises SattribError where there is nothing to read."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Status)
    except FileNotFoundError:
        raise SattribError(f"{path}: is missing: the worker has not run here; start it with: systemctl start sattrib") from None
    except OSError as problem:
        raise SattribError(f"{path}: can't be read: {problem.strerror}; ask as root or user sattrib") from None
    except msgspec.DecodeError:
        raise SattribError(f"{path}: was written by another version; restart the worker") from None
