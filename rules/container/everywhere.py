"""Container failures: the particular line beside a general one, and what all nodes show alike."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Blame, Change, Confident, Demote, Event, Example, View, event, filter_rule, refiner

GENERAL = (
    "pyxis.import",
    "pyxis.start",
    "enroot.hook",
    "enroot.squash",
    "apt.fatal",
    "docker.start",
    "reg.*",
    "slurm.plugin_stack",
)
NEAR_LINES, NEAR_SECONDS = 40, 60.0


def _near(a: Event, b: Event) -> bool:
    if a.source == b.source:
        return abs(a.line - b.line) <= NEAR_LINES
    timed = a.own_time and b.own_time and a.clock == b.clock and a.time is not None and b.time is not None
    return a.node == b.node and (not timed or abs((a.time or 0.0) - (b.time or 0.0)) <= NEAR_SECONDS)


@filter_rule(
    name="container-log-below-the-failure",
    stage="MID",
    example=Example(
        given=(
            event("pyxis.import", "n1", kind="slurmd", source="a", line=2, time=7.102),
            event("enroot.node", "n1", kind="slurmd", source="a", line=4, time=7.104),
        ),
        expect=("demote pyxis.import",),
        quiet=(
            event("pyxis.import", "n1", kind="slurmd", source="a", line=2, time=7.102),
            event("enroot.node", "n2", kind="slurmd", source="b", line=4, time=7.104),
        ),
    ),
)
def container_log_below_the_failure(view: View) -> Iterable[Change]:
    """Plugins first say that something failed and then print the runtime's log: the later line is the reason."""
    roots = [e for e in view.live() if view.role(e) == "root" and e.emit != "info"]
    reasons: dict[str, list[Event]] = {}
    for general in view.of(*GENERAL):
        if general.symptom not in reasons:
            reasons[general.symptom] = [e for e in roots if view.explains(e, general)]
        reason = next((e for e in reasons[general.symptom] if e.id != general.id and _near(e, general)), None)
        if reason is not None:
            yield Demote(event=general.id, reason=f"the log below says why: {reason.symptom}", by=reason.id)


def _container_roots(view: View) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for e in view.live():
        if view.role(e) == "root" and view.symptoms[e.symptom].domain == "container":
            found.setdefault(e.symptom, []).append(e)
    return found


@refiner(
    name="container-failure-everywhere",
    stage="FINAL",
    example=Example(
        given=(event("enroot.node", "n1", kind="slurmd", time=1.0), event("enroot.node", "n2", kind="slurmd", time=1.5)),
        expect=("blame nobody",),
        quiet=(event("pyxis.args", None, kind="app", line=1),),
    ),
)
def container_failure_everywhere(view: View) -> Iterable[Change]:
    """Two nodes or more that fail alike share the image, the arguments or the site's set-up; one of several alone may
    be that node's fault, or only the first to try.
    """
    roots = _container_roots(view)
    others = [e for e in view.live() if view.role(e) == "root" and view.symptoms[e.symptom].domain != "container"]
    if others:
        return
    for symptom, events in roots.items():
        nodes = {e.node for e in events if e.node is not None}
        if len(nodes) > 1:
            yield Blame(nodes=(), reason=f"{symptom} on {len(nodes)} nodes alike: not one node's fault")
            return
        if len(nodes) == 1 and len(view.attempt.nodes) > 1:
            yield Confident(at_most="medium", reason="one node of several shows it: image and node are both possible")
