"""Which errors a run survived, which crashes came after its work was done, and which retries worked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule, until

OURS = (
    "py.*", "pt.*", "ds.*", "dl.*", "ck.*", "num.*", "oom.cuda", "oom.hip", "oom.bad_alloc", "cuda.*", "cublas.*", "cudnn.*",
    "jit.*", "jax.*", "ray.*", "vllm.*", "disk.*", "fs.*", "nfs.stale", "fuse.dead", "shm.full", "nat.*", "mg.parallel", "lang.*", "solver.*",
)  # fmt: skip
OWN_GAP, BORROWED_GAP, LONGEST = 60.0, 300.0, 14 * 86400.0
STEPS_AFTER = 100


@filter_rule(
    name="the-run-went-on",
    stage="STANDARD",
    example=Example(
        given=(
            event("py.value", kind="app", source="a", line=10, time=100.0),
            event("app.progress", kind="app", source="a", line=90, time=400.0, emit="info", step="40"),
        ),
        expect=("demote py.value",),
        quiet=(
            event("py.value", kind="app", source="a", line=95, time=390.0),
            event("app.progress", kind="app", source="a", line=90, time=400.0, emit="info", step="40"),
        ),
    ),
)
def went_on(view: View) -> Iterable[Change]:
    """An error that was caught and logged is not why the run ended: clear progress of the same process came later.
    Output that a dying process flushes may also stand after its traceback, so a few lines are no proof.
    """
    steps: dict[str, list[Event]] = {}
    for e in view.of("app.progress"):
        steps.setdefault(e.source, []).append(e)
    least = 0 if base_state(view) in ENDED else STEPS_AFTER
    deaths: dict[str, list[tuple[int, str]]] = {}
    for d in view.of("slurm.task_exit", "pt.childfailed", "nat.segv", "nat.abort", "nat.sigkill"):
        deaths.setdefault(d.source, []).append((d.line, d.id))
    for lines in deaths.values():
        lines.sort()
    errors = [e for e in view.of(*OURS) if e.kind == "app" and view.role(e) not in ("context", "teardown")]
    last: dict[str, Event] = {}
    for e in errors:
        if view.role(e) == "root" and (e.source not in last or e.line > last[e.source].line):
            last[e.source] = e
    for e in errors:
        of_source = deaths.get(e.source, [])
        after = of_source[bisect_left(of_source, (e.last_line, "")) :][:2]
        death = next((line for line, name in after if name != e.id), None)
        for later in steps.get(e.source, ()):
            died = death is not None and death < later.line
            went_on = by_time(e, later) or by_steps(e, later, least) or by_end(e, later, last.get(e.source))
            if not died and same_process(e, later) and went_on:
                yield Demote(event=e.id, reason=f"the run went on after it (progress at line {later.line})", by=None)
                break


def same_process(e: Event, later: Event) -> bool:
    return e.rank is None or later.rank is None or e.rank == later.rank


def by_time(e: Event, later: Event) -> bool:
    last = until(e)
    if (
        last is None
        or later.time is None
        or not later.own_time
        or later.line <= max(e.line, e.last_line)
        or later.clock != e.clock
    ):
        return False
    return (OWN_GAP if e.own_time else BORROWED_GAP) <= later.time - last <= LONGEST


def by_steps(e: Event, later: Event, least: int) -> bool:
    """Even steps right after the traceback, and a hundred more of them by the end; fewer where Slurm ended the run."""
    at, by = number(e.fields.get("went_on_from")), number(e.fields.get("went_on_by"))
    step = number(later.fields.get("step") or later.fields.get("step2") or later.fields.get("step3"))
    return at is not None and by is not None and step is not None and by > 0 and (step - at) / by >= least


def by_end(e: Event, later: Event, end: Event | None) -> bool:
    """The process ended by another error that stands behind its last step: it dies only once."""
    return (
        end is not None
        and max(e.line, e.last_line) < later.line < end.line
        and end.symptom != e.symptom
        and same_process(e, end)
    )


def base_state(view: View) -> str:
    return (view.attempt.state.split() or [""])[0].rstrip("+")


def number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


CRASHES = (
    "nat.*",
    "py.*",
    "cuda.*",
    "oom.cuda",
    "oom.hip",
    "dl.*",
    "rdzv.agent",
    "rdzv.broken",
    "rdzv.heartbeat",
    "nccl.heartbeat",
    "nccl.abort*",
)
ENDED = frozenset({"CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "REQUEUED", "COMPLETED"})


@filter_rule(
    name="crash-after-planned-exit",
    stage="LATE",
    example=Example(
        given=(
            event("mg.signal_exit", kind="app", source="a", line=3, emit="interesting_node"),
            event("nat.segv", kind="app", source="a", line=4),
        ),
        expect=("retag nat.segv nat.exit_crash",),
        quiet=(
            event("nat.segv", kind="app", source="a", line=2),
            event("mg.signal_exit", kind="app", source="a", line=3, emit="interesting_node"),
        ),
    ),
)
def crash_after_planned_exit(view: View) -> Iterable[Change]:
    """The program said that it stops as planned, and made no step after that: what crashes then is its teardown. Lost
    peers are no crash, and what speaks of hardware, network or storage stays.
    """
    state = base_state(view)
    steps = view.of("app.progress")
    for planned in view.of("mg.signal_exit"):
        if any(s.source == planned.source and s.line > planned.line for s in steps):
            continue
        for e in view.of(*CRASHES):
            if e.source != planned.source or e.line <= planned.line or view.role(e) in ("context", "teardown"):
                continue
            if state in ENDED or view.role(e) == "cascade":
                yield Demote(event=e.id, reason="it came after the program's own planned exit", by=planned.id)
            elif e.symptom.startswith("nat.") and e.symptom != "nat.exit_crash":
                yield Retag(event=e.id, symptom="nat.exit_crash", reason="it came after the program's own planned exit")


@filter_rule(
    name="crash-after-the-work",
    stage="LATE",
    example=Example(
        given=(
            event("comm.work_done", kind="app", source="a", line=3, emit="info", text="Training completed in 3:12:04"),
            event("nat.segv", kind="app", source="a", line=4),
        ),
        expect=("retag nat.segv nat.exit_crash",),
        quiet=(
            event("comm.work_done", kind="app", source="a", line=3, emit="info", text="100%|####| 50/50 [00:01<00:00]"),
            event("nat.segv", kind="app", source="a", line=4),
        ),
    ),
)
def crash_after_the_work(view: View) -> Iterable[Change]:
    """The program said that its work is done, made no step after that, and crashed on its way out."""
    steps = view.of("app.progress")
    for done in view.of("comm.work_done"):
        if "%|" in done.text or any(s.source == done.source and s.line > done.line for s in steps):
            continue
        for e in view.of("nat.segv", "nat.bus", "nat.heap"):
            if e.source == done.source and e.line > done.line:
                yield Retag(event=e.id, symptom="nat.exit_crash", reason="it came after the program said that its work is done")


WAITING = ("nccl.watchdog", "nccl.heartbeat", "gloo.*", "rdzv.store_timeout", "slurm.timeout", "dl.timeout", "jax.coord")


@filter_rule(
    name="retry-that-worked",
    stage="LATE",
    example=Example(
        given=(event("ds.stream_timeout", kind="app", source="a", line=5),),
        expect=("demote ds.stream_timeout",),
        quiet=(
            event("ds.stream_timeout", kind="app", source="a", line=5),
            event("dl.timeout", kind="app", source="a", line=4),
        ),
    ),
)
def retry_that_worked(view: View) -> Iterable[Change]:
    """A slow request is a cause only where ranks then waited too long; where a node's own log shows a fault, it is not
    needed as one.
    """
    other = [e for e in view.live() if e.kind not in ("app", "record") and view.role(e) == "root" and e.emit != "info"]
    waiting = view.of(*WAITING)
    steps = view.of("app.progress") if waiting else []
    for e in view.of("ds.stream_timeout"):
        if "file" in e.fields:
            continue
        after = [s for s in steps if s.source == e.source and s.line > e.line]
        if not waiting:
            yield Demote(event=e.id, reason="requests are repeated, and nothing shows that ranks waited for this one")
        elif len(after) > 1:
            yield Demote(event=e.id, reason="steps were made after it", by=after[0].id)
        elif other:
            yield Demote(event=e.id, reason=f"{other[0].symptom} is shown by a log of the node", by=other[0].id)


@filter_rule(
    name="heartbeat-of-a-living-task",
    stage="LATE",
    example=Example(
        given=(event("jax.coord", kind="app", task="/job:jax_worker/replica:0/task:0"),),
        expect=("retag jax.coord jax.init_timeout",),
        quiet=(event("jax.coord", kind="app", task="/job:jax_worker/replica:0/task:0"), event("py.value", kind="app")),
        attempt={"nodes": ("n1",)},
    ),
)
def heartbeat_of_a_living_task(view: View) -> Iterable[Change]:
    """One node, one task, and it reports the loss of its own heartbeat: it was alive, and too busy to answer in time."""
    roots = [e for e in view.live() if view.role(e) == "root" and e.emit != "info" and e.kind != "record"]
    lost = view.of("jax.coord")
    if len(view.attempt.nodes) > 1 or roots or len({e.fields.get("task") for e in lost} - {None}) != 1:
        return
    for e in lost:
        yield Retag(
            event=e.id, symptom="jax.init_timeout", reason="no other task was there to die, and this one reported it itself"
        )


@filter_rule(
    name="device-error-seen-by-driver",
    stage="LATE",
    example=Example(
        given=(event("cuda.other", kind="app", source="a"), event("gpu.off_bus", "n1", kind="kern", source="k")),
        expect=("demote cuda.other",),
        quiet=(event("cuda.other", kind="app", source="a"), event("py.value", kind="app", source="a")),
    ),
)
def seen_by_driver(view: View) -> Iterable[Change]:
    """What the CUDA runtime reports of a device, the driver's own line on a node of the attempt says better."""
    drivers = [
        e for e in view.of("gpu.*", "nvl.*", "nvsw.*") if e.kind != "app" and view.role(e) == "root" and e.emit == "bad_node"
    ]
    for e in view.of("cuda.other", "cuda.peer", "gpu.external_api", "cublas.alloc", "oom.gpu_unusable", "jax.xla_error"):
        for driver in drivers:
            same = e.node is None or driver.node is None or e.node == driver.node
            if same and not (e.own_time and driver.own_time and (e.time or 0.0) < (driver.time or 0.0) - 60):
                yield Demote(event=e.id, reason=f"the driver's own line says it: {driver.symptom}", by=driver.id)
                break


