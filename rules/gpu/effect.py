"""Faults beside a job's own work count only where the job shows them."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule

# Services, slots and monitors: they can be out of order for days without any job noticing.
ASIDE = (
    "fm.down", "fm.restarted", "fm.fabric_state", "fm.partition", "fm.topology", "fm.version", "fm.inband", "imex.down",
    "pcie.link_down", "amd.psp_smu", "gpu.lost_nvml", "gpu.reset_required", "gpu.count_mismatch", "gpu.api_mismatch", "gpu.not_taken",
    "nvl.bw_low",
)  # fmt: skip
# What every failed job prints proves nothing about a device; a refused request for GPUs does.
TELLING = ("slurm.launch_gres",)
ANYONES = ("py.", "nat.", "slurm.", "pt.", "ds.", "mpi.", "ray.")


def _shown(view: View, cause: Event) -> bool:
    """Whether something that this fault explains was seen at its node, or where no node is named."""
    wanted = [
        x.symptom for x in view.symptoms[cause.symptom].explains if x.symptom in TELLING or not x.symptom.startswith(ANYONES)
    ]
    effects = view.of(*wanted, live=False) if wanted else []
    return any(e.node in (None, cause.node) and e.id != cause.id and view.role(e) != "context" for e in effects)


@filter_rule(
    name="faults-that-the-job-does-not-show",
    stage="STANDARD",
    example=Example(
        given=(event("fm.inband", "n1", time=5.0, kind="fabricmanager"),),
        expect=("demote fm.inband",),
        quiet=(event("fm.inband", "n1", time=5.0, kind="fabricmanager"), event("fm.nvls", None, time=9.0, kind="app")),
    ),
)
def faults_that_the_job_does_not_show(view: View) -> Iterable[Change]:
    """Fabric Manager, IMEX, an empty slot, a monitor's complaint: without an effect in the job they are not its cause."""
    for e in view.of(*ASIDE):
        if e.kind not in ("app", "metric", "record") and not _shown(view, e):
            yield Demote(event=e.id, reason="nothing of the job shows that it mattered")


# What a rank prints at its start when its node was not in order before.
FIRST_WORDS = (
    "fm.cuda_not_init",
    "fm.nvls",
    "imex.import",
    "cuda.ordinal",
    "cuda.nodevice",
    "cuda.nvml",
    "cuda.unknown",
    "amd.hip_other",
)


@filter_rule(
    name="first-words-of-a-rank-without-a-node",
    stage="MID",
    example=Example(
        given=(event("fm.version", "n2", time=-50.0), event("fm.cuda_not_init", None, time=9.0, kind="app")),
        expect=("retag fm.cuda_not_init fm.cuda_not_init",),
        quiet=(
            event("fm.version", "n2", time=-50.0),
            event("fm.version", "n3", time=-50.0),
            event("fm.cuda_not_init", None, time=9.0, kind="app"),
        ),
    ),
)
def first_words_of_a_rank_without_a_node(view: View) -> Iterable[Change]:
    """A line that names no node speaks of the one node that was out of order before the start, where only one was."""
    start = view.state.start
    old = [
        e
        for e in view.live()
        if start is not None and e.clock == "wall" and (e.time or start) < start and view.role(e) == "root"
    ]
    places: dict[str, set[str]] = {}
    for c in old:
        for x in view.symptoms[c.symptom].explains if c.node else ():
            places.setdefault(x.symptom, set()).add(c.node)
    for e in view.of(*FIRST_WORDS) if old else ():
        nodes = places.get(e.symptom, ())
        if e.node is None and e.kind == "app" and len(nodes) == 1:
            (node,) = nodes
            yield Retag(event=e.id, symptom=e.symptom, node=node, reason=f"only {node} was out of order before the start")


LOST = ("gpu.off_bus", "gpu.off_bus_no_xid", "gpu.rpc_lost", "gpu.lost_nvml", "gpu.rminit", "gpu.gsp_*", "pcie.gpu_link")


@filter_rule(
    name="lost-gpu-keeps-the-job-from-starting",
    stage="MID",
    example=Example(
        given=(
            event("gpu.off_bus", "n1", time=-50.0, before_start=True),
            event("slurm.prolog_fail", "n1", time=3.0, kind="slurmd", launch="yes"),
        ),
        expect=("retag gpu.off_bus gpu.off_bus",),
        quiet=(
            event("gpu.off_bus", "n1", time=-50.0, before_start=True),
            event("slurm.prolog_fail", "n2", time=3.0, kind="slurmd", launch="yes"),
        ),
    ),
)
def lost_gpu_keeps_the_job_from_starting(view: View) -> Iterable[Change]:
    """A prolog that fails on the node whose GPU was lost before: the job did not come to run because of the GPU."""
    refused = {e.node for e in view.of("slurm.prolog_*") if e.fields.get("launch") == "yes" and e.node}
    for e in view.of(*LOST) if refused else ():
        if e.node in refused and e.before_start:
            yield Retag(event=e.id, symptom=e.symptom, reason="the prolog failed there", fields={"launch": "yes"})
