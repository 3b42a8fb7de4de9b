"""Files between ranks: a load that outlasts a collective, a directory that another process removed or made meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Add, Change, Event, Example, Retag, View, event, filter_rule, second

WAITED = ("nccl.watchdog", "rdzv.store_timeout", "ck.timeout")
SHORTEST, LONGEST = 30.0, 7200.0


@filter_rule(
    name="collective-timed-out-while-loading",
    stage="LATE",
    example=Example(
        given=(
            event("ck.loading", kind="app", emit="info", source="a", line=3, time=20.0),
            event("ck.timeout", kind="app", source="a", line=9, time=640.0),
        ),
        expect=("add ck.slow",),
        quiet=(
            event("ck.loading", kind="app", emit="info", source="a", line=3, time=20.0),
            event("app.checkpoint_loaded", kind="app", emit="info", source="a", line=4, time=400.0),
            event("ck.timeout", kind="app", source="a", line=9, time=640.0),
        ),
    ),
)
def timed_out_while_loading(view: View) -> Iterable[Change]:
    """The last thing that the run did was to load; no step, no finished load, no other cause: the load was too slow."""
    roots = [e for e in view.live() if view.role(e) == "root" and e.emit in ("bad_node", "bad_peers") and e.kind != "record"]
    if roots or view.of("nccl.desync"):
        return
    waited = [e for e in view.of(*WAITED) if view.role(e) == "cascade"]
    for e in view.of("ck.loading")[:1]:
        later = [w.line for w in waited if w.source == e.source and w.line > e.line and SHORTEST <= seconds(e, w) <= LONGEST]
        ends = [
            d.line for d in view.of("app.progress", "app.checkpoint_loaded", "app.checkpoint_saved") if d.source == e.source
        ]
        if later and not any(e.line < line < min(later) for line in ends):
            yield Add(
                event=second(e, "ck.slow", own_time=False, count=1, peers=(), gpu=None, before_start=False),
                reason="a collective timed out while the load was the last thing that the run did",
            )


def seconds(a: Event, b: Event) -> float:
    return b.time - a.time if a.time is not None and b.time is not None and a.clock == b.clock else -1.0


@filter_rule(
    name="saved-into-a-directory-that-went-away",
    stage="STANDARD",
    example=Example(
        given=(event("ck.missing", kind="app", saving="yes", path="/out/checkpoint-500/optimizer.pt"),),
        expect=("retag ck.missing ck.race",),
        quiet=(event("ck.missing", kind="app", path="/out/checkpoint-500/optimizer.pt"),),
    ),
)
def directory_went_away(view: View) -> Iterable[Change]:
    """Not found while saving is not a checkpoint that is missing: its directory was renamed or removed meanwhile."""
    for e in view.of("ck.missing"):
        if e.fields.get("saving") == "yes" and e.fields.get("path"):
            yield Retag(event=e.id, symptom="ck.race", reason="the program was saving into it")


MAKING = frozenset({"makedirs", "mkdir", "rename", "replace", "symlink", "symlink_to"})


@filter_rule(
    name="made-by-another-rank-meanwhile",
    stage="STANDARD",
    example=Example(
        given=(event("py.oserror", kind="app", rank=3, in_call="makedirs", text="[Errno 17] File exists: '/out/v3'"),),
        expect=("retag py.oserror ck.race",),
        quiet=(event("py.oserror", kind="app", in_call="makedirs", text="[Errno 17] File exists: '/out/v3'"),),
        attempt={"nodes": ("n1",)},
    ),
)
def made_by_another_rank(view: View) -> Iterable[Change]:
    """Of several ranks that make one directory, all but the first are told that it exists. A single process that is told
    so was given a directory of an earlier run.
    """
    for e in view.of("py.oserror"):
        ranks = e.rank is not None or len(view.attempt.nodes) > 1
        if ranks and "[Errno 17] File exists" in e.text and e.fields.get("in_call") in MAKING:
            yield Retag(event=e.id, symptom="ck.race", reason="several ranks make it, and another one was first")
