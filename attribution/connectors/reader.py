"""The reader process: `python -m attribution.connectors.reader FD MEMORY_MB RULE_DIR…`.

It reads logs and users' files, picks the lines that matter, and writes them into the bundle. It may hang in a dead file
system or die of what it reads: the worker leaves it behind and starts another.
"""

from __future__ import annotations

import gc
import os
import resource
import socket
import sys
from pathlib import Path

import msgspec

from attribution import ruleset
from attribution.connectors.foreign import Foreign
from attribution.connectors.order import MOST_MESSAGE, Answer, Order
from attribution.connectors.output import read_output
from attribution.connectors.rotated import Log, NotReadError
from attribution.connectors.span import SLACK, Window
from attribution.engine.rules import RuleSet
from attribution.engine.select import Selection, Selector, as_text
from attribution.model import CoverageState
from attribution.slurm.hostlist import expand

MOST_WRITTEN = 64 << 20


def main(argv: list[str]) -> None:
    """Answer orders until the worker closes its end."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (int(argv[2]) << 20,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
    rules = ruleset.load(tuple(Path(d) for d in argv[3:]), samples=False)
    # The rules stay: no collection has to look at them again.
    gc.freeze()
    with socket.socket(fileno=int(argv[1])) as door:
        while True:
            text, fds, _flags, _address = socket.recv_fds(door, MOST_MESSAGE, 1)
            if not text:
                return
            answer = carry_out(msgspec.json.decode(text, type=Order), fds[0] if fds else None, rules)
            door.send(msgspec.json.encode(answer))


def carry_out(order: Order, fd: int | None, rules: RuleSet) -> Answer:
    """Read one source into `order.out`. Closes `fd`. What can't be read is an answer, never an exception."""
    foreign = Foreign(order.jobs, expand(order.nodes)) if order.jobs else None
    selector = Selector(rules, order.kind, foreign=foreign)
    try:
        answer = read_output(fd, order, selector) if fd is not None else read_log(order, selector)
    except OSError as problem:
        answer = Answer("partial", f"reading stopped: {problem.strerror or problem}")
    except MemoryError:
        return Answer("partial", "reading took more memory than worker.memory_mb")
    finally:
        if fd is not None:
            os.close(fd)
    return _written(order, answer, selector.finish())


def read_log(order: Order, selector: Selector) -> Answer:
    """Feed the window of a log and of its rotated files to `selector`."""
    try:
        log = Log(order.path, Window(order.start, order.end, order.zone), order.limit)
    except NotReadError as problem:
        return Answer(problem.state, str(problem))
    try:
        for block in log.blocks():
            selector.feed(block)
        return Answer(*_state(log, order, selector.bytes), bytes=log.read_bytes)
    except OSError as problem:
        return Answer("partial", f"{order.path}: reading stopped: {problem.strerror or problem}", bytes=log.read_bytes)
    finally:
        log.close()


def _state(log: Log, order: Order, count: int) -> tuple[CoverageState, str]:
    notes = "; ".join(log.notes)
    if not log.complete:
        return "partial", notes
    if count:
        return "read", notes if log.dated else f"{order.path}: its lines have no date: all of it was taken"
    if log.last is not None and order.start is not None and log.last < order.start - SLACK:
        return "stale", f"{order.path}: its last line is older than the attempt"
    return "empty", f"{order.path}: no line in the attempt's window"


def _written(order: Order, answer: Answer, selection: Selection) -> Answer:
    """The answer with what the selection adds; the kept lines in `order.out`."""
    if answer.state in ("denied", "unreachable"):
        return answer
    try:
        fd = os.open(order.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(as_text(selection))
            if selection.lines:
                file.write(b"\n")
    except OSError as problem:
        return Answer("partial", f"{order.out}: can't be written: {problem.strerror}")
    state = "partial" if selection.cut and answer.state == "read" else answer.state
    return msgspec.structs.replace(answer, state=state, cut=selection.cut, lines=selection.total, wrote=True)


if __name__ == "__main__":
    main(sys.argv)
