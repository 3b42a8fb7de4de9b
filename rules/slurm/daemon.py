"""A daemon that stopped on a node, and whether the job met it."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Example, View, event, filter_rule


@filter_rule(
    name="slurmd-stopped-and-the-job-went-on",
    stage="STANDARD",
    example=Example(
        given=(event("slurm.daemon_fatal", "n1", kind="slurmd", time=5.0), event("py.import", None, kind="app", line=3)),
        expect=("demote slurm.daemon_fatal",),
        quiet=(
            event("slurm.daemon_fatal", "n1", kind="slurmd", time=5.0),
            event("slurm.node_fail", "n1", kind="slurmctld", time=400.0),
        ),
    ),
)
def slurmd_stopped_and_the_job_went_on(view: View) -> Iterable[Change]:
    """Steps live on while slurmd is away: without a lost node or a launch that failed there, it ended no job."""
    for e in view.of("slurm.daemon_fatal", "slurm.daemon_no_gpu_file"):
        if not any(x.node in (None, e.node) and x.id != e.id and view.explains(e, x) for x in view.events):
            yield Demote(event=e.id, reason="no node was lost and no launch failed there")
