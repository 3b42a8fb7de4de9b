"""What the worker says: lines for the journal, the last errors, and how many attempts it finished."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

from attribution.model import Frozen
from attribution.report.escape import clip

QUIET_SECONDS = 60.0
_MOST = 20
_WIDTH = 400


class Trouble(Frozen, frozen=True):
    """Something that went wrong, `count` times up to `time` (epoch seconds, UTC)."""

    time: float
    where: str
    what: str
    count: int = 1


class News:
    """One for a worker. `write` takes whole lines."""

    def __init__(self, write: Callable[[str], object] = sys.stderr.write, clock: Callable[[], float] = time.time) -> None:
        self._write, self._clock = write, clock
        self._said: dict[tuple[str, str], float] = {}
        self._finished: deque[float] = deque(maxlen=100_000)
        self.troubles: deque[Trouble] = deque(maxlen=_MOST)
        self.total = 0
        self.comments = 0

    def tell(self, text: str) -> None:
        self._write(f"{clip(text, _WIDTH)}\n")

    def trouble(self, where: str, what: object) -> None:
        """Remember it; the same one is said at most once a minute."""
        text, now = clip(str(what) or type(what).__name__, _WIDTH), self._clock()
        last = self.troubles[-1] if self.troubles else None
        if last is not None and (last.where, last.what) == (where, text):
            self.troubles[-1] = Trouble(time=now, where=where, what=text, count=last.count + 1)
        else:
            self.troubles.append(Trouble(time=now, where=where, what=text))
        if now - self._said.get((where, text), -QUIET_SECONDS) >= QUIET_SECONDS:
            if len(self._said) > 10 * _MOST:
                self._said.clear()
            self._said[where, text] = now
            self._write(f"{where}: {text}\n")

    def finished(self, count: int) -> None:
        """So many attempts are in the archive now."""
        self.total += count
        self._finished.extend([self._clock()] * count)

    def in_last(self, seconds: float) -> int:
        """How many were archived in the last `seconds`."""
        since = self._clock() - seconds
        return sum(1 for time_ in self._finished if time_ > since)


class Backoff:
    """How long to wait after a failure: twice as long as after the one before, up to a minute."""

    def __init__(self, first: float = 1.0, most: float = 60.0) -> None:
        self._first, self._most = first, most
        self._next = first

    def next(self) -> float:
        delay, self._next = self._next, min(self._most, self._next * 2)
        return delay

    def reset(self) -> None:
        self._next = self._first
