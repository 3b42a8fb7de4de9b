"""Ranks that never met at the start, and nothing beside it: how they were launched, or the way between them."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Add, Change, Event, Example, Retag, View, event, filter_rule, second

JAX_START = re2.compile(r"PjRT_Client_Connect|RegisterTask|failed to connect to all addresses|jax\.distributed")
# Nothing waits in these words once the run has begun.
ONLY_AT_START = re2.compile(r"waiting for (?:clients|workers)|store based barrier|PjRT_Client_Connect|RegisterTask")
# torchrun's own wait for the agents of the other nodes, after the workers ended.
AT_THE_END = re2.compile(r"agent_last_member|agent\.terminal_state|exit.barrier")
# What also stands there when ranks did not meet, and says nothing of its own.
BESIDE = ("rdzv.*", "py.echo", "slurm.*", "pt.childfailed", "jax.*", "nat.abort", "nat.terminate", "gloo.timeout", "ray.*")


def alone(view: View, begun: list[Event]) -> bool:
    """No step was made, and no line that could be a cause, or that some cause would leave, stands beside it."""
    steps = view.of("app.progress", "app.checkpoint_saved", "comm.work_done", live=False)
    began = steps and not any(ONLY_AT_START.search(e.text) for e in begun)
    if (
        began
        or any(AT_THE_END.search(e.text) for e in begun)
        or view.attempt.state.split()[:1] not in (["FAILED"], ["TIMEOUT"])
    ):
        return False
    beside = {e.id for e in (*begun, *view.of(*BESIDE))}
    roots = [e for e in view.live() if view.role(e) == "root" and e.emit != "info" and not e.symptom.startswith("slurm.")]
    return not roots and all(e.id in beside or view.role(e) == "context" or e.emit == "info" for e in view.live())


@filter_rule(
    name="ranks-never-met",
    stage="LATE",
    example=Example(
        given=(event("rdzv.store_timeout", kind="app", line=3),),
        expect=("add rdzv.not_met", "add rdzv.no_path"),
        quiet=(event("rdzv.store_timeout", kind="app", line=3), event("oom.cuda", kind="app", line=1)),
    ),
)
def ranks_never_met(view: View) -> Iterable[Change]:
    """The start's own timeout is all that there is. Both ways to it are named; on one node only the launch remains."""
    begun = view.of("rdzv.store_timeout")
    if begun and alone(view, begun):
        yield Add(event=second(begun[0], "rdzv.not_met"), reason="ranks did not meet, and nothing else is in evidence")
        if len(view.attempt.nodes) > 1:
            yield Add(event=second(begun[0], "rdzv.no_path"), reason="a way between the nodes that is closed looks the same")


@filter_rule(
    name="jax-tasks-never-met",
    stage="LATE",
    example=Example(
        given=(event("jax.coord", kind="app", line=3, text="Barrier timed out. Id: PjRT_Client_Connect::0"),),
        expect=("retag jax.coord jax.init_timeout", "add rdzv.no_path"),
        quiet=(event("jax.coord", kind="app", line=3, text="task:3 heartbeat timeout"),),
    ),
)
def jax_tasks_never_met(view: View) -> Iterable[Change]:
    """JAX's first barrier, which all tasks of the job have to come to."""
    begun = [e for e in view.of("jax.coord") if JAX_START.search(e.text)]
    if begun and alone(view, begun):
        if len(view.attempt.nodes) > 1:
            yield Add(event=second(begun[0], "rdzv.no_path"), reason="a way between the nodes that is closed looks the same")
        for e in begun:
            yield Retag(event=e.id, symptom="jax.init_timeout", reason="not all tasks came to the first barrier in time")
