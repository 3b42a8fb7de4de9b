"""What belongs to the attempt, by node and by time: its window, what lingers from before it, and what came after the kill."""

from __future__ import annotations

from bisect import bisect_right
from fnmatch import fnmatchcase

import msgspec

from attribution.engine.ledger import Ledger
from attribution.engine.order import earlier
from attribution.engine.record import base_state
from attribution.engine.trust import trusted
from attribution.model import Event
from attribution.rule import State

BEFORE, AFTER, SILENT_AFTER = 900.0, 300.0, 900.0
KILL_SLACK = 2.0


def apply_nodes(ledger: Ledger) -> None:
    """Demote what machines outside the attempt say of themselves, and lines whose host their node's own log disputes."""
    for event in ledger.live():
        stranger = event.fields.get("outside")
        if stranger:
            ledger.demote(
                event,
                "node",
                f"it is {stranger[:80]}'s, and no log of a node of this attempt that it may stand in",
                stage="WINDOW",
            )


def apply_window(ledger: Ledger) -> None:
    """Demote what lies outside the window; mark what lingers from before the start."""
    state = ledger.state
    if state.start is None and state.end is None:
        return
    silent = {e.node for e in ledger.live() if e.fields.get("silent") == "yes"}
    clearers = _clearers(ledger)
    for event in ledger.live():
        # A time taken from an earlier line of the application's output is no proof: anything may have printed that.
        borrowed = event.kind == "app" and not event.own_time
        if event.kind == "record" or event.time is None or event.clock != "wall" or borrowed:
            continue
        reason = _outside(event, state, event.node in silent)
        if reason == "before":
            _lingering(ledger, event, clearers.get(event.node, []))
        elif reason == "after":
            ledger.demote(event, "window", "after the end of the attempt's window", stage="WINDOW")


def _ago(start: float | None, time: float) -> str:
    seconds = int((start or time) - time)
    return f"{seconds} s" if seconds < 300 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def _outside(event: Event, state: State, silent: bool) -> str:
    """One of: before (the start), after (the window), or nothing for inside."""
    time, last = event.time or 0.0, event.last_time if event.last_time is not None else event.time or 0.0
    slack = event.grain + event.uncertainty
    if state.start is not None and max(time, last) < state.start - slack:
        return "before"
    if state.end is not None:
        late = SILENT_AFTER if silent and event.kind != "app" else AFTER
        if time > state.end + late + slack:
            return "after"
    return ""


def _clearers(ledger: Ledger) -> dict[str | None, list[Event]]:
    """Node -> what may end a fault there, by time."""
    ends = {s.lingers for s in ledger.symptoms.values()}
    found: dict[str | None, list[Event]] = {}
    for event in ledger.sorted():
        if event.time is not None and ("clears" in event.fields or event.symptom in ends):
            found.setdefault(event.node, []).append(event)
    return found


def _lingering(ledger: Ledger, event: Event, clearers: list[Event]) -> None:
    symptom = ledger.symptoms[event.symptom]
    when = f"{_ago(ledger.state.start, event.time or 0.0)} before the start"
    if symptom.role != "root":
        if symptom.role != "context":
            ledger.demote(event, "window", when, stage="WINDOW")
        ledger.put(msgspec.structs.replace(event, before_start=True))
        return
    if symptom.lingers == "no":
        ledger.demote(event, "window", f"{when}, and it does not linger", stage="WINDOW")
        return
    later = bisect_right(clearers, event.time or 0.0, key=lambda c: c.time or 0.0)
    # What users can write ends no fault that they can't have written.
    sure = trusted(event, ledger)
    clearer = next(
        (c for c in clearers[later:] if _clears(ledger, symptom.lingers, event, c) and (not sure or trusted(c, ledger))), None
    )
    if clearer is not None:
        ledger.demote(event, "window", f"{when}, and cleared by {clearer.symptom} since", clearer, "WINDOW")
        return
    boots = ledger.state.nodes.get(event.node or "")
    if boots is not None and symptom.lingers in ("boot", "reset"):
        from attribution.engine.stamps import Zone, parse_when

        zone = Zone(ledger.state.attempt.log_timezone, ledger.state.end)
        starts = [parse_when(b.start, zone) for b in boots.boots]
        if any((event.time or 0.0) < at <= (ledger.state.start or at) + BEFORE for at in starts):
            ledger.demote(event, "window", f"{when}, and the node has booted since", stage="WINDOW")
            return
    ledger.put(msgspec.structs.replace(event, before_start=True))


