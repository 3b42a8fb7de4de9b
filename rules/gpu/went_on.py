"""A fault that the job got over: it worked on for minutes, and something else came later."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, View, event, filter_rule, until

FAULTS = ("gpu.*", "nvl.*", "nvsw.*", "pcie.*", "amd.*", "ib.flap", "ib.port_down", "eth.link_down", "mem.*", "cpu.*")
PROGRESS = ("*.progress", "progress.*", "*.last_step")
# A watchdog, a retry or a slow step can hide a fault for some time, and not for longer.
WENT_ON = 300.0
# What every failed job prints proves nothing about a device.
ANYONES = ("py.", "nat.", "slurm.", "pt.", "ds.", "mpi.", "ray.")


def _step_after(e: Event, steps: list[Event]) -> Event | None:
    """The first step that the program made well after the event, by their own times."""
    if not e.own_time or e.clock != "wall" or e.time is None:
        return None
    last = until(e)
    return next((p for p in steps if last + WENT_ON < (p.time or 0.0)), None)


def _later(root: Event, step: Event) -> bool:
    """Whether another cause came after the step: by its time, or by its place in the same output."""
    if root.own_time and root.clock == "wall" and root.time is not None:
        return root.time + root.grain >= (step.time or 0.0)
    return root.kind == "app" and (root.source != step.source or root.line > step.line)


def _rival(view: View, symptom: str, step: Event, roots: list[Event]) -> bool:
    """Whether another cause, which this symptom does not explain, came after the step."""
    own = {x.id for x in view.of(*(x.symptom for x in view.symptoms[symptom].explains))}
    return any(r.id not in own and r.symptom != symptom and _later(r, step) for r in roots)


@filter_rule(
    name="faults-that-the-job-got-over",
    stage="LATE",
    example=Example(
        given=(
            event("gpu.ecc_contained", "n1", gpu="0000:5d:00", time=100.0),
            event("app.progress", None, time=900.0, kind="app", emit="info"),
            event("py.arith", None, time=950.0, kind="app"),
        ),
        expect=("demote gpu.ecc_contained",),
        quiet=(
            event("gpu.ecc_contained", "n1", gpu="0000:5d:00", time=100.0),
            event("app.progress", None, time=200.0, kind="app", emit="info"),
            event("py.arith", None, time=950.0, kind="app"),
        ),
    ),
)
def faults_that_the_job_got_over(view: View) -> Iterable[Change]:
    """Steps of the program minutes after a device's fault, and another cause after them: the fault was not why it ended."""
    end = view.state.end or 1e18
    steps = sorted(
        (
            p
            for p in view.of(*PROGRESS, live=False)
            if p.own_time and p.clock == "wall" and p.time is not None and p.time <= end
        ),
        key=lambda p: p.time or 0.0,
    )
    if not steps:
        return
    roots = [e for e in view.live() if view.role(e) == "root" and e.emit in ("bad_node", "bad_peers")]
    known: dict[tuple[str, str], bool] = {}
    for e in view.of(*FAULTS):
        step = _step_after(e, steps) if view.role(e) == "root" else None
        if step is None:
            continue
        key = (e.symptom, step.id)
        if key not in known:
            known[key] = _rival(view, e.symptom, step, roots)
        if known[key]:
            yield Demote(event=e.id, reason="the job worked on for minutes after it, and something else came later")


def _never_met(view: View, e: Event) -> bool:
    """Whether nothing that only a device explains was seen there, and the program stopped for a reason of its own."""
    patterns = [x.symptom for x in view.symptoms[e.symptom].explains]
    met = view.of(*(p for p in patterns if not p.startswith(ANYONES)), live=False)
    if any(m.node in (None, e.node) and not m.before_start and view.role(m) != "context" for m in met):
        return False
    own = {x.id for x in view.of(*patterns)}
    roots = (r for r in view.live() if view.role(r) == "root" and r.kind == "app" and r.symptom.startswith(ANYONES))
    return any(r.id not in own for r in roots)


@filter_rule(
    name="lost-before-the-start-and-never-used",
    stage="LATE",
    example=Example(
        given=(
            event("gpu.off_bus", "n1", gpu="0000:5d:00", time=-600.0, before_start=True),
            event("py.import", None, time=5.0, kind="app"),
        ),
        expect=("demote gpu.off_bus",),
        quiet=(
            event("gpu.off_bus", "n1", gpu="0000:5d:00", time=-600.0, before_start=True),
            event("cuda.ordinal", "n1", time=5.0, kind="app"),
            event("py.import", None, time=6.0, kind="app"),
        ),
    ),
)
def lost_before_the_start_and_never_used(view: View) -> Iterable[Change]:
    """A device's fault from before the start, a program that stops for a reason of its own, and nothing that only the
    device explains: the program ended before it could meet the fault.
    """
    checked: dict[tuple[str, str | None], bool] = {}
    for e in view.of("gpu.*", "nvl.*", "nvsw.*", "pcie.*", "amd.*"):
        if not e.before_start or view.role(e) != "root":
            continue
        key = (e.symptom, e.node)
        if key not in checked:
            checked[key] = _never_met(view, e)
        if checked[key]:
            yield Demote(
                event=e.id, reason="from before the start, and the program stopped for another reason before it met it"
            )
