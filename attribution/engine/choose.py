"""Choosing the cause among the root symptoms that remain. Knows no rule text: symptoms, events and times only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from attribution.engine.ledger import Ledger
from attribution.engine.order import comparable, earlier, gap
from attribution.engine.rules import RuleSet
from attribution.model import Event, Symptom

WIDE, WIDE_SECONDS = 3, 60.0


class Group(NamedTuple):
    """One symptom as a possible cause, with its events."""

    symptom: Symptom
    events: tuple[Event, ...]

    @property
    def first(self) -> Event:
        """The earliest event that says its own time, else the first."""
        timed = [e for e in self.events if e.own_time and e.time is not None and e.clock == "wall"]
        return min(timed, key=lambda e: (e.time, e.id)) if timed else self.events[0]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that its events speak of: of a pair, both ends."""
        return tuple(sorted({n for e in self.events for n in (e.node, *e.peers) if n is not None}))


class Choice(NamedTuple):
    """What is left. `against` says for each loser which step decided and why; `why` says it for the winner."""

    kept: tuple[Group, ...]
    lost: tuple[tuple[Group, str], ...]
    why: str


def groups_of(events: list[Event], symptoms: Mapping[str, Symptom]) -> list[Group]:
    by_symptom: dict[str, list[Event]] = {}
    for event in events:
        by_symptom.setdefault(event.symptom, []).append(event)
    found = [Group(symptoms[s], tuple(es)) for s, es in by_symptom.items()]
    return sorted(found, key=_display)


def _display(group: Group) -> tuple[int, float, str]:
    """Rank, then onset: the order inside a domain, and for display."""
    first = group.first
    return (group.symptom.rank, first.time if first.own_time and first.time is not None else 1e18, group.symptom.id)


def choose(ledger: Ledger, rules: RuleSet, roots: list[Event] | None = None) -> Choice:
    """(a) a stated cause, (b) the earlier onset, (c) `beats`, (d) an independent second source; then rank in a domain."""
    groups = groups_of(ledger.roots() if roots is None else roots, ledger.symptoms)
    lost: list[tuple[Group, str]] = []

    backed: dict[str, list[Event]] = {}

    def backing(group: Group) -> list[Event]:
        if group.symptom.id not in backed:
            backed[group.symptom.id] = second_sources(group, ledger)
        return backed[group.symptom.id]

    why = ["no other root symptom was found"] if len(groups) == 1 else []
    steps: list[tuple[str, Callable[[Group, Group], str | None]]] = [
        ("a", _stated),
        ("b", _earlier),
        ("c", lambda w, o: _more_specific(w, o, rules)),
        ("d", lambda w, o: _second_source(w, o, backing)),
    ]
    for letter, prefers in steps:
        out: list[tuple[Group, str]] = []
        for loser in groups:
            for winner in groups:
                reason = prefers(winner, loser) if winner is not loser else None
                if reason:
                    out.append((loser, f"({letter}) {reason}"))
                    break
        if out and len(out) < len(groups):
            losers = {g.symptom.id for g, _ in out}
            groups = [g for g in groups if g.symptom.id not in losers]
            lost += out
            why += sorted({reason for _, reason in out})
    return Choice(tuple(sorted(groups, key=_display)), tuple(lost), "; ".join(why[:3]))


def _stated(winner: Group, loser: Group) -> str | None:
    if any(e.stated for e in winner.events) and not any(e.stated for e in loser.events):
        return f"{winner.symptom.id} is stated as the cause"
    return None


def _earlier(winner: Group, loser: Group) -> str | None:
    """The earlier onset wins, where both onsets are the lines' own; an untimed event of the loser keeps it in."""
    if any(not e.own_time for e in loser.events) and winner.symptom.domain != loser.symptom.domain:
        return None
    a, b = winner.first, loser.first
    if earlier(a, b):
        seconds = gap(a, b) or 0.0
        return f"{winner.symptom.id} began {seconds:.0f} s before {loser.symptom.id}"
    return None


def _more_specific(winner: Group, loser: Group, rules: RuleSet) -> str | None:
    if any(loser.symptom.id in rules.expand(p) for p in winner.symptom.beats):
        return f"{winner.symptom.id} is more specific than {loser.symptom.id}"
    return None


