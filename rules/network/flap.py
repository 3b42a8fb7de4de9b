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


CAME_BACK = ("ib.flap", "eth.link_down")
QUIET = 900.0


def _began(e: Event) -> float:
    """When what this line reports began: a watchdog speaks one timeout late."""
    waited = e.fields.get("timeout_ms", "")
    return (e.time or 0.0) - (float(waited) / 1000.0 if waited.isdigit() and len(waited) < 10 else 0.0)


@filter_rule(
    name="link-that-had-long-come-back",
    stage="MID",
    example=Example(
        attempt={"end": 9000.0},
        given=(
            event("eth.link_down", "n1", time=10.0, interface="eno1"),
            event("eth.link_up", "n1", time=14.0, interface="eno1", emit="info"),
            event("nccl.watchdog", "n2", kind="app", time=5600.0, timeout_ms="600000"),
        ),
        expect=("demote eth.link_down",),
        quiet=(
            event("eth.link_down", "n1", time=10.0, interface="eno1"),
            event("eth.link_up", "n1", time=14.0, interface="eno1", emit="info"),
            event("nccl.watchdog", "n2", kind="app", time=620.0, timeout_ms="600000"),
        ),
    ),
)
def link_that_had_long_come_back(view: View) -> Iterable[Change]:
    """What a short loss of a link breaks, breaks within its retries. Where all that could follow from it says its own time, and
    began a quarter of an hour after the link was back, it is a note.
    """
    ups = view.of("ib.port_up", "eth.link_up", live=False)
    for e in view.of(*CAME_BACK):
        last = e.last_time if e.last_time is not None else e.time
        back = [
            u.time
            for u in ups
            if u.node == e.node and u.clock == e.clock and u.time is not None and last is not None and u.time >= last
        ]
        if not e.own_time or e.clock != "wall" or not back:
            continue
        after = [x for x in view.live() if x.kind == "app" and x.emit in ("bad_node", "bad_peers") and view.explains(e, x)]
        untimed = [x for x in after if not x.own_time or x.clock != "wall" or x.time is None]
        if after and not untimed and min(_began(x) for x in after) > min(back) + QUIET:
            yield Demote(event=e.id, reason="the link was back long before anything failed", by=min(after, key=_began).id)


SHORT = 60.0
# What speaks of a connection, and not only of somebody who waits.
OF_THE_NETWORK = (
    "eth.no_route", "nccl.peer_reset", "nccl.unreachable", "nccl.peer_closed", "nccl.bootstrap", "nfs.timeout", "slurm.node_notresp",
    "slurm.node_fail", "slurm.socket_timeout", "mpi.lost_daemon", "mpi.transport", "mpi.unreachable", "rdzv.*", "gloo.close", "efa.*",
    "ib.err*", "roce.*", "ucx.*", "net.*", "lustre.*", "gpfs.*", "beegfs.*", "ceph.*", "weka.*", "jax.coord",
)  # fmt: skip


@filter_rule(
    name="short-loss-of-an-ethernet-link",
    stage="MID",
    example=Example(
        given=(
            event("eth.link_down", "n1", time=10.0, interface="eno1"),
            event("eth.link_up", "n1", time=14.0, interface="eno1", emit="info"),
            event("nccl.watchdog", "n2", kind="app"),
        ),
        expect=("demote eth.link_down",),
        quiet=(
            event("eth.link_down", "n1", time=10.0, interface="eno1"),
            event("eth.link_up", "n1", time=14.0, interface="eno1", emit="info"),
            event("nccl.peer_reset", "n2", kind="app"),
        ),
    ),
)
def short_loss_of_an_ethernet_link(view: View) -> Iterable[Change]:
    """TCP outlives a link that is away for seconds: where ranks only waited, and no connection broke, it did no harm."""
    if view.of(*OF_THE_NETWORK, live=False):
        return
    ups = view.of("eth.link_up", live=False)
    for e in view.of("eth.link_down"):
        last = e.last_time if e.last_time is not None else e.time
        for up in ups:
            same = up.node == e.node and up.clock == e.clock and up.fields.get("interface") == e.fields.get("interface")
            if same and last is not None and up.time is not None and 0 <= up.time - last <= SHORT:
                yield Demote(event=e.id, reason=f"the link was back {up.time - last:.0f} s later, and no connection broke")
                break


@filter_rule(
    name="flap-before-a-port-that-stayed-down",
    stage="MID",
    example=Example(
        given=(event("ib.flap", "n1", time=100.0), event("ib.port_down", "n2", time=360.0)),
        expect=("demote ib.flap",),
        quiet=(event("ib.flap", "n1", time=100.0), event("ib.port_down", "n2", time=120.0)),
    ),
)
def flap_before_a_port_that_stayed_down(view: View) -> Iterable[Change]:
    """Retries run out within a minute: when another node's port goes later, and does not come back, that one ended the job."""
    stayed = [d for d in view.of("ib.port_down") if d.own_time and d.time is not None]
    for e in view.of("ib.flap"):
        last = e.last_time if e.last_time is not None else e.time
        for down in stayed:
            if (
                e.own_time
                and last is not None
                and down.node != e.node
                and down.clock == e.clock
                and (down.time or 0.0) > last + SHORT
            ):
                yield Demote(event=e.id, reason=f"{down.node}'s port went later and stayed down", by=down.id)
                break


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
