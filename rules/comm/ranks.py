"""Facts about ranks: where each ran, how it ended, what it said first; and the versions in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import re2

from attribution.rule import Accumulated, Event, Example, Lines, View, accumulator, collector, event

SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
VERSIONS = ("nccl", "build", "cuda_driver", "ofi_plugin", "ucx", "libfabric", "openmpi", "torch", "cuda", "python")
_ITEM = re2.compile(r"^\s*(host|rank|exitcode|error_file|traceback|time) *: *(.{0,200})")
_RANK = re2.compile(r"^(\d+) \(local_rank: (\d+)\)")
_EXIT = re2.compile(r"^(-?\d+) \(pid: (\d+)\)")
MOST = 64


class _Block:
    """One failure in torchrun's summary: time, host, rank, exit code."""

    def __init__(self, symptom: str) -> None:
        self.symptom = symptom
        self.fields: dict[str, str] = {}
        self.lines = 0

    def feed(self, text: str) -> bool:
        self.lines += 1
        item = _ITEM.match(text)
        if item is None:
            return self.lines <= 2
        key, value = item.group(1), item.group(2).strip()
        rank, code = _RANK.match(value), _EXIT.match(value)
        if key == "host":
            self.fields["host"] = value
        elif key == "rank" and rank is not None:
            self.fields["rank"], self.fields["local_rank"] = rank.group(1), rank.group(2)
        elif key == "exitcode" and code is not None:
            self.fields["exit"], self.fields["failed_pid"] = code.group(1), code.group(2)
        return key != "traceback"

    def result(self) -> Iterable[Accumulated]:
        if "rank" in self.fields and "exit" in self.fields:
            yield Accumulated(symptom=self.symptom, emit="info", fields=dict(self.fields))


_SUMMARY = (
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2024-03-01_10:11:12",
    "  host      : n7.cluster",
    "  rank      : 12 (local_rank: 4)",
    "  exitcode  : -11 (pid: 4411)",
)


@accumulator(
    name="elastic-root-cause",
    trigger=r"^Root Cause \(first observed failure\):",
    reads=("app",),
    example=Example(given=_SUMMARY, expect=("rdzv.first_failure",), quiet=("Failures:", "  <NO_OTHER_FAILURES>")),
)
def elastic_root_cause(_fields: Mapping[str, str], _line: str) -> Lines:
    """The failure that torchrun saw first: a lead, not a proof, since clocks and polling decide the order."""
    return _Block("rdzv.first_failure")


@accumulator(
    name="elastic-failures",
    trigger=r"^Failures:$",
    reads=("app",),
    needles=("failures:",),
    example=Example(
        given=("Failures:", "[1]:", *_SUMMARY[2:]), expect=("rdzv.rank_failure",), quiet=("Failures:", "  <NO_OTHER_FAILURES>")
    ),
)
def elastic_failures(_fields: Mapping[str, str], _line: str) -> Lines:
    """The first of the other failures that torchrun lists."""
    return _Block("rdzv.rank_failure")


def _ended(code: str) -> dict[str, Any]:
    number = int(code)
    signal = SIGNALS.get(-number) or (SIGNALS.get(number - 128) if number > 128 else None)
    return {"exit": number, "signal": signal} if signal else {"exit": number}


@collector(
    name="rank-exits",
    example=Example(
        given=(
            event("rdzv.first_failure", None, kind="app", line=1, emit="info", rank=12, host="n7.cluster", exit="-11"),
            event("rdzv.rank_failure", None, kind="app", line=9, emit="info", rank=3, exit="1"),
        ),
        expect={
            "first_failed_rank": {"rank": 12, "host": "n7.cluster", "exit": -11, "signal": "SIGSEGV"},
            "rank_exits": {"12": {"exit": -11, "signal": "SIGSEGV"}, "3": {"exit": 1}},
        },
    ),
)
def rank_exits(view: View) -> Mapping[str, Any]:
    """Exit code or signal of each rank, and the first that failed, as torchrun saw it."""
    exits: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    for e in view.of("rdzv.first_failure", "rdzv.rank_failure", live=False):
        code = e.fields.get("exit", "")
        if e.rank is None or not code.lstrip("-").isdigit():
            continue
        exits.setdefault(str(e.rank), _ended(code))
        if e.symptom == "rdzv.first_failure" and "first_failed_rank" not in facts:
            host = {"host": e.fields["host"]} if e.fields.get("host") else {}
            facts["first_failed_rank"] = {"rank": e.rank, **host, **_ended(code)}
    return {**facts, "rank_exits": dict(sorted(exits.items())[:MOST])} if exits else {}


@collector(
    name="comm-versions",
    example=Example(
        given=(
            event("comm.version", None, kind="app", line=1, emit="info", nccl="2.21.5", build="cuda12.4"),
            event("comm.version", None, kind="app", line=2, emit="info", nccl="2.19.3"),
            event("app.version", None, kind="app", line=3, emit="info", torch="2.6.0+cu124"),
        ),
        expect={"versions": {"build": ["cuda12.4"], "nccl": ["2.19.3", "2.21.5"], "torch": ["2.6.0+cu124"]}},
    ),
)
def comm_versions(view: View) -> Mapping[str, Any]:
    """Versions that the output prints; more than one of a kind is worth a look."""
    found: dict[str, set[str]] = {}
    for e in view.of("comm.version", "app.version", live=False):
        for key in VERSIONS:
            if e.fields.get(key):
                found.setdefault(key, set()).add(e.fields[key])
    return {"versions": {k: sorted(v)[:8] for k, v in sorted(found.items())}} if found else {}


