"""Whose line it is: events that speak of another job, or that another job on the node may have caused."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Attempt, Change, Demote, Event, Example, Neighbour, Retag, View, event, filter_rule

_JOB = re2.compile(r"^(?P<base>\d+)(?:_(?P<task>\d+|\[[^\]]*\]?))?(?:\+(?P<offset>\d+))?(?:\((?P<raw>\d+)\))?")
_CGROUP_JOB = re2.compile(r"/job_(\d+)(?:/|$)")
_CGROUP_SLUID = re2.compile(r"/(s[0-9A-HJKMNP-TV-Z]{13})(?:/|$)")
PATHS = ("memcg", "task_memcg", "oom_memcg", "cgroup", "cpuset")
LOCAL = frozenset({"kern", "dmesg", "syslog", "journal", "slurmd", "fabricmanager"})
CONTROLLER = frozenset({"slurmctld", "slurmdbd", "syslog", "journal"})
SLACK = 60.0


def array_of(attempt: Attempt) -> tuple[str, str] | None:
    """Array id and task of the attempt, from its fields or from an id such as 123_4."""
    if attempt.array_job_id and attempt.array_task_id:
        return attempt.array_job_id, attempt.array_task_id
    found = _JOB.match(attempt.job_id)
    return (found["base"], found["task"]) if found and found["task"] else None


def is_ours(text: str, attempt: Attempt) -> bool | None:
    """Whether a job id as Slurm's logs write it (12, 12_3(15), 12+1(13)) is this attempt's; None where that is open."""
    found = _JOB.match(text)
    if found is None:
        return None
    array, raw = array_of(attempt), attempt.job_id if attempt.job_id.isdigit() else None
    het = f"{attempt.het_job_id}+{attempt.het_offset}" if attempt.het_job_id else ""
    if het and f"{found['base']}+{found['offset']}" == het:
        return True
    if found["raw"] and raw:
        return found["raw"] == raw
    if found["task"]:
        if array is None or found["task"].startswith("["):
            return None
        return (found["base"], found["task"]) == array
    if raw:
        return found["base"] == raw or found["base"] == attempt.het_job_id
    return False if array and int(found["base"]) < int(array[0]) else None


@filter_rule(
    name="another-jobs-line",
    stage="EARLY",
    example=Example(
        attempt={"job_id": "127", "array_job_id": "120", "array_task_id": "4"},
        given=(
            event("slurm.node_fail", "n1", job="120_3(126)", time=5.0, kind="slurmctld"),
            event("slurm.kill_notice", None, job="99", kill="yes", line=3, kind="app"),
        ),
        expect=("demote slurm.node_fail", "demote slurm.kill_notice", "retag slurm.kill_notice slurm.kill_notice"),
        quiet=(
            event("slurm.node_fail", "n1", job="120_4(127)", time=5.0, kind="slurmctld"),
            event("slurm.prolog_fail", "n1", job="127"),
        ),
    ),
)
def another_jobs_line(view: View) -> Iterable[Change]:
    """A line that names a job counts only for that job; several jobs write into one controller log, and into one output
    file that is appended to.
    """
    for e in view.live():
        job = e.fields.get("job")
        if not job or is_ours(job, view.attempt) is not False:
            continue
        if e.fields.get("kill") == "yes":
            yield Retag(event=e.id, symptom=e.symptom, reason="it ends another job", fields={"kill": "no"})
        yield Demote(event=e.id, reason=f"speaks of another job ({job})")


@filter_rule(
    name="another-nodes-line",
    stage="EARLY",
    example=Example(
        attempt={"job_id": "127"},
        given=(event("slurm.prolog_timeout", None, kind="slurmctld", time=5.0, fields={"node": "x9"}),),
        expect=("demote slurm.prolog_timeout",),
        quiet=(
            event("slurm.prolog_timeout", "n1", kind="slurmctld", time=5.0, fields={"node": "n1"}),
            event("slurm.node_fail", None, kind="slurmctld", time=6.0, job="127", fields={"node": "x9"}),
            event("slurm.launch_fail", None, kind="app", line=6, fields={"node": "x9"}),
        ),
    ),
)
def another_nodes_line(view: View) -> Iterable[Change]:
    """The controller writes of the whole cluster: a line that names a node outside the attempt is not about it."""
    for e in view.live():
        other = e.fields.get("node")
        if e.kind not in CONTROLLER or not other or e.node is not None or not view.attempt.nodes:
            continue
        if not is_ours(e.fields.get("job", ""), view.attempt):
            yield Demote(event=e.id, reason=f"speaks of {other[:60]}, which the attempt did not have")


@filter_rule(
    name="older-jobs-output",
    stage="MID",
    example=Example(
        attempt={"job_id": "127"},
        given=(
            event("slurm.exit127", None, kind="app", source="out", line=10),
            event("slurm.kill_notice", None, kind="app", source="out", line=40, job="99", kill="no"),
        ),
        expect=("demote slurm.exit127",),
        quiet=(
            event("slurm.exit127", None, kind="app", source="out", line=50),
            event("slurm.kill_notice", None, kind="app", source="out", line=40, job="99", kill="no"),
        ),
    ),
)
def older_jobs_output(view: View) -> Iterable[Change]:
    """What stands before the line that ended another job, in the same output file, was that job's."""
    ends: dict[str, int] = {}
    for e in view.of("slurm.kill_notice", "slurm.step_cancel", live=False):
        if e.kind == "app" and e.fields.get("kill") == "no":
            ends[e.source] = max(ends.get(e.source, 0), e.line)
    for e in view.live():
        if e.kind == "app" and not e.own_time and e.last_line <= ends.get(e.source, 0) and e.line < ends.get(e.source, 0):
            yield Demote(event=e.id, reason="printed before the line that ended an older job in the same file")


