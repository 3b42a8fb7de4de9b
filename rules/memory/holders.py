"""Out of GPU memory: who held it, and whether the program had allocated anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import re2

from attribution.rule import Add, Change, Example, Retag, View, event, filter_rule, second

GIB = {"GiB": 1.0, "MiB": 1 / 1024, "KiB": 1 / 1048576}
HOLDER = re2.compile(r"Process (\d{1,9}) has ([\d.]{1,12}) ([GMK]iB) memory in use")
SELF = re2.compile(r"this process has ([\d.]{1,12}) ([GMK]iB) memory in use")
ON_ONE = (
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.10 GiB of which "
    "1.00 GiB is free. Process 4711 has 70.10 GiB memory in use. Including non-PyTorch memory, this process has 7.90 GiB memory in use."
)


@filter_rule(
    name="oom-held-by-another-process",
    stage="STANDARD",
    example=Example(
        given=(event("oom.cuda", kind="app", text=ON_ONE, rank=1),),
        expect=("add oom.cuda_foreign",),
        quiet=(event("oom.cuda", kind="app", text=ON_ONE, rank=1), event("pt.childfailed", kind="app", pid="4711", line=9)),
    ),
)
def held_by_another(view: View) -> Iterable[Change]:
    """Most of the GPU's memory in the hands of a process that is not one of the job: a leftover or a stranger. Ranks of
    the job that share a GPU are no strangers; who can't be told apart stays a second possible cause.
    """
    own = {v for e in view.events for k, v in e.fields.items() if k.startswith("pid") and e.kind == "app"}
    theirs = {str(p) for n, _, _ in view.state.neighbours for p in n.pids}
    cases = [e for e in view.of("oom.cuda") if "this process has" in e.text]
    shared = {e.fields.get("gpu_index") for e in cases}
    if len(cases) > 1 and len(shared) == 1 and len({e.rank for e in cases}) > 1:
        return
    for e in cases:
        mine = SELF.search(e.text)
        held = float(mine.group(1)) * GIB[mine.group(2)] if mine is not None else 0.0
        for pid, size, unit in HOLDER.findall(e.text):
            if pid in own or float(size) * GIB[unit] <= max(held, 1.0):
                continue
            found = dict(e.fields) | {"foreign_pid": pid, "foreign_size": f"{size} {unit}"}
            if pid in theirs:
                yield Retag(
                    event=e.id, symptom="oom.cuda_foreign", reason=f"process {pid} belongs to another job", fields=found
                )
            else:
                reason = f"process {pid}, not known as one of the job, held {size} {unit} of the GPU"
                yield Add(event=second(e, "oom.cuda_foreign", fields=found), reason=reason)
            break


WANTED = re2.compile(r"Tried to allocate ([\d.]{1,12}) ([GMK]iB)")
UNUSED = re2.compile(r"([\d.]{1,12}) ([GMK]iB) is reserved by PyTorch but unallocated")
ALLOCATED = re2.compile(r"([\d.]{1,12}) ([GMK]iB) already allocated")
RESERVED = re2.compile(r"([\d.]{1,12}) ([GMK]iB) reserved in total")
IN_PIECES = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 1.50 GiB "
    "is free. Of the allocated memory 58.00 GiB is allocated by PyTorch, and 17.90 GiB is reserved by PyTorch but unallocated."
)


@filter_rule(
    name="oom-of-memory-in-pieces",
    stage="STANDARD",
    example=Example(
        given=(event("oom.cuda", kind="app", text=IN_PIECES),),
        expect=("add oom.cuda_frag",),
        quiet=(event("oom.cuda", kind="app", text=IN_PIECES.replace("17.90", "1.90")),),
    ),
)
def in_pieces(view: View) -> Iterable[Change]:
    """More memory reserved but not in use than was asked for: it was there, in pieces. A hint, never another cause."""
    for e in view.of("oom.cuda"):
        wanted, unused = size(WANTED, e.text), size(UNUSED, e.text)
        if not unused and RESERVED.search(e.text):
            unused = size(RESERVED, e.text) - size(ALLOCATED, e.text)
        if wanted and unused >= wanted:
            hint = second(e, "oom.cuda_frag", fields={"unused_gib": f"{unused:.2f}"}, emit="interesting_node")
            yield Add(event=hint, reason=f"{unused:.1f} GiB were reserved and not in use, {wanted:.1f} GiB were wanted")


def size(pattern: Any, text: str) -> float:
    found = pattern.search(text)
    return float(found.group(1)) * GIB[found.group(2)] if found is not None else 0.0


BARE = re2.compile(r"CUDA error: out of memory")
FIRST_USE = re2.compile(
    r"(?i)barrier|_lazy_init|set_device|init_process_group|_cuda_init|mem_get_info|initialize|get_device_properties|all_reduce"
)


@filter_rule(
    name="oom-before-any-allocation",
    stage="STANDARD",
    example=Example(
        given=(
            event("oom.cuda", kind="app", text="RuntimeError: CUDA error: out of memory", function="barrier", file="init.py"),
        ),
        expect=("add oom.gpu_unusable",),
        quiet=(
            event("oom.cuda", kind="app", text="RuntimeError: CUDA error: out of memory", function="forward", file="model.py"),
            event("app.progress", kind="app", step="12", emit="info"),
        ),
    ),
)
def before_any_allocation(view: View) -> Iterable[Change]:
    """Out of memory at the first barrier or at initialisation, with no step made: the program had put nothing on the GPU
    yet, so the memory was someone else's or the GPU is sick. Both stay possible.
    """
    if view.of("app.progress"):
        return
    for e in view.of("oom.cuda"):
        where = " ".join(e.fields.get(k, "") for k in ("function", "file", "raised_in", "in_call"))
        if BARE.search(e.text) and FIRST_USE.search(where):
            yield Add(event=second(e, "oom.gpu_unusable", fields=e.fields), reason="nothing of the program was on the GPU yet")