def _clears(ledger: Ledger, lingers: str, event: Event, other: Event) -> bool:
    if other.time is None or not earlier(event, other, slack=0.0):
        return False
    if ledger.state.end is not None and other.time > ledger.state.end:
        return False
    if lingers in ("boot", "reset"):
        clears = other.fields.get("clears")
        if clears == "boot":
            return True
        return lingers == "reset" and clears == "reset" and (other.gpu is None or event.gpu is None or other.gpu == event.gpu)
    return other.symptom == lingers


def settle_lingering(ledger: Ledger) -> None:
    """A root from before the start counts only if something inside the window is its effect on that node or GPU."""
    # What was seen on each node inside the window: the symptom and the GPU are all that is asked for.
    inside: dict[str | None, set[tuple[str, str | None]]] = {}
    for e in ledger.sorted():
        if not e.before_start and e.kind != "record" and (e.id not in ledger.demoted or ledger.demoted[e.id].by):
            inside.setdefault(e.node, set()).add((e.symptom, e.gpu))
    for event in ledger.roots():
        if not event.before_start:
            continue
        if any(_shows(ledger, event, symptom, gpu) for symptom, gpu in inside.get(event.node, ())):
            ledger.note("WINDOW", "lingering", "began before the start and still shows inside the window", event)
        else:
            ledger.demote(
                event, "window", "before the start, and nothing inside the window shows that it still matters", stage="WINDOW"
            )


def _shows(ledger: Ledger, cause: Event, effect: str, gpu: str | None) -> bool:
    """Whether a symptom on the cause's own node is its effect."""
    if cause.gpu and gpu and cause.gpu != gpu:
        return False
    # An edge of scope job says what a job may die with: a traceback, a task's exit code. That any job's own bug shows too.
    domain = ledger.symptoms[effect].domain
    device = domain in ("hardware", "platform") or domain == ledger.symptoms[cause.symptom].domain
    edges = [e for e in ledger.symptoms[cause.symptom].explains if device or e.scope != "job"]
    return any(fnmatchcase(effect, e.symptom) for e in edges) or (effect == cause.symptom and gpu == cause.gpu)


def apply_kill(ledger: Ledger) -> None:
    """What follows a kill, cancel or timeout signal is teardown, unless it began before."""
    kill = ledger.state.kill_time
    # Anyone can print a notice: it begins the teardown only where Slurm's record does not say that the attempt failed by itself.
    denied = base_state(ledger.state.attempt.state) == "FAILED"
    marks = {} if denied else {e.source: e for e in ledger.live() if e.fields.get("kill") == "yes" and e.kind == "app"}
    for event in ledger.live():
        role = ledger.symptoms[event.symptom].role
        if role == "context" or event.kind == "record" or event.fields.get("kill") == "yes":
            continue
        if kill is not None and event.own_time and event.clock == "wall" and event.time is not None:
            if event.time > kill + KILL_SLACK + event.uncertainty:
                ledger.demote(event, "teardown", "came after Slurm began to kill the attempt", stage="WINDOW")
            continue
        mark = marks.get(event.source)
        if mark is not None and event.line > mark.line and not event.own_time:
            ledger.demote(event, "teardown", "printed after the line that says the attempt was killed", mark, "WINDOW")
