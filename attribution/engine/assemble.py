"""The verdict, put together from the ledger and the outcome."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from attribution import __version__
from attribution.bundle import Attempt
from attribution.engine import cover
from attribution.engine.advise import advice, drains, evidence_of
from attribution.engine.choose import Choice, Group, second_sources
from attribution.engine.events import Place
from attribution.engine.ledger import Ledger
from attribution.engine.outcome import Outcome
from attribution.engine.stamps import iso, parse_when
from attribution.model import (
    AttemptView,
    Candidate,
    Coverage,
    Demoted,
    Diagnostic,
    Event,
    RootCause,
    Seen,
    TrailStep,
    Verdict,
)
from attribution.rule import REFINE_STAGES, told, written

if TYPE_CHECKING:
    from attribution.engine.session import Session


def attempt_key(attempt: Attempt) -> str:
    """The attempt's name in the archive: cluster and DBIndex; without one, a hash of what identifies a bundle."""
    if attempt.dbindex:
        return f"{attempt.cluster}/{attempt.dbindex}"
    parts = "\0".join([attempt.cluster, attempt.job_id, attempt.start or "", attempt.submit or ""])
    return f"{attempt.cluster}/h{hashlib.sha256(parts.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


def _view(attempt: Attempt, place: Place) -> AttemptView:
    def when(text: str | None) -> str | None:
        return iso(parse_when(text, place.zone)) if text else None

    same = ("cluster", "job_id", "state", "exit_code", "nodes", "array_job_id", "array_task_id", "het_job_id", "het_offset",
            "dbindex", "sluid", "reason", "user", "account", "partition")  # fmt: skip
    return AttemptView(
        **{k: getattr(attempt, k) for k in same}, key=attempt_key(attempt),
        submit=when(attempt.submit), start=when(attempt.start), end=when(attempt.end),
    )  # fmt: skip


def assemble(
    session: Session,
    ledger: Ledger,
    choice: Choice,
    outcome: Outcome,
    coverage: tuple[Coverage, ...],
    place: Place,
    *,
    explain: bool,
) -> Verdict:
    """All fields of the verdict. Sorted, so that the same input gives the same bytes."""
    rules = session.rules
    missing = tuple(f"{c.source} ({c.state}{': ' + c.reason if c.reason else ''})" for c in cover.unread(coverage))
    live = [e for e in ledger.live() if e.kind != "record" or ledger.symptoms[e.symptom].role != "context"]
    in_choice = {e.id for g in outcome.candidates for e in g.events}
    lost = {e.id: why for g, why in choice.lost for e in g.events}
    symptoms, interesting, demoted = [], [], [(e, ledger.demoted[e.id].rule, ledger.demoted[e.id].reason, ledger.demoted[e.id].by)
                                              for e in ledger.sorted() if e.id in ledger.demoted]  # fmt: skip
    for event in live:
        role = ledger.symptoms[event.symptom].role
        if event.emit == "info":
            interesting.append(event)
        elif event.id in lost:
            demoted.append((event, "choice", lost[event.id], None))
        elif role == "context" or event.emit == "interesting_node":
            demoted.append((event, "role:context", "context: never a cause by itself", None))
        elif event.id in in_choice or (outcome.first is None and outcome.verdict != "no_failure"):
            symptoms.append(event)
        else:
            why = "the attempt completed" if outcome.verdict == "no_failure" else f"role {role}: usually a consequence"
            demoted.append((event, f"role:{role}", why, None))
    return Verdict(
        attempt=_view(session.bundle.attempt, place), verdict=outcome.verdict, terminal_state=outcome.terminal_state,
        domain=outcome.domain, sub_domain=outcome.sub_domain, confidence=outcome.confidence,
        root_cause=_root(outcome), candidates=tuple(_candidate(g, ledger, missing) for g in outcome.candidates),
        responsible_nodes=outcome.nodes, symptoms=_seen(symptoms, ledger), interesting=_seen([*interesting, *ledger.aside], ledger),
        demoted=_demoted(demoted, ledger), coverage=coverage, could_change=cover.could_change(coverage, rules),
        would_flip=cover.would_flip(ledger, rules, outcome, coverage), facts=_facts(session, ledger),
        advice=advice(outcome, missing), drain_suggestions=drains(ledger, outcome), missing=missing,
        rules={"version": rules.version, "hash": rules.hash}, engine=__version__,
        diagnostics=tuple(ledger.diagnostics), trail=_trail(ledger, choice, outcome) if explain else UNSET,
    )  # fmt: skip


def _first_seen(events: list[Event]) -> str | None:
    times = [e.time for e in events if e.time is not None and e.clock == "wall"]
    return iso(min(times)) if times else None


def _root(outcome: Outcome) -> RootCause | None:
    first = outcome.first
    if first is None or outcome.verdict == "insufficient":
        return None
    return RootCause(
        symptom=first.symptom.id, says=first.symptom.says, nodes=first.nodes, first_seen=_first_seen(list(first.events)),
        why=outcome.why or "it remains when its consequences are set aside", evidence=evidence_of(first.events),
    )  # fmt: skip


