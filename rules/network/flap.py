"""Links in time: one that comes back is a flap, one that goes after the end ended nothing."""

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule

BACK = 600.0
LATE = 30.0
LINKS = (
    "ib.port_down",
    "ib.flap",
    "ib.cable",
    "eth.link_down",
    "eth.bond",
    "eth.tx_timeout",
    "cxi.error",
    "fabric.switch",
    "eth.switch",
)


@filter_rule(
    name="link-that-came-back",
    stage="EARLY",
    example=Example(
        given=(
            event("ib.port_down", "n1", time=10.0, device="0000:41:00.0"),
            event("ib.port_up", "n1", time=14.0, device="0000:41:00.0", emit="info"),
            event("ib.port_down", "n2", time=10.0, device="0000:41:00.0"),
        ),
        expect=("retag ib.port_down ib.flap",),
        quiet=(event("ib.port_up", "n1", time=4.0, emit="info"), event("ib.port_down", "n1", time=10.0)),
    ),
)
def link_that_came_back(view: View) -> Iterable[Change]:
    """Down and up of one port within ten minutes: the link flapped."""
    ups = view.of("ib.port_up", live=False)
    for down in view.of("ib.port_down"):
        for up in ups:
            same = up.node == down.node and _device(up) == _device(down) and up.clock == down.clock
            if same and up.time is not None and down.time is not None and 0 <= up.time - down.time <= BACK:
                yield Retag(event=down.id, symptom="ib.flap", reason=f"the port was up again {up.time - down.time:.0f} s later")
                break


def _device(e: Event) -> str | None:
    return e.fields.get("device") or e.fields.get("device2") or e.fields.get("device3")


@filter_rule(
    name="port-that-the-program-saw-come-back",
    stage="EARLY",
    example=Example(
        given=(
            event("ib.async", "n1", kind="app", line=3, fields={"event": "port error"}),
            event("ib.port_up", "n1", kind="app", line=9, emit="info"),
        ),
        expect=("retag ib.async ib.flap",),
        quiet=(
            event("ib.port_up", "n1", kind="app", line=1, emit="info"),
            event("ib.async", "n1", kind="app", line=3, fields={"event": "port error"}),
        ),
    ),
)
def port_that_the_program_saw_come_back(view: View) -> Iterable[Change]:
    """NCCL tells of a port error, and of the port's being active again: the same flap, seen from the program."""
    ups = [e for e in view.of("ib.port_up", live=False) if e.kind == "app"]
    for down in view.of("ib.async"):
        back = any(up.node == down.node and up.source == down.source and (up.last_line or up.line) > down.line for up in ups)
        if back and down.fields.get("event") == "port error":
            yield Retag(event=down.id, symptom="ib.flap", reason="the program saw the port come back")


OVER_IT = ("roce.err12", "ib.err12", "ucx.retry_roce", "ib.async", "roce.connect", "ib.modify_qp")


@filter_rule(
    name="roce-link-that-came-back",
    stage="EARLY",
    example=Example(
        given=(
            event("eth.link_down", "n1", time=10.0, interface="ens10"),
            event("eth.link_up", "n1", time=14.0, interface="ens10", emit="info"),
            event("roce.err12", "n2", kind="app", emit="bad_peers"),
        ),
        expect=("retag eth.link_down ib.flap",),
        quiet=(
            event("eth.link_down", "n1", time=10.0, interface="eno1"),
            event("eth.link_up", "n1", time=14.0, interface="eno1", emit="info"),
        ),
    ),
)
def roce_link_that_came_back(view: View) -> Iterable[Change]:
    """Drivers of other makers report a RoCE port by its Ethernet name only. Down and up while RDMA requests of the job went
    unanswered is a flap of the fabric's port.
    """
    if not view.of(*OVER_IT):
        return
    ups = view.of("eth.link_up", live=False)
    for down in view.of("eth.link_down"):
        for up in ups:
            same = (
                up.node == down.node and up.fields.get("interface") == down.fields.get("interface") and up.clock == down.clock
            )
            if same and up.time is not None and down.time is not None and 0 <= up.time - down.time <= BACK:
                yield Retag(event=down.id, symptom="ib.flap", reason=f"the link was up again {up.time - down.time:.0f} s later")
                break


@filter_rule(
    name="link-lost-after-the-end",
    stage="MID",
    example=Example(
        given=(event("ib.port_down", "n1", time=1100.0),),
        expect=("demote ib.port_down",),
        quiet=(event("ib.port_down", "n1", time=1010.0),),
    ),
)
def link_lost_after_the_end(view: View) -> Iterable[Change]:
    """Nodes are reset and taken out after a job: a link that went clearly after the end did not end it."""
    if view.state.end is None or view.attempt.state.startswith("NODE_FAIL"):
        return
    for e in view.of(*LINKS):
        if e.own_time and e.clock == "wall" and e.time is not None and e.time > view.state.end + LATE + e.grain + e.uncertainty:
            yield Demote(event=e.id, reason=f"{e.time - view.state.end:.0f} s after the end of the attempt")


# What any failed program prints says nothing of a link.
ANYONES = ("py.", "pt.", "nat.", "slurm.task", "slurm.step", "slurm.kill", "ds.", "vllm.", "ray.")


@filter_rule(
    name="link-that-nobody-missed",
    stage="LATE",
    example=Example(
        given=(event("ib.port_down", "n1", time=100.0), event("oom.cuda", None, kind="app", line=9)),
        expect=("demote ib.port_down",),
        quiet=(
            event("ib.port_down", "n1", time=100.0),
            event("oom.cuda", None, kind="app", line=9),
            event("ib.err12", "n2", kind="app", line=8),
        ),
    ),
)
def link_that_nobody_missed(view: View) -> Iterable[Change]:
    """Nodes have ports that no job uses. Where another cause was found and no line of the job or of its file systems speaks
    of the network, a lost link is a note for the admins.
    """
    if view.attempt.state.startswith("NODE_FAIL"):
        return
    roots = [
        e for e in view.live() if view.role(e) == "root" and e.emit in ("bad_node", "bad_peers") and e.symptom not in LINKS
    ]
    for e in view.of(*LINKS):
        others = [r for r in roots if not view.explains(e, r)]
        missed = any(
            view.explains(e, x) and x.symptom not in LINKS and not x.symptom.startswith(ANYONES) and view.role(x) != "context"
            for x in view.events
        )
        if others and not missed:
            yield Demote(event=e.id, reason="nothing else speaks of the network, and another cause was found", by=others[0].id)
