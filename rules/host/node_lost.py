"""Nodes that died: boots that prove nothing, faults that a node survived, and how late a silence is noticed."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Blame, Change, Demote, Event, Example, Retag, View, event, filter_rule, refiner, until

LOST = (
    "slurm.node_fail",
    "slurm.node_notresp",
    "slurm.unexpected_reboot",
    "krn.reboot",
    "krn.panic",
    "cpu.hardlockup",
    "pwr.cycle",
    "bmc.reset",
)
NOTICED = ("slurm.node_fail", "slurm.unexpected_reboot", "krn.reboot")
SURVIVABLE = (
    "cpu.softlockup", "pwr.psu", "thm.critical", "disk.io", "disk.ro", "disk.full", "slurm.low_mem_cfg",
    "nvsw.sxid_stall", "disk.nvme", "gpu.hw_slowdown",
)  # fmt: skip
# What any failed job prints shows no fault of a node.
ANYONES = ("py.traceback", "py.echo", "pt.childfailed", "slurm.task_exit", "slurm.exit_code", "slurm.exit_signal")
LAG = 900.0
STILL = 120.0


@filter_rule(
    name="boot-line-without-a-date",
    stage="EARLY",
    example=Example(
        given=(event("krn.reboot", "n1", time=0.0, clock="uptime:n1", line=1, source="a"),),
        expect=("demote krn.reboot",),
        quiet=(event("krn.reboot", "n1", time=500.0, line=1, source="a"),),
    ),
)
def boot_line_without_a_date(view: View) -> Iterable[Change]:
    """Every dmesg begins with the boot: without a date, it says nothing, unless older lines stand above it."""
    for boot in view.of("krn.reboot"):
        if boot.clock == "wall" and boot.time is not None:
            continue
        above = any(
            e.source == boot.source
            and e.line < boot.line
            and e.clock == boot.clock
            and (e.time or 0.0) > (boot.time or 0.0) + 60.0
            for e in view.events
        )
        if not above:
            yield Demote(event=boot.id, reason="the boot line of a log that counts from the boot: nothing says when that was")


@filter_rule(
    name="boot-after-the-end",
    stage="MID",
    example=Example(
        given=(event("krn.reboot", "n1", time=1100.0), event("krn.shutdown", "n1", time=1060.0)),
        expect=("demote krn.reboot", "demote krn.shutdown"),
        quiet=(event("krn.reboot", "n1", time=1100.0), event("slurm.node_notresp", "n1", time=900.0, kind="slurmctld")),
    ),
)
def boot_after_the_end(view: View) -> Iterable[Change]:
    """A node that was rebooted after the attempt had ended in another way did not end it."""
    if view.state.end is None:
        return
    lost = {e.node for e in view.of(*LOST, live=False) if e.symptom != "krn.reboot"}
    if view.attempt.state.startswith("NODE_FAIL"):
        return
    for e in view.of("krn.reboot", "krn.shutdown"):
        if e.own_time and e.time is not None and e.time > view.state.end + e.grain and e.node not in lost:
            yield Demote(event=e.id, reason="after the end of the attempt, and Slurm had not lost the node")


@filter_rule(
    name="silence-is-noticed-late",
    stage="LATE",
    example=Example(
        attempt={"state": "NODE_FAIL"},
        given=(
            event("slurm.node_fail", "n2", kind="slurmctld", time=900.0),
            event("slurm.requeue", None, kind="app", source="out", time=650.0),
        ),
        expect=("demote slurm.requeue",),
        quiet=(
            event("pyxis.args", None, kind="app", source="out", time=650.0),
            event("slurm.node_fail", "n2", kind="slurmctld", time=900.0),
        ),
    ),
)
def silence_is_noticed_late(view: View) -> Iterable[Change]:
    """Slurm gives a node up after SlurmdTimeout, and a boot comes minutes after a crash: what peers print in between is
    older than the line, and still a consequence.
    """
    seen = [e for e in view.of(*NOTICED) if e.own_time and e.time is not None and e.node is not None and e.kind != "app"]
    for effect in view.live():
        if effect.kind != "app" or not effect.own_time or effect.time is None or effect.symptom in NOTICED:
            continue
        for cause in seen:
            if cause.clock == effect.clock and 0.0 <= (cause.time or 0.0) - effect.time <= LAG and view.explains(cause, effect):
                yield Demote(
                    event=effect.id,
                    reason=f"{cause.node} was lost about then, which is noticed only minutes later",
                    by=cause.id,
                )
                break


@filter_rule(
    name="node-lost-after-a-fault",
    stage="LATE",
    example=Example(
        attempt={"state": "NODE_FAIL"},
        given=(event("gpu.off_bus", "n2", time=700.0), event("slurm.node_fail", "n2", kind="record", time=1000.0)),
        expect=("demote slurm.node_fail",),
        quiet=(event("gpu.off_bus", "n1", time=700.0), event("slurm.node_fail", "n2", kind="record", time=1000.0)),
    ),
)
def node_lost_after_a_fault(view: View) -> Iterable[Change]:
    """Slurm's line says that a node was lost; a fault of hardware, driver or kernel on that node shortly before says why."""
    faults = [
        e for e in view.live()
        if view.role(e) == "root" and e.own_time and e.time is not None and e.kind != "app" and e.symptom not in NOTICED
        and view.symptoms[e.symptom].domain in ("hardware", "platform", "network")
    ]  # fmt: skip
    for lost in view.of(*NOTICED):
        for fault in faults:
            if fault.node is None or fault.node != lost.node or fault.clock != lost.clock or lost.time is None:
                continue
            if -60.0 <= lost.time - (fault.time or 0.0) <= LAG:
                yield Demote(event=lost.id, reason=f"{fault.symptom} on that node before it was lost", by=fault.id)
                break


