"""A Python rule that does not end on what it is given ends the command, with its file and function."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from attribution.errors import RuleError
from attribution.rule import MODULE
from attribution.ruleset.limits import StuckError

# Of CPU, for one call of a rule: so many that no verdict depends on how fast a machine is.
SECONDS = 300.0


@contextmanager
def watched() -> Iterator[None]:
    """Raise RuleError once a single call of a rule has used up its time. Looks once a second of CPU; in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    step = min(1.0, SECONDS / 4)
    seen: FrameType | None = None
    ticks = 0

    def look(_number: int, frame: FrameType | None) -> None:
        nonlocal seen, ticks
        rule = _rule(frame)
        ticks = ticks + 1 if rule is not None and rule is seen else 0
        seen = rule
        if rule is not None and ticks * step >= SECONDS:
            raise StuckError(rule.f_code.co_filename, rule.f_code.co_name)

    handler = signal.signal(signal.SIGVTALRM, look)
    timer = signal.setitimer(signal.ITIMER_VIRTUAL, step, step)
    try:
        yield
    except StuckError as error:
        raise RuleError([(*error.args, f"has not ended after {SECONDS:g} s of CPU on this input")]) from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *timer)
        signal.signal(signal.SIGVTALRM, handler)


def _rule(frame: FrameType | None) -> FrameType | None:
    """The outermost call of a rule file's code that is under way: what sattrib itself called."""
    found = None
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(MODULE):
            found = frame
        frame = frame.f_back
    return found