CRASHED = ("139:0", "0:11", "0:139")


@filter_rule(
    name="crash-only-in-kernel-log",
    stage="LATE",
    example=Example(
        given=(event("nat.segv_kernel", "n1", program="md.x", pid="4", emit="interesting_node", time=900.0),),
        expect=("retag nat.segv_kernel nat.segv",),
        quiet=(event("nat.segv_kernel", "n1", program="sshd", pid="4", emit="interesting_node", time=900.0),),
        attempt={"exit_code": "139:0"},
    ),
)
def crash_only_in_kernel_log(view: View) -> Iterable[Change]:
    """The attempt ended by signal 11 and its output does not say so: the kernel's record of the crash speaks for it."""
    codes = {view.attempt.exit_code, *(s.exit_code for s in view.attempt.steps)}
    if not codes & set(CRASHED) or view.of("nat.segv", "nat.bus", live=False):
        return
    for e in view.of("nat.segv_kernel"):
        if e.fields.get("program", "") not in SYSTEM and not e.before_start:
            yield Retag(event=e.id, symptom="nat.segv", reason="the attempt ended by this signal, and no other line says where")


SYSTEM = frozenset(
    {
        "sshd",
        "systemd",
        "slurmd",
        "slurmstepd",
        "munged",
        "nscd",
        "sssd",
        "dbus-daemon",
        "rsyslogd",
        "nvidia-smi",
        "dcgmi",
        "nv-hostengine",
        "node_exporter",
        "snmpd",
    }
)