@filter_rule(
    name="node-fail-named-by-the-controller",
    stage="STANDARD",
    example=Example(
        attempt={"state": "NODE_FAIL"},
        given=(
            event("slurm.node_fail", None, kind="record", time=1000.0),
            event(
                "slurm.node_notresp", "n2", kind="slurmctld", time=990.0, text="error: Nodes n2 not responding, setting DOWN"
            ),
        ),
        expect=("retag slurm.node_fail slurm.node_fail",),
        quiet=(
            event("slurm.node_fail", None, kind="record", time=1000.0),
            event("slurm.node_notresp", "n2", kind="slurmctld", time=990.0, text="error: Nodes n2 not responding"),
        ),
    ),
)
def node_fail_named_by_the_controller(view: View) -> Iterable[Change]:
    """The record names no node, and of the attempt's nodes slurmctld took exactly one down: that is the one."""
    found = view.of("slurm.node_fail")
    if len(found) != 1 or found[0].kind != "record" or found[0].node is not None:
        return
    down = {
        e.node for e in view.of("slurm.node_notresp", "slurm.unexpected_reboot")
        if e.kind == "slurmctld" and (e.symptom != "slurm.node_notresp" or "setting DOWN" in e.text)
    }  # fmt: skip
    if len(down) == 1 and None not in down:
        yield Retag(
            event=found[0].id, symptom="slurm.node_fail", reason="slurmctld took this one of its nodes down", node=down.pop()
        )


NAMED = ("slurm.node_notresp", "slurm.unexpected_reboot", "slurm.node_fail")


@filter_rule(
    name="lost-nodes-each-with-a-fault",
    stage="LATE",
    example=Example(
        attempt={"state": "NODE_FAIL"},
        given=(
            event("slurm.node_fail", None, kind="record", time=1000.0),
            event("slurm.node_notresp", "n1", kind="slurmctld", time=990.0),
            event("slurm.node_notresp", "n2", kind="slurmctld", time=990.0),
            event("pwr.psu", "n1", kind="syslog"),
            event("pwr.psu", "n2", kind="syslog"),
        ),
        expect=("demote slurm.node_fail",),
        quiet=(
            event("slurm.node_fail", None, kind="record", time=1000.0),
            event("slurm.node_notresp", "n1", kind="slurmctld", time=990.0),
            event("slurm.node_notresp", "n2", kind="slurmctld", time=990.0),
            event("pwr.psu", "n1", kind="syslog"),
        ),
    ),
)
def lost_nodes_each_with_a_fault(view: View) -> Iterable[Change]:
    """The record says that nodes were lost, slurmctld names them, and each shows why: the record adds no cause of its own."""
    for record in view.of("slurm.node_fail"):
        if record.node is not None or record.kind != "record":
            continue
        lost = {e.node for e in view.of(*NAMED, live=False) if e.node is not None}
        why = {e.node: e for e in view.live() if e.kind != "app" and view.role(e) == "root" and view.explains(e, record)}
        if lost and lost <= why.keys():
            yield Demote(event=record.id, reason="each of the lost nodes shows a fault of its own", by=why[min(lost)].id)


