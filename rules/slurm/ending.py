"""How the attempt ended, and what stands behind it: a named node, a hang, a planned stop, or an exit code alone."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, Stated, View, event, filter_rule, until

ENDINGS = ("slurm.timeout", "slurm.deadline", "slurm.inactive", "slurm.cancel_user", "slurm.cancel_admin")
PLANNED = (*ENDINGS, "slurm.timeout_hang", "slurm.preempt", "slurm.requeue", "slurm.dependency", "mg.signal_exit")
WEAK = ("slurm.sigkill9", "slurm.sigterm15", "slurm.exit127", "slurm.exit126", "slurm.exit53", "slurm.exit_signal")
PROGRESS = ("*.progress", "progress.*", "*.last_step")
# Lines that say that a rank stands still; others only say that a peer has gone.
HANGING = ("nccl.watchdog", "nccl.heartbeat", "hvd.stall", "krn.hung_task")
MARGIN = 60.0
WENT_ON = 300.0
SILENT_LEAST, SILENT_PART = 1800.0, 0.5
MEANS = {
    "TIME LIMIT": "slurm.timeout", "PREEMPTION": "slurm.preempt", "JOB REQUEUE": "slurm.requeue", "DEADLINE": "slurm.deadline",
}  # fmt: skip


def marks(view: View) -> dict[str, Event]:
    """For each application source, the first line that says that Slurm ends the attempt."""
    found: dict[str, Event] = {}
    for e in view.of("slurm.kill_notice", "slurm.step_cancel", live=False):
        if e.kind == "app" and e.fields.get("kill") != "no" and (e.source not in found or e.line < found[e.source].line):
            found[e.source] = e
    return found


def roots(view: View) -> list[Event]:
    """Live events that can be a cause, apart from the ends themselves and bare exit codes."""
    apart = {*PLANNED, *WEAK}
    return [e for e in view.live() if view.role(e) == "root" and e.emit in ("bad_node", "bad_peers") and e.symptom not in apart]


def progress_after(view: View, e: Event) -> Event | None:
    """A line that shows the program at work well after the event; only lines with a time of their own tell."""
    if not e.own_time or e.time is None:
        return None
    last = until(e)
    end = view.state.kill_time or view.state.end or 1e18
    later = (p for p in view.of(*PROGRESS, live=False) if p.own_time and p.clock == e.clock and p.time is not None)
    return next((p for p in later if last + WENT_ON < (p.time or 0.0) <= end), None)


def was_before(e: Event, kill: float | None, lines: dict[str, Event]) -> bool:
    """Whether the event is clearly older than the end: by its own time, or by its place in the output."""
    if e.own_time and e.clock == "wall" and e.time is not None and kill is not None:
        return e.time <= kill - MARGIN
    mark = lines.get(e.source)
    return mark is not None and e.line < mark.line


@filter_rule(
    name="hang-behind-the-end",
    stage="LATE",
    example=Example(
        attempt={"state": "TIMEOUT", "kill_time": 1000.0},
        given=(
            event("slurm.timeout", None, kind="record", time=1000.0),
            event("lustre.evict", "n2", time=300.0),
        ),
        expect=("demote slurm.timeout",),
        quiet=(
            event("slurm.timeout", None, kind="record", time=1000.0),
            event("lustre.evict", "n2", time=990.0),
        ),
    ),
)
def hang_behind_the_end(view: View) -> Iterable[Change]:
    """People cancel what hangs, and the limit ends it: a fault that is clearly older than the kill, and after which
    nothing moved, is the cause. Signs of a hang without a fault make it a hang of unknown cause.
    """
    ends = [e for e in view.of(*ENDINGS) if e.emit == "bad_node"]
    if not ends:
        return
    kill = view.state.kill_time or next((e.time for e in ends if e.own_time), None)
    lines = marks(view)
    older = [r for r in roots(view) if was_before(r, kill, lines) and progress_after(view, r) is None]
    if older:
        cause = older[0]
        for e in ends:
            yield Demote(event=e.id, reason=f"it only ended what {cause.symptom} had stopped before", by=cause.id)
        return
    hung = hang_sign(view, kill, lines)
    if hung:
        for e in ends:
            yield Retag(event=e.id, symptom="slurm.timeout_hang", reason=hung)


def hang_sign(view: View, kill: float | None, lines: dict[str, Event]) -> str:
    """Why the attempt had stopped moving before the kill; empty where nothing says so, or where it was leaving by itself."""
    if view.of("mg.signal_exit", live=False):
        return ""
    for e in view.of(*HANGING):
        if was_before(e, kill, lines) and progress_after(view, e) is None:
            return f"{e.symptom} is older than the kill"
    start = view.state.start
    steps = [p.time for p in view.of(*PROGRESS, live=False) if p.own_time and p.clock == "wall" and p.time is not None]
    steps = [t for t in steps if kill is not None and start is not None and start <= t <= kill]
    if kill is None or start is None or not steps:
        return ""
    silent = kill - max(steps)
    return (
        f"no progress in the last {silent / 60:.0f} minutes" if silent > max(SILENT_LEAST, SILENT_PART * (kill - start)) else ""
    )


@filter_rule(
    name="the-job-went-on",
    stage="LATE",
    example=Example(
        attempt={"state": "TIMEOUT", "kill_time": 9000.0, "end": 9000.0},
        given=(event("lustre.evict", "n1", time=300.0), event("fs.recovered", "n1", time=310.0)),
        expect=(),
    ),
)
def the_job_went_on(view: View) -> Iterable[Change]:
    """Where Slurm or a person ended the attempt, a fault after which it worked on for minutes is not why."""
    if not view.of(*PLANNED):
        return
    for e in roots(view):
        step = progress_after(view, e)
        if step is not None:
            yield Demote(event=e.id, reason="the program worked on for minutes after it", by=step.id)


@filter_rule(
    name="node-fail-is-stated",
    stage="MID",
    example=Example(
        attempt={"state": "NODE_FAIL"},
        given=(event("slurm.node_fail", "n3", kind="record", time=1000.0), event("slurm.exit127", None, kind="app")),
        expect=("stated slurm.node_fail",),
        quiet=(event("slurm.node_fail", "n3", kind="app"),),
    ),
)
def node_fail_is_stated(view: View) -> Iterable[Change]:
    """The record's FailedNode and slurmctld's own lines say which node was lost; the program's output only repeats it."""
    for e in view.of("slurm.node_fail"):
        if e.node is not None and e.kind in ("record", "slurmctld") and not e.stated:
            yield Stated(event=e.id, reason=f"Slurm names {e.node} as the node that failed")


