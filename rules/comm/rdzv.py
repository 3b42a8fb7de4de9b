"""Rendezvous lines that turned out harmless."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Example, View, event, filter_rule


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
    """An agent tries to be the store's server and joins as a client where the port is taken: steps after it say that it ran."""
    steps = view.of("app.progress", live=False)
    for e in view.of("rdzv.addrinuse"):
        after = [s for s in steps if s.source == e.source and max(s.line, s.last_line) > e.line]
        if after:
            yield Demote(event=e.id, reason=f"the run made progress after it (line {after[-1].line})")
