"""The same container failure on every node is the image or the arguments, not a node."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Blame, Change, Confident, Event, Example, View, event, refiner


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