@filter_rule(
    name="node-fail-named-by-srun",
    stage="EARLY",
    example=Example(
        attempt={"state": "NODE_FAIL"},
        given=(event("slurm.node_fail", None, kind="record", time=1000.0), event("slurm.node_fail", "n2", kind="app", line=9)),
        expect=("retag slurm.node_fail slurm.node_fail",),
        quiet=(
            event("slurm.node_fail", "n3", kind="slurmctld", time=990.0),
            event("slurm.node_fail", None, kind="record", time=1000.0),
        ),
    ),
)
def node_fail_named_by_srun(view: View) -> Iterable[Change]:
    """A NODE_FAIL record without a node is completed by srun's line, where that names exactly one."""
    found = view.of("slurm.node_fail")
    named = {e.node for e in found if e.node is not None}
    bare = [e for e in found if e.kind == "record" and e.node is None]
    if len(named) == 1 and bare and all(e.kind == "app" for e in found if e.node is not None):
        yield Retag(
            event=bare[0].id,
            symptom="slurm.node_fail",
            reason="srun names the node",
            node=named.pop(),
            fields={"named_by": "srun"},
        )


@filter_rule(
    name="pmix-before-node-fail",
    stage="LATE",
    example=Example(
        attempt={"state": "NODE_FAIL"},
        given=(
            event("slurm.pmix_wireup", None, kind="app", source="err", line=1),
            event("slurm.node_fail", "n2", kind="app", source="err", line=4),
            event("slurm.node_fail", "n2", kind="record", source="rec", named_by="srun", time=1000.0),
        ),
        expect=("demote slurm.node_fail", "retag slurm.node_fail slurm.pmix_wireup"),
        quiet=(
            event("slurm.node_fail", "n2", kind="record", source="rec", time=1000.0),
            event("slurm.pmix_wireup", None, kind="app", source="err", line=1),
        ),
    ),
)
def pmix_before_node_fail(view: View) -> Iterable[Change]:
    """PMIx that could not wire up the ranks, before any of them printed a line, and only then a node that srun calls
    failed: the wire-up is the matter, and the node is where it showed.
    """
    pmix = view.of("slurm.pmix_wireup")
    record = [e for e in view.of("slurm.node_fail") if e.kind == "record" and e.fields.get("named_by") == "srun"]
    app = [e for e in view.of("slurm.node_fail", live=False) if e.kind == "app"]
    if not pmix or not record or any(p.own_time for p in view.of(*PROGRESS, live=False)):
        return
    if any(p.source == a.source and p.line < a.line for p in pmix for a in app):
        yield Retag(event=record[0].id, symptom="slurm.pmix_wireup", reason="the node failed while PMIx wired up the ranks")
        for e in app:
            yield Demote(event=e.id, reason="the wire-up had failed before", by=pmix[0].id)


