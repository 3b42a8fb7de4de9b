"""Links in time: one that comes back is a flap, one that goes after the end ended nothing."""

from bisect import bisect_left
from collections.abc import Callable, Iterable

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule, until

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
    ups = _times(view.of("ib.port_up", live=False), _device)
    for down in view.of("ib.port_down"):
        after = _until(ups, down, _device, down.time)
        if after is not None and after <= BACK:
            yield Retag(event=down.id, symptom="ib.flap", reason=f"the port was up again {after:.0f} s later")


Key = Callable[[Event], str | None]


def _times(ups: Iterable[Event], key: Key) -> dict[tuple[str | None, str | None, str], list[float]]:
    """When each port of each node came up, in order as events are."""
    found: dict[tuple[str | None, str | None, str], list[float]] = {}
    for up in ups:
        if up.time is not None:
            found.setdefault((up.node, key(up), up.clock), []).append(up.time)
    return found


def _until(
    ups: dict[tuple[str | None, str | None, str], list[float]], down: Event, key: Key, since: float | None
) -> float | None:
    """The seconds from `since` to when this port came up next; None if it did not."""
    times = ups.get((down.node, key(down), down.clock), [])
    at = bisect_left(times, since) if since is not None else len(times)
    return times[at] - since if since is not None and at < len(times) else None


def _interface(e: Event) -> str | None:
    return e.fields.get("interface")


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
    ups: dict[tuple[str | None, str], int] = {}
    for up in view.of("ib.port_up", live=False):
        if up.kind == "app":
            ups[up.node, up.source] = max(ups.get((up.node, up.source), 0), up.last_line or up.line)
    for down in view.of("ib.async"):
        if ups.get((down.node, down.source), 0) > down.line and down.fields.get("event") == "port error":
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
    ups = _times(view.of("eth.link_up", live=False), _interface)
    for down in view.of("eth.link_down"):
        after = _until(ups, down, _interface, down.time)
        if after is not None and after <= BACK:
            yield Retag(event=down.id, symptom="ib.flap", reason=f"the link was up again {after:.0f} s later")


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
    ups = _times(view.of("ib.port_up", "eth.link_up", live=False), lambda _: None)
    said = [x for x in view.live() if x.kind == "app" and x.emit in ("bad_node", "bad_peers")]
    first: dict[str, Event | None] = {}
    for e in view.of(*CAME_BACK):
        last = until(e)
        away = _until(ups, e, lambda _: None, last)
        if not e.own_time or e.clock != "wall" or away is None or last is None:
            continue
        if e.symptom not in first:
            after = [x for x in said if view.explains(e, x)]
            timed = all(x.own_time and x.clock == "wall" and x.time is not None for x in after)
            first[e.symptom] = min(after, key=_began) if after and timed else None
        failed = first[e.symptom]
        if failed is not None and _began(failed) > last + away + QUIET:
            yield Demote(event=e.id, reason="the link was back long before anything failed", by=failed.id)


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
    ups = _times(view.of("eth.link_up", live=False), _interface)
    for e in view.of("eth.link_down"):
        after = _until(ups, e, _interface, until(e))
        if after is not None and after <= SHORT:
            yield Demote(event=e.id, reason=f"the link was back {after:.0f} s later, and no connection broke")


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
        last = until(e)
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
    speaking = [
        x for x in view.events if x.symptom not in LINKS and not x.symptom.startswith(ANYONES) and view.role(x) != "context"
    ]
    for e, cause in view.unshown(view.of(*LINKS), speaking, roots):
        yield Demote(event=e.id, reason="nothing else speaks of the network, and another cause was found", by=cause.id)
