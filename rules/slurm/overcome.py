"""What kept a program from starting, and then did not: scripts try again, or go on without."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, View, event, filter_rule

PROGRESS = ("*.progress", "progress.*", "*.last_step")
START = (
    "slurm.exit127", "slurm.exit126", "slurm.module", "slurm.script_fmt", "slurm.options", "slurm.execve", "slurm.launch_fail",
    "slurm.step_nodes", "slurm.launch_gres", "slurm.mpi_plugin", "libnv.init",
)  # fmt: skip


def _starts(view: View) -> list[Event]:
    found = [e for e in view.live() if view.symptoms[e.symptom].domain == "container" and view.role(e) == "root"]
    return [e for e in (*found, *view.of(*START)) if e.kind == "app" and not e.own_time]


@filter_rule(
    name="overcome-at-the-start",
    stage="LATE",
    example=Example(
        given=(
            event("slurm.exit127", "n1", kind="app", source="out", line=3),
            event("app.progress", "n1", kind="app", source="out", line=40, emit="info"),
            event("oom.cuda", "n1", kind="app", source="out", line=41),
        ),
        expect=("demote slurm.exit127",),
        quiet=(
            event("app.progress", "n1", kind="app", source="out", line=2, emit="info"),
            event("slurm.exit127", "n1", kind="app", source="out", line=3),
            event("oom.cuda", "n1", kind="app", source="out", line=41),
        ),
    ),
)
def overcome_at_the_start(view: View) -> Iterable[Change]:
    """A command that was not found, a launch or an image that failed, and below it in the same output a program at work:
    that was overcome. With several nodes the working program may be another one; then the cause has to come after.
    """
    steps = [p for p in view.of(*PROGRESS, live=False) if p.kind == "app"]
    starts = _starts(view)
    mine = {e.id for e in starts}
    others = [e for e in view.live() if e.id not in mine and view.role(e) == "root" and e.kind == "app"]
    for e in starts:
        last = e.last_line or e.line
        step = next((p for p in steps if p.source == e.source and p.line > last), None)
        if step is None:
            continue
        later = any(o.source == e.source and o.line >= step.line for o in others)
        if later or len(view.attempt.nodes) == 1:
            yield Demote(event=e.id, reason="the program was at work after it", by=step.id)


@filter_rule(
    name="ran-without-the-module",
    stage="LATE",
    example=Example(
        given=(
            event("slurm.module", None, kind="app", source="out", line=1),
            event("py.value", None, kind="app", source="out", line=40),
        ),
        expect=("demote slurm.module",),
        quiet=(
            event("slurm.module", None, kind="app", source="out", line=1),
            event("py.import", None, kind="app", source="out", line=4),
        ),
    ),
)
def ran_without_the_module(view: View) -> Iterable[Change]:
    """A module that could not be loaded, and then a program that ran far enough to join a communicator, or to fail in a
    way that has nothing to do with what the module brings.
    """
    for e in view.of("slurm.module"):
        ran = next((c for c in view.of("nccl.*", "comm.*", live=False) if c.kind == "app" and after(c, e)), None)
        other = next((o for o in view.live() if unrelated(view, o, e) and after(o, e)), None)
        by = other or ran
        if by is not None:
            yield Demote(event=e.id, reason="the program ran without it", by=by.id)


def after(later: Event, e: Event) -> bool:
    return later.source != e.source or later.line > e.line


def unrelated(view: View, other: Event, module: Event) -> bool:
    """Whether it is the program's own failure, and none that a missing module brings about."""
    return (
        other.kind == "app"
        and other.symptom not in START
        and view.role(other) == "root"
        and view.symptoms[other.symptom].domain == "application"
        and not other.symptom.startswith(("slurm.", "py.notfound", "nat.glibc", "cuda."))
        and not view.explains(module, other)
    )
