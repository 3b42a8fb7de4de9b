"""CPU time and memory while a rule file is loaded and its examples run: one that does not end hangs no command."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 5.0
MEMORY = 1 << 30


class StuckError(KeyboardInterrupt):
    """Raised inside a rule that has used up its time. Like Ctrl-C it passes through whatever catches a rule's own crash."""


@contextmanager
def limited(seconds: float | None = None) -> Iterator[None]:
    """Raise StuckError inside after `seconds` of CPU, and MemoryError beyond 1 GiB more than now.

    In the main thread alone, the only one that signals can interrupt. A single call of Python's own (`sum(range(10**18))`)
    can't be interrupted. The kernel's own limit would end it, and with it whoever loads rules: that is worse than to wait.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    allowed = SECONDS if seconds is None else seconds

    def ring(_number: int, _frame: Any) -> None:
        raise StuckError(f"takes more than {allowed:g} s of CPU")

    handler = signal.signal(signal.SIGVTALRM, ring)
    memory = resource.getrlimit(resource.RLIMIT_AS)
    _lower(resource.RLIMIT_AS, _mapped() + MEMORY, memory)
    timer = signal.setitimer(signal.ITIMER_VIRTUAL, allowed, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *timer)
        signal.signal(signal.SIGVTALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, memory)


def _lower(which: int, wanted: int, limits: tuple[int, int]) -> None:
    least = min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=wanted)
    resource.setrlimit(which, (min(wanted, least), limits[1]))


def _mapped() -> int:
    """Bytes of address space in use."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