def _until_the_end(view: View, e: Event) -> bool:
    last = until(e)
    return e.count > 1 and last is not None and view.state.end is not None and last >= view.state.end - STILL


@filter_rule(
    name="a-fault-that-the-node-survived",
    stage="LATE",
    example=Example(
        given=(event("cpu.softlockup", "n1", time=200.0), event("pyxis.args", None, kind="app", line=4)),
        expect=("demote cpu.softlockup",),
        quiet=(event("cpu.softlockup", "n1", time=200.0), event("slurm.node_fail", "n1", kind="record", time=1000.0)),
    ),
)
def a_fault_that_the_node_survived(view: View) -> Iterable[Change]:
    """A stutter, a lost power supply or a disk error ends a job only with the node or through what it breaks on it. If
    the node lives, nothing that it explains was seen there, and another cause is, it is a note.
    """
    others = [e for e in view.live() if view.role(e) == "root" and e.emit != "info" and e.symptom not in SURVIVABLE]
    lost = {e.node for e in view.of(*LOST, live=False)}
    at_node: dict[str | None, list[Event]] = {}
    for x in view.events:
        if view.role(x) != "context" and x.symptom not in ANYONES:
            at_node.setdefault(x.node, []).append(x)
    for e in view.of(*SURVIVABLE):
        # A time limit that the fault explains is no other cause.
        rival = next((o for o in others if o.symptom != "slurm.timeout" or not view.explains(e, o)), None)
        if e.node in lost or rival is None or e.kind == "app" or _until_the_end(view, e):
            continue
        # A rank's line may name no node: it speaks of the disk where only one node shows a fault of that kind.
        alone = e.symptom.startswith("disk.") and {d.node for d in view.of(e.symptom)} == {e.node}
        beside = [*at_node.get(e.node, ()), *(at_node.get(None, ()) if alone else ())]
        shown = any(x.id != e.id and view.explains(e, x) for x in beside)
        if not shown:
            yield Demote(event=e.id, reason="the node went on after it, and another cause was found", by=rival.id)


MANY = 3


@refiner(
    name="many-nodes-gone-at-once",
    stage="FINAL",
    example=Example(
        given=(
            event("slurm.unexpected_reboot", "n1", kind="slurmctld", time=100.0),
            event("slurm.unexpected_reboot", "n2", kind="slurmctld", time=340.0),
            event("slurm.unexpected_reboot", "n3", kind="slurmctld", time=341.0),
        ),
        expect=("blame nobody",),
        quiet=(
            event("slurm.unexpected_reboot", "n1", kind="slurmctld", time=100.0),
            event("slurm.unexpected_reboot", "n2", kind="slurmctld", time=340.0),
        ),
    ),
)
def many_nodes_gone_at_once(view: View) -> Iterable[Change]:
    """Three nodes or more that went within the time in which Slurm notices it: power, network or an update took them, and
    the one that was noticed first is no more to blame than the others.
    """
    roots = [e for e in view.live() if view.role(e) == "root" and e.emit in ("bad_node", "bad_peers") and e.node]
    gone = [e for e in roots if e.symptom in NOTICED and e.own_time and e.time is not None and e.kind != "record"]
    nodes = sorted({e.node for e in gone if e.node})
    if len(nodes) < MANY or any(e.symptom not in NOTICED for e in roots):
        return
    times = [e.time or 0.0 for e in gone]
    if len({e.clock for e in gone}) == 1 and max(times) - min(times) <= LAG:
        yield Blame(nodes=(), reason=f"{len(nodes)} nodes were lost together: no single node's fault")
