"""No space on what looks like a disk and is memory: multiprocessing keeps its semaphores and arenas in /dev/shm."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Example, Retag, View, event, filter_rule

IN_MEMORY = re2.compile(r"multiprocessing/(?:synchronize|heap|shared_memory|sharedctypes)\.py")


@filter_rule(
    name="no-space-in-shared-memory",
    stage="STANDARD",
    example=Example(
        given=(event("disk.enospc", kind="app", raised_in="python3.10/multiprocessing/synchronize.py:57"),),
        expect=("retag disk.enospc shm.full",),
        quiet=(event("disk.enospc", kind="app", raised_in="torch/serialization.py:849"),),
    ),
)
def no_space_in_shared_memory(view: View) -> Iterable[Change]:
    """The traceback ends in multiprocessing's own memory: /dev/shm is full, not a disk."""
    for e in view.of("disk.enospc"):
        if IN_MEMORY.search(e.fields.get("raised_in", "") + " " + e.fields.get("file", "")):
            yield Retag(event=e.id, symptom="shm.full", reason="the traceback ends in multiprocessing's shared memory")
