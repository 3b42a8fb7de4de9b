"""A launch that srun says failed on a node, and what the controller knows of that node."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Example, Retag, View, event, filter_rule


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


@filter_rule(
    name="stale-job-of-a-silent-controller",
    stage="EARLY",
    example=Example(
        given=(
            event("slurm.launch_fail", None, kind="app", source="out", line=3, launch="yes"),
            event("slurm.stale_job", None, kind="app", source="out", line=4),
        ),
        expect=("demote slurm.stale_job",),
        quiet=(
            event("slurm.stale_job", None, kind="app", source="out", line=3),
            event("slurm.launch_fail", None, kind="app", source="out", line=9, launch="yes"),
        ),
    ),
)
def stale_job_of_a_silent_controller(view: View) -> Iterable[Change]:
    """Srun says `Expired or invalid job` whenever it could not confirm the allocation: the line before says why not."""
    failed = [e for e in view.of("slurm.launch_fail", "slurm.munge", "slurm.cred") if e.kind == "app"]
    for e in view.of("slurm.stale_job"):
        why = next((f for f in failed if f.source == e.source and f.line <= e.line <= (f.last_line or f.line) + 2), None)
        if why is not None and "Invalid job id" not in e.text:
            yield Demote(event=e.id, reason="the allocation could not be confirmed", by=why.id)
