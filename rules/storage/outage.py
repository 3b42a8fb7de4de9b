"""File systems that came back, and those that did not."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule

SHORT = 600.0
LEAST = 300.0


def _server(e: Event) -> str:
    return e.fields.get("server") or e.fields.get("server2") or e.fields.get("target", "")


def _back(view: View, e: Event, name: str) -> Event | None:
    """The first line after the event's last one that says that this server or target is back."""
    last = e.last_line or e.line
    found = (r for r in view.of("fs.recovered", live=False) if r.source == e.source and r.fields.get("target") == name)
    return next((r for r in found if r.line > last or r.last_line > last), None)


@filter_rule(
    name="nfs-came-back",
    stage="MID",
    example=Example(
        given=(
            event("nfs.timeout", "n1", server="nas01", how="still trying", time=100.0, line=4),
            event("fs.recovered", "n1", target="nas01", time=130.0, line=9, emit="info"),
        ),
        expect=("demote nfs.timeout",),
        quiet=(
            event("nfs.timeout", "n1", server="nas01", how="timed out", time=100.0, line=4),
            event("fs.recovered", "n1", target="nas01", time=130.0, line=9, emit="info"),
        ),
    ),
)
def nfs_came_back(view: View) -> Iterable[Change]:
    """`not responding` and `OK` a moment later is a daily pair: what waited went on. A soft mount that timed out gave
    the program an error, and stays.
    """
    for e in view.of("nfs.timeout"):
        if e.fields.get("how") == "timed out":
            continue
        back = _back(view, e, _server(e))
        if back is None:
            continue
        waited = (back.time or 0.0) - (e.time or 0.0) if back.time is not None and e.time is not None else 0.0
        before_end = view.state.end is None or back.time is None or back.clock != "wall" or back.time < view.state.end
        if waited <= SHORT and before_end:
            yield Demote(event=e.id, reason=f"the server answered again after {waited:.0f} s", by=back.id)


@filter_rule(
    name="nfs-came-back-with-other-handles",
    stage="MID",
    example=Example(
        given=(
            event("nfs.timeout", "n1", server="nas01", time=100.0, line=4),
            event("nfs.stale", "n1", kind="app", line=9),
        ),
        expect=("demote nfs.timeout",),
        quiet=(event("nfs.timeout", "n1", server="nas01", time=100.0, line=4), event("fs.eio", "n1", kind="app", line=9)),
    ),
)
def nfs_came_back_with_other_handles(view: View) -> Iterable[Change]:
    """A stale handle is a server's answer: it was there again, and what the job had open was not."""
    for e in view.of("nfs.timeout", "nfs.hang"):
        stale = next((s for s in view.of("nfs.stale") if s.node in (None, e.node)), None)
        if stale is not None:
            yield Demote(event=e.id, reason="the server answered again, and what had been open was stale", by=stale.id)


@filter_rule(
    name="lustre-stayed-away",
    stage="MID",
    example=Example(
        given=(event("lustre.conn", "n1", target="fs1-OST0003", time=100.0, line=4, emit="interesting_node"),),
        expect=("retag lustre.conn lustre.down",),
        quiet=(
            event("lustre.conn", "n1", target="fs1-OST0003", time=100.0, line=4, emit="interesting_node"),
            event("fs.recovered", "n1", target="fs1-OST0003", time=160.0, line=9, emit="info"),
        ),
    ),
)
def lustre_stayed_away(view: View) -> Iterable[Change]:
    """A lost connection is daily business; one that is not restored for minutes, until the end, is an outage."""
    end = view.state.end
    evicted = {e.node for e in view.of("lustre.evict")}
    for e in view.of("lustre.conn"):
        if end is None or not e.own_time or e.clock != "wall" or e.time is None or e.before_start:
            continue
        if e.node not in evicted and e.time <= end - LEAST and _back(view, e, e.fields.get("target", "")) is None:
            yield Retag(
                event=e.id, symptom="lustre.down", reason="no line says that the connection was restored before the end"
            )


INCIDENTS = (
    "lustre.evict",
    "lustre.down",
    "nfs.timeout",
    "gpfs.expel",
    "gpfs.waiters",
    "beegfs.comm",
    "ceph.blocked",
    "weka.client",
)
# What any failed program prints says nothing of a file system.
ENDS = ("mpi.abort", "nat.abort")
ANYONES = ("py.traceback", "py.runtime", "pt.", "nat.terminate", "slurm.task", "slurm.step")


@filter_rule(
    name="incident-that-nothing-shows",
    stage="LATE",
    example=Example(
        given=(event("lustre.evict", "n1", time=100.0), event("py.type_attr", None, kind="app", line=9)),
        expect=("demote lustre.evict",),
        quiet=(
            event("lustre.evict", "n1", time=100.0),
            event("py.type_attr", None, kind="app", line=9),
            event("fs.eio", None, kind="app", line=8),
        ),
    ),
)
def incident_that_nothing_shows(view: View) -> Iterable[Change]:
    """A node has several file systems. Where the program says plainly why it failed and nothing shows an operation that
    failed or stood still, an eviction or a silent server is a note.
    """
    said = [
        e
        for e in view.live()
        if view.role(e) == "root"
        and e.kind == "app"
        and e.symptom not in ENDS
        and view.symptoms[e.symptom].domain == "application"
    ]
    speaking = [
        x for x in view.events if x.symptom not in INCIDENTS and not x.symptom.startswith(ANYONES) and view.role(x) != "context"
    ]
    for e, cause in view.unshown(view.of(*INCIDENTS), speaking, said):
        yield Demote(event=e.id, reason="no operation of the job failed on it, and another cause was found", by=cause.id)
