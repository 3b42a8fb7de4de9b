"""How many may wait for one file system at once, and which file systems do not answer.

After a time limit a place is silent: one at a time may try it, at most every `RETRY` seconds, and all others are told so
at once, until one comes back.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path

from attribution.connectors.rotated import NotReadError

RETRY = 30.0


class Places:
    """Counts who is where. `limit` is per place and per further key (a user)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._busy: Counter[str] = Counter()
        self._silent: dict[str, float] = {}
        self._trying: set[str] = set()
        self._changed = asyncio.Condition()

    async def take(self, place: str, also: tuple[str, ...], seconds: float) -> None:
        """Wait for a place, at most so long. Raises NotReadError: unreachable (silent) or timed_out (others wait too)."""
        keys = (place, *also)
        if place in self._silent:
            if place in self._trying or time.monotonic() - self._silent[place] < RETRY:
                raise NotReadError("unreachable", f"{place} does not answer")
            self._trying.add(place)
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: all(self._busy[key] < self._limit for key in keys))
                self._busy.update(keys)
        except TimeoutError:
            self._trying.discard(place)
            raise NotReadError("timed_out", f"all {self._limit} readers of {' or '.join(keys)} are busy") from None

    async def give_back(self, place: str, also: tuple[str, ...] = ()) -> None:
        """Who took it has come back, or has ended."""
        async with self._changed:
            self._busy.subtract((place, *also))
            self._changed.notify_all()

    def answered(self, place: str, *, silent: bool) -> None:
        """Whether the place answered within the limit."""
        self._trying.discard(place)
        if silent:
            self._silent[place] = time.monotonic()
        else:
            self._silent.pop(place, None)


def mount_of(path: str) -> str:
    """The mount point that an absolute path is under by its letters alone: no file system is touched."""
    words = os.path.normpath(path)
    points = [point for _, point in _mounts() if point in ("/", words) or words.startswith(point + "/")]
    return max(points, key=len, default="/")


def mount_of_fd(fd: int) -> str:
    """The mount that an open file is on; fstat would ask the file system, and could wait for it."""
    text = Path(f"/proc/self/fdinfo/{fd}").read_text("ascii")
    number = text.partition("mnt_id:")[2].split(maxsplit=1)[0]
    # A mount of sattrib-open's own namespace is not listed in ours.
    return dict(_mounts()).get(number, f"mount {number}")


def _mounts() -> list[tuple[str, str]]:
    """(id, mount point) of each; spaces and the like stand there in octal."""
    rows = (line.split(" ") for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines())
    return [(row[0], row[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")) for row in rows]
