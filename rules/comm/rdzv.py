"""Rendezvous lines that turned out harmless, and exceptions that only repeat them."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Demote, Event, Example, Retag, View, event, filter_rule

_RAISED = re2.compile(r"\b\w+Error: ")
_REPEATS = re2.compile(
    r"store based barrier|server socket has failed|Address already in use|EADDRINUSE|ncclUniqueId|monitoredBarrier|connectFullMesh|"
    r"mismatch between collectives|collective operation types across ranks|Unable to find (?:address|interface) for"
)


@filter_rule(
    name="port-in-use-and-yet-it-ran",
    stage="EARLY",
    example=Example(
        given=(
            event("rdzv.addrinuse", None, kind="app", line=3),
            event("app.progress", None, kind="app", line=40, emit="info"),
        ),
        expect=("demote rdzv.addrinuse",),
        quiet=(
            event("app.progress", None, kind="app", line=1, emit="info"),
            event("rdzv.addrinuse", None, kind="app", line=3),
        ),
    ),
)
def port_in_use_and_yet_it_ran(view: View) -> Iterable[Change]:
    """An agent tries to be the store's server and joins as a client where the port is taken, and asks again for a name that
    it did not get: steps after it say that it ran.

    What was raised as an exception ended that process, whatever others printed later.
    """
    for e in view.of("rdzv.addrinuse", "eth.dns"):
        if _RAISED.search(e.text):
            continue
        after = view.steps_after(e)
        if after:
            yield Demote(event=e.id, reason=f"the run made progress after it (line {after[-1].line})")


@filter_rule(
    name="exceptions-that-repeat-the-rendezvous",
    stage="EARLY",
    example=Example(
        given=(
            event(
                "py.runtime", None, kind="app", line=5, message="Timed out initializing process group in store based barrier"
            ),
        ),
        expect=("retag py.runtime py.echo",),
        quiet=(event("py.runtime", None, kind="app", line=5, message="shape mismatch in layer 3"),),
    ),
)
def exceptions_that_repeat_the_rendezvous(view: View) -> Iterable[Change]:
    """The same words are read as a symptom of their own: the exception around them is no second cause."""
    for e in view.of("py.runtime", "py.oserror", "py.traceback", "py.value"):
        said = " ".join((e.fields.get("said", ""), e.fields.get("message", ""), e.text))
        if _REPEATS.search(said):
            yield Retag(event=e.id, symptom="py.echo", reason="its words are those of the communication library")


@filter_rule(
    name="port-in-use-after-a-restart",
    stage="LATE",
    example=Example(
        given=(
            event("oom.cuda", None, kind="app", line=2),
            event(
                "rdzv.agent", None, kind="app", line=5, text="Worker group FAILED. 2/3 attempts left; will restart worker group"
            ),
            event("rdzv.addrinuse", None, kind="app", line=9),
        ),
        expect=("demote rdzv.addrinuse",),
        quiet=(event("oom.cuda", None, kind="app", line=2), event("rdzv.addrinuse", None, kind="app", line=9)),
    ),
)
def port_in_use_after_a_restart(view: View) -> Iterable[Change]:
    """The agent starts its workers again after a failure, and the first ones still hold the port: the failure counts."""
    restarts: dict[str, list[int]] = {}
    for e in view.of("rdzv.agent", live=False):
        if "restart" in e.text.lower():
            restarts.setdefault(e.source, []).append(e.line)
    # The source's first failure: whatever a later one follows, it follows that one too.
    failures: dict[str, Event] = {}
    for e in view.live() if restarts else ():
        if view.role(e) == "root" and e.kind == "app" and not e.symptom.startswith("rdzv."):
            known = failures.get(e.source)
            failures[e.source] = e if known is None or e.line < known.line else known
    for port in view.of("rdzv.addrinuse"):
        first = failures.get(port.source)
        if first is not None and any(first.line < line < port.line for line in restarts.get(port.source, ())):
            yield Demote(event=port.id, reason="the ranks were started again after a failure", by=first.id)


@filter_rule(
    name="more-ranks-than-the-world",
    stage="EARLY",
    example=Example(
        given=(event("rdzv.store_timeout", "n1", kind="app", line=5, world="2", came="4"),),
        expect=("retag rdzv.store_timeout rdzv.too_many",),
        quiet=(event("rdzv.store_timeout", "n1", kind="app", line=5, world="16", came="8"),),
    ),
)
def more_ranks_than_the_world(view: View) -> Iterable[Change]:
    """The barrier waits until exactly as many came as the world has: with more it never ends, however long it waits."""
    for e in view.of("rdzv.store_timeout"):
        world, came = e.fields.get("world", ""), e.fields.get("came", "")
        if world.isdigit() and came.isdigit() and int(came) > int(world):
            yield Retag(event=e.id, symptom="rdzv.too_many", reason=f"{came} ranks came to a world of {world}")
