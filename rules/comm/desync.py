"""Watchdog reports of one process group that differ: the ranks took different paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import re2

from attribution.rule import Change, Confident, Demote, Event, Example, Retag, View, event, filter_rule, refiner

_GUID = re2.compile(r"GUID (\w+)")
_ZERO = re2.compile(r"^(?:ID )?0\b|default_pg")
# In these, every rank of a group has the same size; in the others sizes may differ, or ranks pair up.
SAME_SIZE = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "ALLREDUCE_COALESCED"})
POINT_TO_POINT = frozenset({"SEND", "RECV", "COALESCED", "UNKNOWN"})
TOGETHER = 300.0
CLOSE = 8
MOST = 200


def _rank(e: Event) -> int | None:
    said = e.fields.get("pgrank", "")
    return e.rank if e.rank is not None else int(said) if said.isdigit() else None


def _groups(view: View) -> Mapping[tuple[int | None, str], str]:
    """(rank, sequence number) to process group, from the watchdog's second lines; only names that mean the same everywhere."""
    found: dict[tuple[int | None, str], str] = {}
    for e in view.of("nccl.work_failed", live=False):
        said = e.fields.get("pg", "")
        guid = _GUID.search(said)
        name = "0" if _ZERO.search(said) else guid.group(1) if guid else ""
        if name:
            found[(_rank(e), e.fields.get("seq", ""))] = name
    return found


def _firsts(view: View) -> list[tuple[Event, str]]:
    """The first report of each rank in each group, with the group's name."""
    groups, seen = _groups(view), set()
    out = []
    for e in view.of("nccl.watchdog"):
        group = groups.get((_rank(e), e.fields.get("seq", "")), "")
        if (_rank(e), group) not in seen:
            seen.add((_rank(e), group))
            out.append((e, group))
    return out


def _unlike(reports: list[tuple[Event, str]]) -> list[tuple[Event, str]]:
    """Two reports of each kind (group, operation, number, size): thousands of ranks that agree need no comparing."""
    kinds: dict[tuple[str, ...], int] = {}
    out = []
    for e, group in reports:
        kind = (group, *(e.fields.get(k, "") for k in ("op", "seq", "numel")))
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= 2:
            out.append((e, group))
    return out[:MOST]


def _together(a: Event, b: Event) -> bool:
    timed = a.time is not None and b.time is not None and a.clock == b.clock
    return not timed or abs((a.time or 0.0) - (b.time or 0.0)) <= TOGETHER


def _differ(a: Event, b: Event, known: bool) -> str:
    """`sure`, `weak`, or nothing: whether two reports show different paths."""
    mine, other = a.fields, b.fields
    if mine.get("op") in POINT_TO_POINT or other.get("op") in POINT_TO_POINT:
        return ""
    operation = mine.get("op") != other.get("op")
    one, two = mine.get("seq", ""), other.get("seq", "")
    if not one.isdigit() or not two.isdigit():
        return "weak" if operation and not (one or two) else ""
    if one == two:
        size = mine.get("numel") != other.get("numel") and mine.get("op") in SAME_SIZE and "numel" in mine and "numel" in other
        return "sure" if operation else ("sure" if known else "weak") if size else ""
    ahead = abs(int(one) - int(two))
    if not known:  # groups that count apart are rarely this close to each other
        return "weak" if operation and ahead <= CLOSE else ""
    return "weak" if operation or ahead > 1 else ""


def _text(e: Event) -> str:
    size = f" of {e.fields['numel']}" if "numel" in e.fields else ""
    return f"rank {_rank(e)} in {e.fields.get('op', '?')}{size} at #{e.fields.get('seq', '?')}"


@filter_rule(
    name="ranks-at-different-collectives",
    stage="MID",
    example=Example(
        given=(
            event("nccl.watchdog", None, rank=7, line=1, kind="app", seq="80", op="BROADCAST", numel="56"),
            event("nccl.watchdog", None, rank=3, line=2, kind="app", seq="80", op="ALLREDUCE", numel="2106881"),
        ),
        expect=("retag nccl.watchdog nccl.desync", "retag nccl.watchdog nccl.desync"),
        quiet=(
            event("nccl.watchdog", None, rank=0, line=1, kind="app", seq="80", op="ALLREDUCE", numel="56"),
            event("nccl.watchdog", None, rank=3, line=2, kind="app", seq="80", op="ALLREDUCE", numel="56"),
            event("nccl.watchdog", None, rank=5, line=3, kind="app", seq="411", op="SEND", numel="8"),
        ),
    ),
)
def ranks_at_different_collectives(view: View) -> Iterable[Change]:
    """Ranks of one group must issue the same operations in the same order; where they time out in others, they diverged.

    Groups that are known to be different are never compared. One sequence number apart, same operation: a rank that got its
    data before the path broke, which is no mismatch.
    """
    reports = _unlike(_firsts(view))
    found: dict[str, tuple[Event, Event]] = {}
    for index, (a, group_a) in enumerate(reports):
        for b, group_b in reports[index + 1 :]:
            if _rank(a) == _rank(b) or (group_a and group_b and group_a != group_b) or not _together(a, b):
                continue
            kind = _differ(a, b, bool(group_a and group_b))
            if kind:
                found.setdefault(kind, (a, b))
    causes = any(view.role(e) == "root" and e.emit != "info" and not e.symptom.startswith("slurm.") for e in view.live())
    for kind in ("sure",) if causes else ("sure", "weak"):
        if kind in found:
            a, b = found[kind]
            for e in (a, b):
                yield Retag(
                    event=e.id, symptom="nccl.desync", reason=f"{_text(a)}, but {_text(b)}", fields={"evidence_is": kind}
                )
            return


@filter_rule(
    name="out-of-memory-after-the-watchdog",
    stage="STANDARD",
    example=Example(
        given=(
            event("nccl.watchdog", None, rank=2, line=10, kind="app"),
            event("oom.cuda", None, rank=2, line=40, kind="app"),
        ),
        expect=("demote oom.cuda",),
        quiet=(
            event("oom.cuda", None, rank=2, line=4, kind="app"),
            event("nccl.watchdog", None, rank=2, line=10, kind="app"),
            event("oom.cuda", None, rank=3, line=12, kind="app"),
        ),
    ),
)
def out_of_memory_after_the_watchdog(view: View) -> Iterable[Change]:
    """A rank whose collective was aborted runs on with garbage: sizes read from it make it ask for absurd amounts."""
    for oom in view.of("oom.cuda", "oom.cuda_*", "oom.hip"):
        for report in view.of("nccl.watchdog", "nccl.desync"):
            same = oom.rank is not None and oom.rank == _rank(report) and oom.source == report.source
            if same and report.line < oom.line:
                yield Demote(event=oom.id, reason="its own collective had timed out before", by=report.id)
                break


@refiner(
    name="how-sure-a-hang-is",
    stage="POST_OUTCOME",
    example=Example(
        given=(event("nccl.desync", None, rank=0, line=1, kind="app", evidence_is="weak"),),
        expect=("confident low",),
        outcome={"symptom": "nccl.desync"},
    ),
)
def how_sure_a_hang_is(view: View) -> Iterable[Change]:
    """Different sequence numbers, and what hung at the end, are read from hints; different operations are plain."""
    symptom = view.outcome.get("symptom")
    weak = [e for e in view.of("nccl.desync", "nccl.rank0_work") if e.fields.get("evidence_is") == "weak"]
    if symptom == "nccl.teardown_hang" or (symptom in ("nccl.desync", "nccl.rank0_work") and weak):
        yield Confident(at_most="low", reason="the ranks' reports hint at it and do not prove it")