@filter_rule(
    name="kill-notice-counts",
    stage="MID",
    example=Example(
        given=(event("slurm.kill_notice", None, kind="app", why="TIME LIMIT", kill="yes"),),
        expect=("retag slurm.kill_notice slurm.timeout",),
        quiet=(
            event("slurm.kill_notice", None, kind="app", why="TIME LIMIT", kill="yes"),
            event("slurm.timeout", None, kind="record"),
        ),
    ),
)
def kill_notice_counts(view: View) -> Iterable[Change]:
    """Where the record only says FAILED (a step's own limit), slurmstepd's notice is what tells the reason."""
    known = view.of(*PLANNED, "slurm.node_fail")
    if known:
        return
    for e in view.of("slurm.kill_notice"):
        symptom = MEANS.get(e.fields.get("why", "").upper())
        if symptom is not None and e.fields.get("kill") == "yes":
            yield Retag(event=e.id, symptom=symptom, reason="slurmstepd states why it ended the step")


@filter_rule(
    name="after-a-cancelled-step",
    stage="MID",
    example=Example(
        attempt={"state": "CANCELLED by 5", "kill_time": 1000.0},
        given=(
            event("slurm.step_cancel", None, kind="app", source="out", line=10),
            event("slurm.exit127", None, kind="app", source="out", line=12),
        ),
        expect=("demote slurm.exit127",),
        quiet=(
            event("slurm.exit127", None, kind="app", source="out", line=9),
            event("slurm.step_cancel", None, kind="app", source="out", line=10),
        ),
    ),
)
def after_a_cancelled_step(view: View) -> Iterable[Change]:
    """In a cancelled attempt, what is printed after the first line that says so is teardown. (In others a step is also
    cancelled because one of its tasks had failed: then what follows may be the reason.)
    """
    ended = any(e.kind == "record" for e in view.of(*ENDINGS, "slurm.preempt", live=False))
    if view.state.kill_time is None and not ended:
        return
    lines = marks(view)
    for e in view.live():
        mark = lines.get(e.source)
        if e.symptom.startswith("slurm.prolog"):
            continue  # a cancellation makes no prolog fail
        if mark is not None and e.line > mark.line and not e.own_time and view.role(e) in ("root", "cascade"):
            yield Demote(event=e.id, reason="printed after the step was cancelled", by=mark.id)


@filter_rule(
    name="cancelled-by-someone-else",
    stage="MID",
    example=Example(
        attempt={"state": "CANCELLED by 7", "uid": 1004},
        given=(event("slurm.cancel_user", None, kind="record", uid="7"),),
        expect=("retag slurm.cancel_user slurm.cancel_admin",),
        quiet=(event("slurm.cancel_user", None, kind="record", uid="1004"),),
    ),
)
def cancelled_by_someone_else(view: View) -> Iterable[Change]:
    """A cancel by a uid that is not the job's owner's is an operator's or a coordinator's."""
    for e in view.of("slurm.cancel_user"):
        uid = e.fields.get("uid", "")
        if uid.isdigit() and view.attempt.uid is not None and int(uid) != view.attempt.uid:
            yield Retag(
                event=e.id, symptom="slurm.cancel_admin", reason=f"cancelled by uid {uid}, not by its owner {view.attempt.uid}"
            )


