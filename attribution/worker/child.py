"""A slot's process: it judges one bundle at a time, and may die over it without harming anything else.

`python -m attribution.worker.child FD MEMORY_MB CPU_SECONDS TRUSTED RULE_DIR...`, started by pool.py alone.
"""

from __future__ import annotations

import math
import resource
import signal
import socket
import sys
from pathlib import Path

from attribution import pipeline, ruleset
from attribution.engine.rules import RuleSet
from attribution.errors import RuleError, SattribError
from attribution.report.line import comment_line
from attribution.worker.wire import Answer, Broken, Message, Ready, Refused, Step, pack, receive_task


def main(arguments: list[str]) -> int:
    """Serve until the worker closes its end. Gives the exit code."""
    descriptor, memory_mb, cpu_seconds, trusted, *dirs = arguments
    # A Ctrl-C on the terminal is the worker's to deal with.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = int(memory_mb) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    connection = socket.socket(fileno=int(descriptor))
    try:
        rules = ruleset.load(tuple(Path(name) for name in dirs), samples=False)
    except (RuleError, MemoryError) as problem:
        connection.sendall(pack(Broken(what=str(problem) or type(problem).__name__)))
        return 1
    connection.sendall(pack(Ready(rules=rules.hash)))
    while (task := receive_task(connection)) is not None:
        _limit_cpu(int(cpu_seconds))
        connection.sendall(pack(_judge(connection, Path(task.folder), rules, trusted=trusted == "1")))
    return 0


def _limit_cpu(seconds: int) -> None:
    """The soft limit counts over the life of the process, so it is raised for each task. It ends in SIGXCPU."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _judge(connection: socket.socket, folder: Path, rules: RuleSet, *, trusted: bool) -> Message:
    def step(name: str) -> None:
        connection.sendall(pack(Step(name=name)))

    try:
        analyzed = pipeline.analyze_bundle(folder, rules=rules, trusted_files=trusted, step=step)
        aliases = {name: symptom.aliases for name, symptom in rules.symptoms.items()}
        return Answer(analyzed=analyzed, line=comment_line(analyzed.verdict, aliases))
    except (SattribError, Exception) as problem:  # noqa: BLE001 - one attempt's bug must not be another's
        return Refused(name=type(problem).__name__, what=str(problem)[:500])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
