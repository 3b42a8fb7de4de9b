"""A launch that srun says failed on a node, and what the controller knows of that node."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Example, Retag, View, event, filter_rule


@filter_rule(
    name="launch-failed-on-a-silent-node",
    stage="MID",
    example=Example(
        given=(
            event("slurm.launch_fail", "n2", kind="app", source="out", line=3, launch="yes"),
            event("slurm.node_notresp", "n2", kind="slurmctld", time=50.0, silent="yes"),
        ),
        expect=("retag slurm.node_notresp slurm.launch_fail",),
        quiet=(
            event("slurm.launch_fail", "n2", kind="app", source="out", line=3, launch="yes"),
            event("slurm.node_notresp", "n3", kind="slurmctld", time=50.0, silent="yes"),
        ),
    ),
)
def launch_failed_on_a_silent_node(view: View) -> Iterable[Change]:
    """Srun names the node that did not start its tasks, and the controller found the same node silent: two witnesses."""
    if view.of("slurm.node_fail", "slurm.unexpected_reboot"):
        return
    failed = {e.node for e in view.of("slurm.launch_fail") if e.kind == "app" and e.node is not None}
    for e in view.of("slurm.node_notresp"):
        if e.node in failed and e.kind == "slurmctld":
            yield Retag(
                event=e.id, symptom="slurm.launch_fail", reason="srun could not launch on the node that did not answer",
                fields={"launch": "yes"},
            )  # fmt: skip