def _second_source(winner: Group, loser: Group, backing: Callable[[Group], list[Event]]) -> str | None:
    if winner.symptom.domain == loser.symptom.domain:
        return None
    own = backing(winner)
    if own and not backing(loser):
        return f"{winner.symptom.id} is also shown by {own[0].kind} ({own[0].symptom})"
    return None


def second_sources(group: Group, ledger: Ledger) -> list[Event]:
    """Events of another source kind that speak for this cause: the same symptom or domain, or what it explains on its
    own node, where a root symptom says so.
    """
    kinds = {e.kind for e in group.events}
    nodes = set(group.nodes)
    found = []
    for event in ledger.of_domain(group.symptom.domain):
        if event.kind in kinds or event.kind == "record":
            continue
        gone = ledger.demoted.get(event.id)
        by = ledger.events.get(gone.by or "") if gone else None
        supports = (
            by is not None and by.symptom == group.symptom.id and gone is not None and gone.rule.startswith("edge:")
        ) or (gone is None and ledger.symptoms[event.symptom].sub_domain == group.symptom.sub_domain)
        if supports and (event.node is None or not nodes or event.node in nodes):
            found.append(event)
    return found


class Blamed(NamedTuple):
    """Who is responsible for a cause: nodes, or none with the reason; `wide` marks an incident of many nodes."""

    nodes: tuple[str, ...]
    reason: str
    wide: bool = False
    tie: bool = False


def blame(group: Group, ledger: Ledger) -> Blamed:
    """Nodes to act on. Users' text alone never names one."""
    if group.symptom.blames == "nothing":
        return Blamed((), "this kind of cause is no node's fault")
    events = [e for e in group.events if e.node is not None or e.peers]
    if group.symptom.blames == "peers":
        return _blame_pair(events)
    nodes = {e.node for e in events if e.node is not None and _proves(e)}
    named = {e.node for e in events if e.node is not None}
    if not nodes and len(named) == 1:
        backed = {e.node for e in second_sources(group, ledger) if e.kind != "app" and e.node is not None}
        nodes = named & backed
    if not nodes:
        why = "only the application's own output names it" if named else "no line names a node"
        return Blamed((), why)
    order = sorted(nodes)
    if len(order) == 1:
        return Blamed((order[0],), f"its own {_kinds(events, order[0])} shows it")
    return _several(events, order)


def _kinds(events: list[Event], node: str) -> str:
    return " and ".join(sorted({e.kind for e in events if e.node == node and e.kind != "app"})) or "log"


def _proves(event: Event) -> bool:
    return event.kind != "app"


def _several(events: list[Event], nodes: list[str]) -> Blamed:
    first = {n: Group.first.fget(Group(None, tuple(e for e in events if e.node == n))) for n in nodes}  # type: ignore[attr-defined,arg-type]
    for node in nodes:
        others = [n for n in nodes if n != node]
        if all(earlier(first[node], first[o]) for o in others) and _alone(first, node, others):
            return Blamed((node,), f"it began there, before {', '.join(others)}")
    if len(nodes) < WIDE:
        return Blamed(tuple(nodes), "each shows it in its own log")
    times = [e.time for e in first.values() if e.own_time and e.time is not None]
    if len(times) < len(nodes) or max(times) - min(times) <= WIDE_SECONDS:
        return Blamed((), f"{len(nodes)} nodes show it at once: a wide incident, not one node's fault", wide=True)
    return Blamed((), f"{len(nodes)} nodes show it and nothing orders them", tie=True)


def _alone(first: Mapping[str, Event], node: str, others: list[str]) -> bool:
    """Several nodes that fail at their own times are several faults only while the job lives: the first one counts."""
    return all(comparable(first[node], first[o]) for o in others)


def _blame_pair(events: list[Event]) -> Blamed:
    named = [e for e in events if e.fields.get("culprit")]
    sided = {e.fields["culprit"] for e in named}
    # One end's word on the other is no proof; several ends that agree are.
    reporters = {e.node for e in named if e.node not in sided}
    if len(sided) == 1 and (len(reporters) > 1 or any(_proves(e) for e in named)):
        return Blamed((sided.pop(),), "a decode, a port event or the pair graph names this side")
    return Blamed((), "both ends of the pair are possible", tie=True)
