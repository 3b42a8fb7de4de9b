"""srun's labels: `3: ` before a line is task 3, and srun says at the end on which node task 3 was."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule

LABEL = re2.compile(r"^ *\d{1,6}: ")
MOST = 4096
# What a node's set-up makes a task print: there it matters which node it was.
ASKED = (
    "slurm.chdir", "slurm.execve", "slurm.user_lookup", "slurm.cgroup", "py.notfound", "ds.idx", "cuda.nodevice", "cuda.nvml",
    "cuda.unknown", "cuda.mismatch", "cuda.insufficient", "cuda.init_warned", "fm.cuda_*", "libnv.*", "enroot.*", "pyxis.*",
    "apt.*", "docker.start", "ctr.*", "amd.kfd",
)  # fmt: skip


def _tasks(text: str) -> Iterable[int]:
    for part in text.strip("[]").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and int(last or first) - int(first) < MOST:
            yield from range(int(first), int(last or first) + 1)


def _places(view: View, source: str) -> dict[int, str | None]:
    """For each task that srun speaks of in this output, its node; None where it speaks of two."""
    found: dict[int, str | None] = {}
    for e in view.of("slurm.task_exit", "slurm.task_killed", live=False):
        if e.source == source and e.node is not None:
            for task in _tasks(e.fields.get("tasks", "")):
                found[task] = e.node if found.get(task, e.node) == e.node else None
    return found


def _labelled(e: Event) -> bool:
    return e.rank is not None and "node" not in e.fields and LABEL.match(e.text) is not None


@filter_rule(
    name="srun-says-where-a-task-ran",
    stage="EARLY",
    example=Example(
        given=(
            event("slurm.task_exit", "n2", kind="app", source="out", line=9, tasks="4-7", code="1", emit="interesting_node"),
            event(
                "cuda.nodevice",
                "n1",
                kind="app",
                source="out",
                line=3,
                rank=5,
                text="5: RuntimeError: No CUDA GPUs are available",
            ),
        ),
        expect=("retag cuda.nodevice cuda.nodevice",),
        quiet=(
            event("slurm.task_exit", "n2", kind="app", source="out", line=9, tasks="4-7", code="1", emit="interesting_node"),
            event("cuda.nodevice", "n1", kind="app", source="out", line=3, rank=5, text="[rank5]: No CUDA GPUs are available"),
        ),
    ),
)
def srun_says_where_a_task_ran(view: View) -> Iterable[Change]:
    """The output is written on one node; a labelled line belongs to the node of its task."""
    for source in sorted({e.source for e in view.of(*ASKED) if _labelled(e)}):
        places = _places(view, source)
        for e in view.of(*ASKED):
            node = places.get(e.rank) if e.source == source and _labelled(e) and e.rank is not None else None
            if node is not None and node != e.node:
                yield Retag(event=e.id, symptom=e.symptom, node=node, reason=f"srun says that task {e.rank} was on {node}")
