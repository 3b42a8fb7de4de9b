"""Connections that broke: the two readings of a reset, and the pairs that the facts show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attribution.rule import Add, Change, Event, Example, Retag, View, collector, event, filter_rule, second

LOST = ("nccl.peer_reset", "ucx.retry", "ucx.retry_roce", "mpi.unreachable")


def _far_end(found: list[Event]) -> str | None:
    """The one node that every report names as the other end, and that reports nothing itself."""
    ends = [set(e.peers) for e in found]
    shared = set.intersection(*ends) if ends else set()
    reporters = {e.node for e in found}
    return shared.pop() if len(shared) == 1 and not shared & reporters else None


@filter_rule(
    name="two-readings-of-a-lost-peer",
    stage="LATE",
    example=Example(
        given=(event("nccl.peer_reset", "n1", kind="app", line=1, peers=("n2",), emit="bad_peers"),),
        expect=("add nccl.peer_crash", "retag nccl.peer_reset nccl.peer_reset"),
        quiet=(event("nccl.peer_closed", "n1", kind="app", line=1, peers=("n2",)),),
    ),
)
def two_readings_of_a_lost_peer(view: View) -> Iterable[Change]:
    """A reset or unanswered connection is the network's doing or a crash at the other end; its text can't tell."""
    found = view.of(*LOST)
    if not found or any(e.kind != "app" for e in found):
        return
    far = _far_end(found)
    first = found[0]
    if far is not None:
        for e in found:
            yield Retag(event=e.id, symptom=e.symptom, reason=f"{far} is the other end", fields={"culprit": far})
    yield Add(
        event=second(
            first,
            "nccl.peer_crash",
            id=f"{first.id}+crash",
            rule="two-readings-of-a-lost-peer",
            emit="bad_peers",
            count=1,
            gpu=None,
            fields={"culprit": far} if far is not None else {},
        ),
        reason="a crash at the other end prints the same",
    )


def _ends(e: Event) -> tuple[str, str] | None:
    """Both ends as the line gives them: names of the job's nodes where they are known, else what was printed."""
    other = e.peers[0] if e.peers else e.fields.get("peer", "") or e.fields.get("remote_gid", "")
    return (e.node or e.fields.get("local_gid", ""), other) if other else None


@collector(
    name="nccl-bad-pairs",
    example=Example(
        given=(
            event("ib.err12", "n1", kind="app", line=1, peers=("n2",), peer="10.0.0.2", hca="mlx5_1"),
            event("ib.err12", "n2", kind="app", line=2, peers=("n1",), peer="10.0.0.1"),
            event("ib.err12", "n1", kind="app", line=3, peer="10.9.9.9"),
        ),
        expect={
            "bad_pairs": [
                {"ends": ["10.9.9.9", "n1"], "reports": 1, "reported_by": ["n1"]},
                {"ends": ["n1", "n2"], "reports": 2, "reported_by": ["n1", "n2"], "nics": ["mlx5_1"]},
            ]
        },
    ),
)
def nccl_bad_pairs(view: View) -> Mapping[str, Any]:
    """Pairs whose requests failed: reports from both ends are one pair; ends outside the job stay as they were printed."""
    pairs: dict[tuple[str, ...], dict[str, Any]] = {}
    for e in view.of("ib.err*", "ib.status_*", "roce.err12", "ib.modify_qp", "nccl.peer_reset", "nccl.unreachable", live=False):
        ends = _ends(e)
        if ends is None:
            continue
        key = tuple(sorted(x for x in ends if x))
        pair = pairs.setdefault(key, {"ends": list(key), "reports": 0, "by": set(), "nics": set()})
        pair["reports"] += e.count
        pair["by"] |= {e.node} - {None}
        pair["nics"] |= {e.fields.get("hca", "")} - {""}
    out = []
    for key in sorted(pairs):
        pair = pairs[key]
        one: dict[str, Any] = {"ends": pair["ends"], "reports": pair["reports"]}
        if pair["by"]:
            one["reported_by"] = sorted(pair["by"])
        if pair["nics"]:
            one["nics"] = sorted(pair["nics"])
        out.append(one)
    return {"bad_pairs": out[:40]} if out else {}
