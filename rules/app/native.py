"""An uncaught C++ exception with nothing beside it: the program's own."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Example, Retag, View, event, filter_rule

FOREIGN = re2.compile(r"'(?:c10|torch|at|thrust|nccl|cuda|cub|hip|sycl|gloo|raft|rmm|ucxx|tensorrt\w*|nvinfer\w*)\b|bad_alloc")
BESIDE = ("nat.abort", "nat.terminate", "mpi.peer_died", "slurm.*", "py.echo", "rdzv.agent", "ds.launcher")


@filter_rule(
    name="exception-of-its-own",
    stage="LATE",
    example=Example(
        given=(
            event("nat.terminate", kind="app", text="terminate called after throwing an instance of 'std::runtime_error'"),
            event("nat.abort", kind="app", line=4),
        ),
        expect=("retag nat.terminate nat.logic_error",),
        quiet=(
            event("nat.terminate", kind="app", text="terminate called after throwing an instance of 'std::runtime_error'"),
            event("nccl.remote_err", kind="app", line=4),
        ),
    ),
)
def exception_of_its_own(view: View) -> Iterable[Change]:
    """Libraries of GPUs and networks end processes this way; where neither shows any sign, it is the program's own."""
    beside = {e.id for e in view.of(*BESIDE)}
    if any(e.id not in beside and view.role(e) in ("root", "cascade") and e.emit != "info" for e in view.live()):
        return
    for e in view.of("nat.terminate"):
        if "throwing an instance of '" in e.text and not FOREIGN.search(e.text):
            yield Retag(event=e.id, symptom="nat.logic_error", reason="no other line shows why it was thrown")
