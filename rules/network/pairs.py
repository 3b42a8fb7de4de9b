"""RDMA pairs: RoCE told from InfiniBand, and the side that most pairs share."""

from collections.abc import Iterable

from attribution.rule import Add, Change, Event, Example, Retag, View, event, filter_rule, second


@filter_rule(
    name="roce-by-its-addresses",
    stage="EARLY",
    example=Example(
        given=(
            event("ib.err12", "n1", time=1.0, local_gid="::ffff:10.0.0.1", kind="app"),
            event("ib.err12", "n2", time=1.5, local_gid="fe80::1", kind="app"),
        ),
        expect=("retag ib.err12 roce.err12",),
        quiet=(event("ib.err12", "n1", time=1.0, kind="app"),),
    ),
)
def roce_by_its_addresses(view: View) -> Iterable[Change]:
    """A GID that maps an IPv4 address (::ffff:a.b.c.d) exists on Ethernet only."""
    for e in view.of("ib.err12"):
        if any(e.fields.get(key, "").lower().startswith("::ffff:") for key in ("local_gid", "remote_gid")):
            yield Retag(event=e.id, symptom="roce.err12", reason="its GID maps an IPv4 address: RoCE")


@filter_rule(
    name="roce-that-never-worked",
    stage="MID",
    example=Example(
        given=(
            event("roce.used", "n1", kind="app", source="out", line=3, emit="info"),
            event("ib.err12", "n2", kind="app", source="out", line=40, emit="bad_peers"),
        ),
        expect=("retag ib.err12 roce.never",),
        quiet=(
            event("roce.used", "n1", kind="app", source="out", line=3, emit="info"),
            event("app.progress", "n1", kind="app", source="out", line=20, emit="info"),
            event("ib.err12", "n2", kind="app", source="out", line=40, emit="bad_peers"),
        ),
    ),
)
def roce_that_never_worked(view: View) -> Iterable[Change]:
    """NCCL connects over TCP. Where the output begins with its start, and shows no step before the retries ran out, the RoCE
    ports never reached each other: their set-up, more likely than a fault of one of them.
    """
    used = view.of("roce.used", live=False)
    found = [e for e in view.of("ib.err12", "roce.err12") if e.kind == "app"]
    if (
        not used
        or not found
        or view.of("ib.port_down", "ib.flap", "ib.async", "ib.hca_health", "eth.*", "app.progress", live=False)
    ):
        return
    for e in found:
        if any(u.source == e.source and u.line < e.line for u in used):
            yield Retag(event=e.id, symptom="roce.never", reason="no step was made since NCCL chose its RoCE ports")


MANY = 4


@filter_rule(
    name="many-separate-pairs",
    stage="MID",
    example=Example(
        given=tuple(event("ib.err12", f"n{i}", line=i, peers=(f"m{i}",), emit="bad_peers", kind="app") for i in (1, 2, 3, 4)),
        expect=("retag ib.err12 fabric.pairs",) * 4,
        quiet=tuple(
            event("ib.err12", f"n{i}", line=i, peers=(f"n{i + 1}",), emit="bad_peers", kind="app") for i in (1, 2, 3, 4)
        ),
    ),
)
def many_separate_pairs(view: View) -> Iterable[Change]:
    """Four groups of pairs or more that share no node can't be one node's doing: what they share is the fabric."""
    found = view.of("ib.err12")
    apart: list[set[str]] = []
    for pair in {_pair(e) for e in found if len(_pair(e)) == 2}:
        joined = [group for group in apart if group & pair]
        apart = [group for group in apart if not group & pair] + [set(pair).union(*joined)]
    if len(apart) >= MANY:
        for e in found:
            yield Retag(event=e.id, symptom="fabric.pairs", reason=f"{len(apart)} groups of nodes that share none")


def _pair(e: Event) -> frozenset[str]:
    return frozenset({e.node, *e.peers} - {None})  # type: ignore[arg-type]


@filter_rule(
    name="side-that-most-pairs-share",
    stage="MID",
    example=Example(
        given=(
            event("ib.err12", "n1", line=1, peers=("n4",), emit="bad_peers", kind="app"),
            event("ib.err12", "n2", line=2, peers=("n4",), emit="bad_peers", kind="app"),
            event("ib.err12", "n4", line=3, peers=("n3",), emit="bad_peers", kind="app"),
        ),
        expect=("add ib.err12", "retag ib.err12 ib.err12", "retag ib.err12 ib.err12", "retag ib.err12 ib.err12"),
        quiet=(
            event("ib.err12", "n1", line=1, peers=("n2",), emit="bad_peers", kind="app"),
            event("ib.err12", "n3", line=2, peers=("n4",), emit="bad_peers", kind="app"),
        ),
    ),
)
def side_that_most_pairs_share(view: View) -> Iterable[Change]:
    """The node in every one of at least three pairs is the side that fails; anything less decides nothing."""
    found = view.of("ib.err12", "roce.err12")
    pairs = {_pair(e) for e in found if len(_pair(e)) == 2}
    if len(pairs) < 3:
        return
    shared = frozenset.intersection(*pairs)
    if len(shared) != 1:
        return
    (culprit,) = shared
    for e in found:
        if culprit in _pair(e):
            yield Retag(
                event=e.id,
                symptom=e.symptom,
                reason=f"{culprit} is in all {len(pairs)} failing pairs",
                fields={"culprit": culprit},
            )
    said = next((e for e in found if culprit in e.peers), None)
    if said is not None:
        yield Add(event=_of_the_side(said, culprit), reason=f"what {said.node or 'a peer'} says of {culprit}")


def _of_the_side(e: Event, culprit: str) -> Event:
    """The peers' words as an event of the node that they all speak of."""
    said = {**e.fields, "culprit": culprit}
    return second(
        e, e.symptom, id=f"{e.id}:side", emit="bad_peers", node=culprit, fields=said, rank=None, gpu=None, before_start=False
    )
