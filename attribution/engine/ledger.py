"""The events of one attribution and what rules did to them. Events stay; only their standing changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import msgspec

from attribution.model import Confidence, Demotion, Diagnostic, Event, Symptom, TrailStep
from attribution.rule import (
    Add,
    Blame,
    Change,
    Confident,
    Demote,
    PythonRule,
    Retag,
    State,
    Stated,
    View,
    changes,
    event_order,
    told,
)

ORDER: dict[Confidence, int] = {"low": 0, "medium": 1, "high": 2}


class Ledger:
    """Applies changes, keeps the trail. Everything is sorted, so the order of sources does not matter."""

    def __init__(self, events: Iterable[Event], symptoms: Mapping[str, Symptom], state: State) -> None:
        self.events: dict[str, Event] = {e.id: e for e in events}
        self._order: list[Event] | None = None
        self._view: View | None = None
        self._roots: dict[str, list[Event]] | None = None
        self.symptoms, self.state = symptoms, state
        self.demoted: dict[str, Demotion] = {}
        # Events that are shown and take part in nothing: those of rules on trial.
        self.aside: list[Event] = []
        self.trail: list[TrailStep] = []
        self.diagnostics: list[Diagnostic] = []
        self.blame: tuple[str, ...] | None = None
        self.at_most: Confidence = "high"

    def put(self, event: Event) -> None:
        """Add an event, or replace the one with its id."""
        old = self.events.get(event.id)
        self.events[event.id] = event
        self._view = self._roots = None
        if self._order is None:
            return
        # Most changes leave an event where it stood: it is found there, and nothing is sorted again.
        if old is not None and event_order(old) == event_order(event):
            self._order[bisect_left(self._order, event_order(event), key=event_order)] = event
        else:
            self._order = None

    def view(self, node: str | None = None, outcome: Mapping[str, object] | None = None) -> View:
        """What a rule sees. Views of the whole attempt are shared until an event changes: demotions show through."""
        if node is not None or outcome is not None:
            events = self.sorted() if node is None else [e for e in self.sorted() if e.node == node]
            return View(events, self.demoted, self.symptoms, self.state, outcome, node)
        if self._view is None:
            self._view = View(self.sorted(), self.demoted, self.symptoms, self.state)
        return self._view

    def sorted(self) -> list[Event]:
        if self._order is None:
            self._order = sorted(self.events.values(), key=event_order)
        return self._order

    def live(self) -> list[Event]:
        return [e for e in self.sorted() if e.id not in self.demoted]

    def roots(self) -> list[Event]:
        """Events that can still be the cause."""
        return [e for e in self.live() if self.symptoms[e.symptom].role == "root" and e.emit in ("bad_node", "bad_peers")]

    def of_domain(self, domain: str) -> list[Event]:
        """Events whose symptom can be a cause in this domain, demoted ones too, in order."""
        if self._roots is None:
            self._roots = {}
            for event in self.sorted():
                symptom = self.symptoms[event.symptom]
                if symptom.role == "root":
                    self._roots.setdefault(symptom.domain, []).append(event)
        return self._roots.get(domain, [])

    def demote(self, event: Event, rule: str, reason: str, by: Event | None = None, stage: str = "") -> None:
        if event.id in self.demoted:
            return
        self.demoted[event.id] = Demotion(rule=rule, reason=reason, by=by.id if by else None)
        self.note(stage, rule, f"demoted {event.symptom}: {reason}", event)

    def note(self, stage: str, rule: str, what: str, event: Event | None = None) -> None:
        self.trail.append(
            TrailStep(stage=stage, rule=rule, what=what, symptom=event.symptom if event else "", node=event.node if event else None,
                      source=event.source if event else "", line=event.line if event else 0)
        )  # fmt: skip

    def run(self, rule: PythonRule, view: View) -> None:
        """Run one filter or refiner; a crash is a diagnostic."""
        try:
            for change in changes(rule.function(view), rule, self.events):
                self._apply(change, rule)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a crashing rule must not cost the verdict, SystemExit included
            self.diagnostics.append(Diagnostic(rule=rule.name, what=told(error)))

    def _apply(self, change: Change, rule: PythonRule) -> None:
        match change:
            case Demote():
                self.demote(self.events[change.event], rule.name, change.reason, self.events.get(change.by or ""), rule.stage)
            case Retag():
                self._retag(change, rule)
            case Add():
                self.symptoms[change.event.symptom]
                self.put(change.event)
                self.note(rule.stage, rule.name, f"added {change.event.symptom}: {change.reason}", change.event)
            case Stated():
                event = self.events[change.event]
                self.put(msgspec.structs.replace(event, stated=True))
                self.note(rule.stage, rule.name, f"stated cause: {change.reason}", event)
            case Blame():
                self.blame = tuple(n for n in change.nodes if self.blame is None or n in self.blame)
                self.note(rule.stage, rule.name, f"responsible: {' '.join(change.nodes) or 'nobody'}: {change.reason}")
            case Confident():
                self.at_most = min(self.at_most, change.at_most, key=lambda c: ORDER[c])
                self.note(rule.stage, rule.name, f"confidence at most {change.at_most}: {change.reason}")

    def _retag(self, change: Retag, rule: PythonRule) -> None:
        event, symptom = self.events[change.event], self.symptoms[change.symptom]
        emit = event.emit
        if symptom.role == "context":
            emit = "interesting_node"
        elif emit in ("info", "interesting_node"):
            emit = "bad_peers" if symptom.blames == "peers" else "bad_node"
        fields, node = {**event.fields, **change.fields}, change.node or event.node
        self.put(msgspec.structs.replace(event, symptom=change.symptom, emit=emit, fields=fields, node=node))
        self.note(rule.stage, rule.name, f"{event.symptom} is {change.symptom}: {change.reason}", event)