def _candidate(group: Group, ledger: Ledger, missing: tuple[str, ...]) -> Candidate:
    speaks = [f"{sum(e.count for e in group.events)} line(s) in {', '.join(sorted({e.kind for e in group.events}))}"]
    speaks += [f"also shown by {e.kind}: {e.symptom}" for e in second_sources(group, ledger)[:2]]
    explained = sorted(
        {
            ledger.events[k].symptom
            for k, d in ledger.demoted.items()
            if d.by and ledger.events[d.by].symptom == group.symptom.id
        }
    )
    if explained:
        speaks.append("explains " + ", ".join(explained[:6]))
    against = []
    if all(e.kind == "app" for e in group.events):
        against.append("only the application's own output shows it")
    if not any(e.own_time for e in group.events):
        against.append("no line gives its own time")
    against += [f"not read: {m}" for m in missing[:2]]
    return Candidate(
        symptom=group.symptom.id, says=group.symptom.says, domain=group.symptom.domain, sub_domain=group.symptom.sub_domain,
        nodes=group.nodes, first_seen=_first_seen(list(group.events)), speaks_for=tuple(speaks), against=tuple(against),
        evidence=evidence_of(group.events, 3),
    )  # fmt: skip


def _seen(events: list[Event], ledger: Ledger) -> tuple[Seen, ...]:
    by_symptom: dict[str, list[Event]] = {}
    for event in events:
        by_symptom.setdefault(event.symptom, []).append(event)
    found = []
    for name, group in by_symptom.items():
        symptom = ledger.symptoms[name]
        found.append(
            Seen(symptom=name, says=symptom.says, role=symptom.role, domain=symptom.domain, sub_domain=symptom.sub_domain,
                 nodes=_nodes(group), ranks=tuple(sorted({e.rank for e in group if e.rank is not None}))[:64],
                 count=sum(e.count for e in group), first_seen=_first_seen(group), rules=tuple(sorted({e.rule for e in group})),
                 evidence=evidence_of(tuple(group), 3))
        )  # fmt: skip
    return tuple(sorted(found, key=lambda s: (ledger.symptoms[s.symptom].rank, s.symptom)))


def _nodes(events: list[Event]) -> tuple[str, ...]:
    return tuple(sorted({e.node for e in events if e.node is not None}))


def _demoted(rows: list[tuple[Event, str, str, str | None]], ledger: Ledger) -> tuple[Demoted, ...]:
    groups: dict[tuple[str, str, str], list[tuple[Event, str | None]]] = {}
    for event, rule, reason, by in rows:
        groups.setdefault((event.symptom, rule, reason), []).append((event, by))
    found = []
    for (name, rule, reason), members in sorted(groups.items()):
        events = [e for e, _ in members]
        by = next((b for _, b in members if b), None)
        found.append(
            Demoted(symptom=name, says=ledger.symptoms[name].says, nodes=_nodes(events), count=sum(e.count for e in events),
                    first_seen=_first_seen(events), rule=rule, reason=reason, by=ledger.events[by].symptom if by in ledger.events else None,
                    evidence=evidence_of(tuple(events), 3))
        )  # fmt: skip
    return tuple(sorted(found, key=lambda d: (d.first_seen or "~", d.symptom, d.rule, d.reason)))


def _facts(session: Session, ledger: Ledger) -> dict[str, object]:
    facts: dict[str, object] = {}
    view = ledger.view()
    for rule in session.rules.python_rules("collector"):
        try:
            # Plain values, so that the verdict can be written down whatever a rule gave.
            found: dict[str, object] = msgspec.json.decode(written(rule.function(view)))
            facts.update({k: v for k, v in found.items() if v not in (None, [], {}, "")})
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a collector can't change the verdict, not even by crashing
            ledger.diagnostics.append(Diagnostic(rule=rule.name, what=told(error)))
    return dict(sorted(facts.items()))


def _trail(ledger: Ledger, choice: Choice, outcome: Outcome) -> tuple[TrailStep, ...]:
    """Every rule that fired, on which line; what demoted what; which step decided."""
    steps = [
        TrailStep(stage="EXTRACT", rule=e.rule, what=f"{e.symptom} ({e.emit}, {e.count}x)", symptom=e.symptom, node=e.node,
                  source=e.source, line=e.line)
        for e in [*ledger.sorted(), *ledger.aside]
    ]  # fmt: skip
    steps += [step for step in ledger.trail if step.stage != REFINE_STAGES[-1]]
    steps += [
        TrailStep(stage="CHOICE", rule="choice", what=f"{g.symptom.id} set aside: {why}", symptom=g.symptom.id)
        for g, why in choice.lost
    ]
    steps += [
        TrailStep(stage="CHOICE", rule="choice", what=f"{g.symptom.id} remains", symptom=g.symptom.id) for g in choice.kept
    ]
    # These rules saw a choice and an outcome; the outcome below is what they left of it.
    steps += [step for step in ledger.trail if step.stage == REFINE_STAGES[-1]]
    steps.append(
        TrailStep(
            stage="OUTCOME",
            rule="outcome",
            what=f"{outcome.verdict}: {outcome.domain}/{outcome.sub_domain}, {outcome.terminal_state}: {outcome.blamed.reason}",
        )
    )
    return tuple(steps)