@filter_rule(
    name="a-known-cancellation",
    stage="EARLY",
    example=Example(
        attempt={"state": "CANCELLED"},
        given=(
            event("slurm.cancel_user", None, kind="record", line=1),
            event("slurm.cancel_admin", None, kind="record", line=2, uid="root"),
        ),
        expect=("demote slurm.cancel_user",),
        quiet=(event("slurm.cancel_user", None, kind="record", line=1),),
    ),
)
def a_known_cancellation(view: View) -> Iterable[Change]:
    """A bare CANCELLED is taken for the user's; where the record knows who it was, that counts."""
    known = [e for e in view.of("slurm.cancel_admin") if e.kind == "record" and "uid" in e.fields]
    for e in view.of("slurm.cancel_user") if known else ():
        if "uid" not in e.fields:
            yield Demote(event=e.id, reason=f"the record names who cancelled it: {known[0].fields['uid']}", by=known[0].id)


@filter_rule(
    name="exit-codes-alone",
    stage="LATE",
    example=Example(
        given=(
            event("slurm.exit_signal", None, kind="record", time=1000.0),
            event("slurm.sigkill9", None, kind="record", time=1000.0),
            event("pyxis.args", None, kind="app", line=3),
        ),
        expect=("demote slurm.exit_signal", "demote slurm.sigkill9"),
        quiet=(event("slurm.sigkill9", None, kind="record", time=1000.0), event("slurm.task_killed", None, kind="app", line=3)),
    ),
)
def exit_codes_alone(view: View) -> Iterable[Change]:
    """An exit code or signal in the record counts only where no line says what happened."""
    weak = [e for e in view.of(*WEAK) if e.kind == "record"]
    better = roots(view)
    spoken = {e.symptom for e in view.live() if e.kind != "record"}
    for e in weak:
        if better:
            yield Demote(event=e.id, reason="an exit code; other lines say what happened", by=better[0].id)
        elif e.symptom == "slurm.exit_signal" and any(
            view.symptoms[s].role == "cascade" and view.symptoms[s].domain == "unknown" for s in spoken - {"slurm.task_killed"}
        ):
            yield Demote(event=e.id, reason="the process died of what the collective's own lines report")


@filter_rule(
    name="killed-after-another-task",
    stage="MID",
    example=Example(
        given=(
            event("slurm.task_exit", "n1", kind="app", source="out", line=1, code="1", emit="interesting_node"),
            event("slurm.task_killed", "n2", kind="app", source="out", line=2),
        ),
        expect=("demote slurm.task_killed",),
        quiet=(event("slurm.task_killed", "n2", kind="app", line=2),),
    ),
)
def killed_after_another_task(view: View) -> Iterable[Change]:
    """After one task has failed, srun kills the other tasks: their SIGKILL says nothing."""
    failed = [e for e in view.of("slurm.task_exit") if e.fields.get("signal") not in ("Terminated", "Hangup", "Interrupt")]
    for e in view.of("slurm.task_killed"):
        first = next((f for f in failed if f.source == e.source and "slurm_script" not in e.text), None)
        if first is not None:
            yield Demote(event=e.id, reason="another task had ended in its own way", by=first.id)


@filter_rule(
    name="gres-after-a-lost-gpu",
    stage="LATE",
    example=Example(
        given=(event("slurm.launch_gres", None, kind="app", line=1), event("gpu.off_bus", "n1", time=5.0)),
        expect=("demote slurm.launch_gres",),
        quiet=(event("slurm.launch_gres", None, kind="app", line=1),),
    ),
)
def gres_after_a_lost_gpu(view: View) -> Iterable[Change]:
    """A refused GPU request on nodes of which one has lost a GPU is that GPU's doing."""
    lost = [
        e
        for e in view.of("gpu.*", "pcie.*", "amd.*", "fm.*", "slurm.low_mem_cfg")
        if view.role(e) == "root" and e.kind != "app"
    ]
    for e in view.of("slurm.launch_gres"):
        cause = next((c for c in lost if e.node is None or c.node == e.node), None)
        if cause is not None:
            yield Demote(event=e.id, reason=f"the node misses a GPU: {cause.symptom}", by=cause.id)