@collector(
    name="rank-map",
    example=Example(
        given=(
            event("comm.rank_at", "n1", kind="app", line=1, emit="info", rank=0, nranks="16"),
            event("comm.rank_at", "n2", kind="app", line=2, emit="info", rank=8, nranks="16"),
            event("comm.rank_at", "n2", kind="app", line=3, emit="info", rank=0, nranks="2"),
        ),
        expect={"rank_map": {"0": ["n1"], "8": ["n2"]}, "world_size": 16},
    ),
)
def rank_map(view: View) -> Mapping[str, Any]:
    """Rank to node: NCCL's lines of the largest communicator, and every line that gives both; two claims are both kept."""
    joined = [e for e in view.of("comm.rank_at", live=False) if e.rank is not None and e.node]
    size = max((int(e.fields.get("nranks", "0")) for e in joined), default=0)
    nodes: dict[int, set[str]] = {}
    for e in view.events:
        part = e.symptom == "comm.rank_at" and int(e.fields.get("nranks", "0")) < size
        if e.kind == "app" and e.rank is not None and e.node and not part:
            nodes.setdefault(e.rank, set()).add(e.node)
    if not nodes:
        return {}
    facts: dict[str, Any] = {"rank_map": {str(r): sorted(nodes[r]) for r in sorted(nodes)[:4096]}}
    return {**facts, "world_size": size} if size else facts


def _says_something(e: Event, view: View) -> bool:
    return e.rank is not None and e.emit != "info" and view.role(e) in ("root", "cascade")


@collector(
    name="first-error-of-each-rank",
    example=Example(
        given=(
            event("nccl.remote_err", "n1", kind="app", rank=2, line=1, time=5.0),
            event("nccl.watchdog", "n1", kind="app", rank=2, line=2, time=9.0),
            event("nccl.watchdog", "n2", kind="app", rank=4, line=3, time=7.0),
        ),
        expect={"first_errors": {"2": "nccl.remote_err", "4": "nccl.watchdog"}},
        quiet=(event("nccl.watchdog", "n1", kind="app", line=2, time=9.0),),
    ),
)
def first_error_of_each_rank(view: View) -> Mapping[str, Any]:
    """What each rank said first. A rank is only taken from a line that gives one: no label is not rank 0."""
    first: dict[int, str] = {}
    for e in view.events:
        if _says_something(e, view):
            first.setdefault(e.rank or 0, e.symptom)
    return {"first_errors": {str(r): first[r] for r in sorted(first)[:MOST]}} if first else {}


@collector(
    name="last-collective-of-each-rank",
    example=Example(
        given=(
            event("nccl.dump_signal", None, kind="app", rank=0, line=1, pg="ID 0 PG GUID 0(default_pg)", enqueued="90"),
            event("nccl.work_failed", None, kind="app", rank=1, line=2, pg="ID 0 PG GUID 0(default_pg)", enqueued="92"),
            event("nccl.work_failed", None, kind="app", rank=1, line=3, pg="ID 2 PG GUID 7", enqueued="5"),
        ),
        expect={"last_collectives": {"0": 90, "1": 92}, "ranks_behind": [0]},
    ),
)
def last_collective_of_each_rank(view: View) -> Mapping[str, Any]:
    """The last work that each rank enqueued in the default group; ranks behind the others are the ones to look at."""
    last: dict[int, int] = {}
    for e in view.of("nccl.dump_signal", "nccl.work_failed", "nccl.desync", live=False):
        said, group = e.fields.get("enqueued", ""), e.fields.get("pg", "")
        if e.rank is not None and said.isdigit() and ("default_pg" in group or group in ("0", "ID 0 PG GUID 0")):
            last[e.rank] = max(last.get(e.rank, 0), int(said))
    if not last:
        return {}
    behind = sorted(r for r, n in last.items() if n < max(last.values()))
    return {"last_collectives": {str(r): last[r] for r in sorted(last)[:MOST]}, "ranks_behind": behind[:MOST]}


@collector(
    name="worker-exits",
    example=Example(
        given=(event("pt.childfailed", "n3", kind="app", line=1, exit="-9", local_rank="2"),),
        expect={"worker_exits": [{"node": "n3", "local_rank": 2, "exit": -9, "signal": "SIGKILL"}]},
    ),
)
def worker_exits(view: View) -> Mapping[str, Any]:
    """How torchrun's agents saw their workers end: local ranks, which are no global ones."""
    out = []
    for e in view.of("pt.childfailed", live=False):
        code, local = e.fields.get("exit", ""), e.fields.get("local_rank", "")
        if code.lstrip("-").isdigit() and local.isdigit():
            node = {"node": e.node} if e.node else {}
            out.append({**node, "local_rank": int(local), **_ended(code)})
    return {"worker_exits": out[:MOST]} if out else {}
