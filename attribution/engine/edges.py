"""Cascade edges: what a symptom explains is demoted, unless time refutes it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attribution.engine.ledger import Ledger
from attribution.engine.order import earlier, gap, tolerance
from attribution.engine.rules import RuleSet
from attribution.engine.trust import trusted
from attribution.model import Event

PIECE = re.compile(r"~(\d+)\b")

Key = tuple[str, str | None]
# What time or place took out of the attempt explains nothing in it; what an edge demoted still explains what follows from it.
NO_CAUSE = frozenset({"window", "teardown", "node"})


def apply_edges(ledger: Ledger, rules: RuleSet) -> None:
    """Demote every event that an edge explains. Strong causes go first, so a circle keeps its strongest member."""
    causes = _Causes(ledger)
    pending = sorted(
        (e for e in ledger.live() if e.symptom in rules.effects), key=lambda e: (-ledger.symptoms[e.symptom].rank, e.id)
    )
    for event in pending:
        if ledger.symptoms[event.symptom].role == "context":
            continue
        found = _explained(event, causes, ledger, rules)
        if found is None:
            continue
        cause, scope = found
        ledger.demote(event, f"edge:{cause.symptom}", _reason(cause, event, ledger, scope), cause, "EDGES")


def _reason(cause: Event, event: Event, ledger: Ledger, scope: str) -> str:
    says = ledger.symptoms[cause.symptom].says
    where = f" on {cause.node}" if cause.node and cause.node != event.node else " on the same node" if cause.node else ""
    seconds = gap(cause, event)
    when = f", {_span(seconds)}" if seconds is not None else ""
    return f"a consequence of: {says}{where}{when} ({scope})"


def _span(seconds: float) -> str:
    if abs(seconds) < 1:
        return "in the same second"
    return f"{abs(seconds):.0f} s {'earlier' if seconds > 0 else 'later'}"


def _acquitted(by: str, ledger: Ledger) -> bool:
    """Whether what set a cause aside shows that it did no harm (steps of the run, an answer), and is no cause above it."""
    other = ledger.events.get(by)
    return other is None or ledger.symptoms[other.symptom].role == "context"


class _Causes:
    """Events that may explain others, by symptom and node. They stay explanations when they are effects themselves."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.at: dict[Key, list[Event]] = {}
        self.all: dict[str, list[Event]] = {}
        for event in ledger.sorted():
            gone = ledger.demoted.get(event.id)
            if gone is not None and (gone.by is None or gone.rule in NO_CAUSE or _acquitted(gone.by, ledger)):
                continue
            if event.emit == "info" or ledger.symptoms[event.symptom].role == "teardown":
                continue
            self.at.setdefault((event.symptom, event.node), []).append(event)
            self.all.setdefault(event.symptom, []).append(event)

    def near(self, symptom: str, scope: str, event: Event) -> Iterable[Event]:
        """Possible causes of this symptom inside the scope, nearest first; long lists are thinned to their earliest."""
        if scope == "job":
            own = self.at.get((symptom, event.node), ()) if event.node else ()
            return (*own[:8], *self.all.get(symptom, ())[:8])
        if scope == "pair":
            sides = {event.node, *event.peers}
            return [c for c in self.all.get(symptom, ())[:2000] if c.node in sides or sides & set(c.peers)][:16]
        if event.node is None and len(self.ledger.state.attempt.nodes) > 1:
            # A line that names no node may speak of any of them: the edge holds if only one node shows the cause.
            found = self.all.get(symptom, ())
            return found[:8] if len({c.node for c in found}) == 1 else ()
        near = (
            self.at.get((symptom, event.node or self.ledger.state.attempt.nodes[0]), ())
            if self.ledger.state.attempt.nodes
            else ()
        )
        if scope == "gpu":
            return [c for c in near if c.gpu is None or event.gpu is None or c.gpu == event.gpu][:16]
        return near[:16]


def _explained(event: Event, causes: _Causes, ledger: Ledger, rules: RuleSet) -> tuple[Event, str] | None:
    """The cause that explains the event, strongest symptom first, and the edge's scope."""
    for symptom, scope, _pattern, within in rules.effects[event.symptom]:
        if symptom not in causes.all:
            continue
        for cause in causes.near(symptom, scope, event):
            if cause.id == event.id or _depends(cause, event, ledger) or earlier(event, cause):
                continue
            if cause.kind == "app" and ledger.symptoms[event.symptom].blames == "node" and _stands(event, scope, ledger):
                continue
            if scope == "gpu" and cause.symptom == event.symptom:
                continue
            seconds = gap(cause, event)
            if within is not None and seconds is not None and abs(seconds) > within + tolerance(cause, event):
                continue
            return cause, scope
    return None


def _stands(event: Event, scope: str, ledger: Ledger) -> bool:
    """Whether what a program prints can't undo it: Slurm's word that a node failed, and what a node's kernel says of it, where
    the program spoke of the job as a whole.
    """
    if event.kind in ("record", "slurmctld"):
        return True
    return scope == "job" and event.emit == "bad_node" and trusted(event, ledger)


def _depends(cause: Event, event: Event, ledger: Ledger) -> bool:
    """Whether the would-be cause is itself explained by the event: a circle."""
    seen = set()
    at: str | None = cause.id
    while at is not None and at not in seen:
        seen.add(at)
        if at == event.id:
            return True
        gone = ledger.demoted.get(at)
        at = gone.by if gone else None
    return False


def apply_same_line(ledger: Ledger, rules: RuleSet) -> None:
    """Where several rules hit one line, the symptom that `beats` the others is what the line means."""
    by_line: dict[tuple[str, int, str], list[Event]] = {}
    for event in ledger.live():
        # Carriage returns part a line into pieces; an id tells which one it is.
        piece = PIECE.search(event.id)
        by_line.setdefault((event.source, event.line, piece[1] if piece else ""), []).append(event)
    for group in by_line.values():
        if len(group) < 2:
            continue
        for event in group:
            winner = next((o for o in group if o.symptom != event.symptom and rules.beats(o.symptom, event.symptom)), None)
            if winner is not None:
                ledger.demote(
                    event, f"beats:{winner.symptom}", f"the same line, read more precisely as {winner.symptom}", winner, "LINES"
                )
