"""Services that Slurm leans on: what they said on a node, and whether the job met it."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Example, Retag, View, event, filter_rule

MET = (
    "slurm.munge", "slurm.cred", "slurm.launch_fail", "slurm.socket_timeout", "slurm.node_notresp", "slurm.node_fail",
    "slurm.job_env", "slurm.prolog_fail",
)  # fmt: skip


@filter_rule(
    name="munge-failed-and-nobody-met-it",
    stage="EARLY",
    example=Example(
        given=(event("slurm.munge_unit", "n1", kind="syslog", time=5.0), event("py.import", None, kind="app", line=3)),
        expect=("demote slurm.munge_unit",),
        quiet=(
            event("slurm.munge_unit", "n1", kind="syslog", time=5.0),
            event("slurm.node_notresp", "n1", kind="slurmctld", time=400.0),
        ),
    ),
)
def munge_failed_and_nobody_met_it(view: View) -> Iterable[Change]:
    """Running steps need no credentials: without a launch, a message or a node that failed it ended nothing."""
    met = view.of(*MET)
    for e in view.of("slurm.munge_unit"):
        if not any(x.node in (None, e.node) for x in met):
            yield Demote(event=e.id, reason="no message between Slurm's daemons failed")


@filter_rule(
    name="unknown-user-where-the-directory-is-down",
    stage="MID",
    example=Example(
        given=(
            event("slurm.user_lookup", "n2", kind="app", source="out", line=3),
            event("slurm.directory_down", "n2", kind="syslog", time=50.0),
        ),
        expect=("retag slurm.directory_down slurm.user_lookup",),
        quiet=(
            event("slurm.user_lookup", "n2", kind="app", source="out", line=3),
            event("slurm.directory_down", "n3", kind="syslog", time=50.0),
        ),
    ),
)
def unknown_user_where_the_directory_is_down(view: View) -> Iterable[Change]:
    """A program says that the node does not know the user, and the node's own log says why: two witnesses."""
    asked = {e.node for e in view.of("slurm.user_lookup") if e.kind == "app"}
    for e in view.of("slurm.directory_down"):
        if e.node in asked:
            yield Retag(event=e.id, symptom="slurm.user_lookup", reason="a program on the node found the user unknown")


@filter_rule(
    name="credentials-refused-by-a-wrong-clock",
    stage="MID",
    example=Example(
        given=(
            event("slurm.cred", "n2", kind="slurmd", time=5.0, launch="yes"),
            event("krn.clock", "n2", kind="journal", time=30.0, emit="interesting_node"),
        ),
        expect=("retag slurm.cred slurm.clock_apart",),
        quiet=(
            event("slurm.cred", "n2", kind="slurmd", time=5.0, launch="yes"),
            event("krn.clock", "n3", kind="journal", time=30.0, emit="interesting_node"),
        ),
    ),
)
def credentials_refused_by_a_wrong_clock(view: View) -> Iterable[Change]:
    """A refused credential may be late for many reasons; a clock that was set right on that node is one that is proven."""
    wrong = {e.node for e in view.of("krn.clock", live=False) if e.node is not None}
    for e in view.of("slurm.cred"):
        if e.node in wrong and e.kind != "app":
            yield Retag(event=e.id, symptom="slurm.clock_apart", reason="the node's clock was wrong")
