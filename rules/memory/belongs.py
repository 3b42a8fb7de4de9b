"""Whose memory it was: out-of-memory records tied to this attempt by cgroup path, uid and pid."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule

JOB = re2.compile(r"/job_(\d{1,10})(?:/|$|_)")
SLUID = re2.compile(r"/(?:job_)?(s[0-9A-HJKMNP-TV-Z]{13})(?:/|$)")
SERVICE = re2.compile(r"/(?:[\w@.\\:-]+\.service|user\.slice|init\.scope|docker|podman|kubelet)(?:/|$)|^/$")
STEPD = re2.compile(r"slurmstepd|/slurm/uid|/job_\d")
OURS = "/system.slice/slurmstepd.scope/job_812/step_0/user/task_2"
OTHER = "/system.slice/slurmstepd.scope/job_999/step_0/user/task_0"


def own_jobs(view: View) -> set[str]:
    """The ids under which Slurm may write this attempt: a raw id, and the array's or het job's first one."""
    attempt = view.attempt
    known = {attempt.job_id, attempt.job_id.split("_")[0].split("+")[0], attempt.het_job_id or ""}
    return known - {""}


def raw_id_known(view: View) -> bool:
    """An array task printed as 812_3 has a raw job id of its own that the record need not give."""
    return view.attempt.job_id.isdigit()


def owner(view: View, path: str, uid: str) -> str:
    """Whose the cgroup is: ours, other job, service, or nothing where the path does not say."""
    job, sluid = JOB.search(path), SLUID.search(path)
    if sluid is not None and view.attempt.sluid:
        return "ours" if sluid.group(1) == view.attempt.sluid else "other job"
    same_user = view.attempt.uid is not None and uid == str(view.attempt.uid)
    if job is not None:
        if job.group(1) in own_jobs(view):
            return "ours"
        return "" if not raw_id_known(view) and same_user else "other job"
    if sluid is not None:
        return "other job" if view.attempt.uid is not None and uid and not same_user else ""
    if path and SERVICE.search(path) and not STEPD.search(path):
        return "service"
    return ""


@filter_rule(
    name="oom-belongs-to-whom",
    stage="EARLY",
    example=Example(
        given=(
            event("oom.cgroup", "n1", cgroup=OURS, pid="11", time=5.0, line=1),
            event("oom.cgroup", "n1", cgroup=OTHER, pid="12", time=6.0, line=2),
            event("oom.cgroup", "n1", pid="12", task="python", time=6.0, line=3),
            event("oom.cgroup", "n2", cgroup="/system.slice/pingmesh.service", pid="13", time=7.0, line=4),
        ),
        expect=("retag oom.cgroup oom.other", "retag oom.cgroup oom.other", "retag oom.cgroup oom.other"),
        quiet=(event("oom.cgroup", "n1", cgroup=OURS, pid="11", time=5.0),),
        attempt={"job_id": "812"},
    ),
)
def belongs(view: View) -> Iterable[Change]:
    """The kernel kills in any cgroup of the node: another job's kill and a service's are not this attempt's cause. The
    victim's line has no path; it goes with the record of the same process.
    """
    records = view.of("oom.cgroup", "oom.global")
    said: dict[tuple[str | None, str], str] = {}
    for e in records:
        found = owner(view, e.fields.get("cgroup", ""), e.fields.get("uid", ""))
        if not found and e.fields.get("limit"):
            found = owner(view, e.fields["limit"], e.fields.get("uid", ""))
        if found and "pid" in e.fields:
            said[(e.node, e.fields["pid"])] = found
        elif found:
            said[(e.node, f"line {e.source}:{e.line}")] = found
    for e in records:
        found = (
            said.get((e.node, e.fields.get("pid", "")), "")
            or said.get((e.node, f"line {e.source}:{e.line}"), "")
            or beside(e, records, said)
        )
        if found in ("other job", "service"):
            whose = "another job's" if found == "other job" else "a service's of the node"
            yield Retag(event=e.id, symptom="oom.other", reason=f"the memory cgroup is {whose}", fields={"whose": found})
        elif not found and e.symptom == "oom.cgroup" and by_uid(view, e) == "other":
            yield Retag(
                event=e.id, symptom="oom.other", reason="the process belongs to another user", fields={"whose": "other user"}
            )


def beside(e: Event, records: list[Event], said: dict[tuple[str | None, str], str]) -> str:
    """Old kernels name the cgroup on the line before the victim's, without a process."""
    for other in records:
        if other.source == e.source and 0 < e.line - other.line <= 120 and "pid" not in other.fields:
            return said.get((other.node, f"line {other.source}:{other.line}"), "")
    return ""


def by_uid(view: View, e: Event) -> str:
    uid = e.fields.get("uid", "")
    return "other" if uid and view.attempt.uid is not None and uid != str(view.attempt.uid) else ""


STOPPING = frozenset({"CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "REQUEUED", "NODE_FAIL"})


@filter_rule(
    name="killed-by-slurm",
    stage="STANDARD",
    example=Example(
        given=(event("oom.killed_line", kind="app"),),
        expect=("demote oom.killed_line",),
        attempt={"state": "TIMEOUT"},
    ),
)
def killed_by_slurm(view: View) -> Iterable[Change]:
    """Where Slurm itself ended the attempt, a shell's `Killed` is its signal, not the out-of-memory killer's."""
    state = (view.attempt.state.split() or [""])[0].rstrip("+")
    if state in STOPPING or view.of("slurm.cancel*", "slurm.timeout", "slurm.preempt*"):
        for e in view.of("oom.killed_line"):
            yield Demote(event=e.id, reason="Slurm ended the attempt: it sends this signal too")


@filter_rule(
    name="pids-limit-belongs-to-whom",
    stage="EARLY",
    example=Example(
        given=(event("krn.pid_limit", "n1", cgroup="/system.slice/pingmesh.service", line=1),),
        expect=("demote krn.pid_limit",),
        quiet=(event("krn.pid_limit", "n1", cgroup=OURS, line=1),),
        attempt={"job_id": "812"},
    ),
)
def pids_limit_belongs_to_whom(view: View) -> Iterable[Change]:
    """The kernel names the cgroup that may make no more processes: a daemon's or another job's is not this attempt's."""
    for e in view.of("krn.pid_limit"):
        whose = owner(view, e.fields.get("cgroup", ""), "")
        if e.kind != "app" and whose in ("service", "other job"):
            yield Demote(
                event=e.id, reason=f"the cgroup is that of a {whose}" if whose == "service" else "the cgroup is another job's"
            )