def cgroup_owner(e: Event, attempt: Attempt) -> bool | None:
    """Whether the cgroup path in the event's fields is this attempt's; None without one, or where nothing tells."""
    path = next((e.fields[k] for k in PATHS if k in e.fields), "")
    job = e.fields.get("cgroup_job") or next(iter(_CGROUP_JOB.findall(path)), None)
    sluid = e.fields.get("sluid") or next(iter(_CGROUP_SLUID.findall(path)), None)
    if sluid and attempt.sluid:
        return sluid == attempt.sluid
    return is_ours(job, attempt) if job else None


def _same_gpu(a: str, b: str) -> bool:
    a, b = a.lower().removeprefix("pci:"), b.lower().removeprefix("pci:").split(".")[0]
    return a.split(".")[0].endswith(b[-5:]) and (len(b) < 8 or a.split(".")[0].lstrip("0") == b.lstrip("0"))


def gpu_owner(e: Event, near: list[Neighbour], view: View) -> bool | None:
    """Whether the event's GPU is allocated to this attempt."""
    if e.gpu is None:
        return None
    record = view.state.nodes.get(e.node or "")
    mine = next((g.mine for g in record.gpus if _same_gpu(e.gpu, g.pci)), None) if record else None
    if mine is not None:
        return mine
    if any(_same_gpu(e.gpu, g) for n in near for g in n.gpus):
        return False
    return True if near and all(n.gpus for n in near) else None


def process_owner(e: Event, near: list[Neighbour], view: View) -> bool | None:
    """Whether the event's process or user is this attempt's."""
    pid, uid = e.fields.get("pid", ""), e.fields.get("uid", "")
    if pid.isdigit():
        if any(int(pid) in n.pids for n in near):
            return False
        if all(n.pids for n in near):
            return True
    if uid.isdigit() and view.attempt.uid is not None:
        others = {n.uid for n in near}
        if int(uid) != view.attempt.uid:
            return False
        return True if view.attempt.uid not in others else None
    return None


def neighbours_of(e: Event, view: View) -> list[Neighbour]:
    """Attempts that shared the event's node when it happened."""
    found = []
    for other, start, end in view.state.neighbours:
        timed = e.time is not None and e.clock == "wall"
        if e.node not in other.nodes or (timed and not start - SLACK <= (e.time or 0.0) <= (end or 1e18) + SLACK):
            continue
        found.append(other)
    return found


@filter_rule(
    name="another-jobs-process",
    stage="MID",
    example=Example(
        attempt={"job_id": "127"},
        neighbours=(Neighbour(job_id="88", nodes=("n1",), start="1970-01-01T00:00:00Z", pids=(4242,), gpus=("0000:5e:00.0",)),),
        given=(
            event("gpu.off_bus", "n1", gpu="0000:5e:00", time=5.0),
            event("mem.hwpoison", "n1", pid="4242", time=6.0),
            event("cpu.illegal_insn", "n1", cgroup="/system.slice/slurmstepd.scope/job_88/step_0", time=7.0),
        ),
        expect=("demote cpu.illegal_insn", "demote gpu.off_bus", "demote mem.hwpoison"),
        quiet=(
            event("gpu.off_bus", "n1", gpu="0000:3b:00", time=5.0),
            event("mem.hwpoison", "n1", pid="77", time=6.0),
            event("krn.panic", "n1", time=8.0),
            event("gpu.off_bus", "n2", gpu="0000:5e:00", time=5.0),
        ),
    ),
)
def another_jobs_process(view: View) -> Iterable[Change]:
    """A process, cgroup or GPU of another job on the node is no cause here. Where nothing tells whose it is on a shared
    node, it can't be blamed either; what hits the whole node (`shared`) counts for all.
    """
    for e in view.live():
        symptom = view.symptoms[e.symptom]
        if e.kind not in LOCAL or e.node is None or symptom.role == "context" or e.emit not in ("bad_node", "bad_peers"):
            continue
        if is_ours(e.fields.get("job", ""), view.attempt):
            continue
        group = cgroup_owner(e, view.attempt)
        near = neighbours_of(e, view)
        if group is None and (symptom.shared or not near):
            continue
        ours = next((o for o in (group, gpu_owner(e, near, view), process_owner(e, near, view)) if o is not None), None)
        names = ", ".join(sorted(n.job_id for n in near)[:4])
        if ours is False:
            yield Demote(event=e.id, reason=f"belongs to another job on this node{f' ({names})' if names else ''}")
        elif ours is None:
            yield Demote(event=e.id, reason=f"other jobs ({names}) shared the node, and nothing tells whose it is")
