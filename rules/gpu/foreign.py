"""XIDs that belong to someone else's GPU or process on a shared node."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Neighbour, View, event, filter_rule

# Faults of one process: its pid tells whose they are. The pid of device faults is often a bystander's.
OF_A_PROCESS = (
    "gpu.gr_exception", "gpu.mmu_fault", "gpu.gr_illegal", "gpu.gr_class", "gpu.ecc_contained", "gpu.ctx_killed",
    "gpu.preempt_removal", "gpu.pbdma", "gpu.copy_engine", "gpu.ctxsw_timeout",
)  # fmt: skip
SHARED = ("nvsw.*", "nvl.*", "fm.*", "imex.*", "pcie.*")


def _plain(address: str) -> str:
    """A PCI address as events have it: four digits of domain, no function."""
    parts = address.lower().removeprefix("pci:").split(".")[0].split(":")
    return ":".join([parts[0][-4:], *parts[1:]]) if len(parts) == 3 else "0000:" + ":".join(parts)


def _other_gpu(view: View, e: Event) -> bool:
    record = view.state.nodes.get(e.node or "")
    if record is None or e.gpu is None:
        return False
    known = [g for g in record.gpus if _plain(g.pci) == e.gpu]
    return bool(known) and all(g.mine is False for g in known)


def _neighbour_of(view: View, e: Event) -> str:
    """The neighbour whose process the line names, while it ran there; or nothing."""
    pid = e.fields.get("pid", "")
    for other, start, end in view.state.neighbours:
        during = e.time is None or e.clock != "wall" or (start - 5 <= e.time and (end is None or e.time <= end + 60))
        if e.node in other.nodes and during and pid.isdigit() and int(pid) in other.pids:
            return other.job_id
    return ""


@filter_rule(
    name="xid-of-another-job",
    stage="MID",
    example=Example(
        given=(event("gpu.mmu_fault", "n1", gpu="0000:3b:00", pid="4411", time=5.0),),
        expect=("demote gpu.mmu_fault",),
        quiet=(
            event("gpu.mmu_fault", "n1", gpu="0000:3b:00", pid="5000", time=5.0),
            event("gpu.off_bus", "n1", gpu="0000:3b:00", pid="4411", time=6.0),
        ),
        neighbours=(Neighbour(job_id="77", nodes=("n1",), start="1970-01-01T00:00:00Z", pids=(4411,)),),
    ),
)
def xid_of_another_job(view: View) -> Iterable[Change]:
    """Demote what happened on a GPU that this attempt did not have, or to a process of a neighbour."""
    shared = {e.id for e in view.of(*SHARED)}
    for e in view.of("gpu.*", "amd.*", "nvl.*"):
        if e.id not in shared and _other_gpu(view, e):
            yield Demote(event=e.id, reason="this GPU was not allocated to the attempt")
    for e in view.of(*OF_A_PROCESS):
        job = _neighbour_of(view, e)
        if job:
            yield Demote(event=e.id, reason=f"the process belongs to job {job}, which ran on the node at the same time")


# Exceptions that no fault of a GPU makes a program raise.
OF_THE_CODE = (
    "py.import", "py.syntax", "py.type_attr", "py.value", "py.arith", "py.perm", "py.notfound", "py.argparse", "py.cli_usage",
    "py.config_key", "py.hf_auth", "py.offline_file", "py.abi", "py.tracker", "mg.parallel", "mg.divide", "ds.config", "ds.idx",
    "ds.corrupt", "ds.worker_error", "ds.exhausted", "pt.env_missing", "pt.launch_shape", "pt.shape", "ck.missing", "ck.mismatch",
    "ck.corrupt", "ck.race", "ck.weights_only", "lang.module", "rdzv.addrinuse", "vllm.config", "app.script", "app.download",
)  # fmt: skip
# Whatever a process says that met a fault of its GPU, or that died without a word.
SHOWN = (
    "cuda.*", "cublas.*", "cudnn.*", "nccl.*", "nat.*", "gpu.*", "nvl.*", "oom.*", "vllm.*", "slurm.task_killed",
    "slurm.sigkill9", "py.runtime",
)  # fmt: skip


@filter_rule(
    name="illegal-access-that-the-program-does-not-show",
    stage="LATE",
    example=Example(
        given=(
            event("gpu.mmu_fault", "n1", gpu="0000:3b:00", time=5.0),
            event("py.type_attr", "n1", kind="app", line=9),
        ),
        expect=("demote gpu.mmu_fault",),
        quiet=(
            event("gpu.mmu_fault", "n1", gpu="0000:3b:00", time=5.0),
            event("cuda.ima", "n1", kind="app", line=8),
            event("py.type_attr", "n1", kind="app", line=9),
        ),
    ),
)
def illegal_access_that_the_program_does_not_show(view: View) -> Iterable[Change]:
    """A program whose GPU met an illegal access, or damaged data, says so or is killed; one that stops for a wrong key did
    not meet it.
    """
    faults = view.of("gpu.mmu_fault", "gpu.gr_exception", "gpu.ecc_contained")
    own = view.of(*OF_THE_CODE) if faults else []
    shown = [e for e in view.of(*SHOWN, live=False) if e.kind == "app" and e.emit != "info" and view.role(e) != "context"]
    if not own or shown:
        return
    for e in faults:
        yield Demote(
            event=e.id, reason="the program stopped for a reason of its code, and says nothing of its GPU", by=own[0].id
        )
