"""All that a rule author may import.

A Python rule is a plain function with one of the decorators below. It takes a view, which it can't change, and returns
values. Each carries an `example` that the loader runs: events (or lines) in, changes out.

    @filter_rule(name="xid-45-names-its-cause", stage="MID", example=Example(given=(…), expect=("demote gpu.x",)))
    def xid_45(view: View) -> Iterable[Change]: ...
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from attribution.bundle import Attempt, HistoryItem, Neighbour, NodeRecord
from attribution.model import Confidence, Demotion, Event, Frozen, Seen, SourceKind, Symptom

__all__ = [
    "Accumulated", "Add", "Attempt", "Blame", "Change", "Confident", "Demote", "Event", "Example", "HistoryItem", "Lines",
    "Neighbour", "NodeRecord", "PythonRule", "Retag", "Seen", "State", "Stated", "Symptom", "View", "accumulator", "collector",
    "event", "filter_rule", "refiner", "second", "until",
]  # fmt: skip

FilterStage = Literal["EARLY", "MID", "STANDARD", "LATE"]
RefineStage = Literal["SCRUB", "FINAL", "POST_OUTCOME"]
FILTER_STAGES: tuple[FilterStage, ...] = ("EARLY", "MID", "STANDARD", "LATE")
REFINE_STAGES: tuple[RefineStage, ...] = ("SCRUB", "FINAL", "POST_OUTCOME")
MODULE = "sattrib_rules_"  # begins the name of the module that a rule file is run as


# ---- changes: all that a filter or refiner can do -------------------------------------------------------------------


class Demote(Frozen, frozen=True, kw_only=True):
    """The event stays, but no longer counts. `by` is the id of the event that explains it."""

    event: str
    reason: str
    by: str | None = None


class Retag(Frozen, frozen=True, kw_only=True):
    """The event means something more precise, or another kind of thing; `fields` are added, `node` and `gpu` replaced."""

    event: str
    symptom: str
    reason: str
    fields: Mapping[str, str] = {}
    node: str | None = None


class Add(Frozen, frozen=True, kw_only=True):
    """A new event that others together amount to. Its evidence is theirs."""

    event: Event
    reason: str


class Stated(Frozen, frozen=True, kw_only=True):
    """Something trustworthy names this event as the cause, in words."""

    event: str
    reason: str


class Blame(Frozen, frozen=True, kw_only=True):
    """POST_OUTCOME and FINAL: only these nodes are responsible (a subset of what the evidence names)."""

    nodes: tuple[str, ...]
    reason: str


class Confident(Frozen, frozen=True, kw_only=True):
    """POST_OUTCOME: confidence is at most this."""

    at_most: Confidence
    reason: str


Change = Demote | Retag | Add | Stated | Blame | Confident
CHANGES = (Demote, Retag, Add, Stated, Blame, Confident)
LATE_CHANGES: Mapping[type, tuple[str, ...]] = {Blame: ("FINAL", "POST_OUTCOME"), Confident: ("FINAL", "POST_OUTCOME")}


# ---- views: all that a rule can see ---------------------------------------------------------------------------------


class State(Frozen, frozen=True, kw_only=True):
    """What does not change while rules run: the attempt, its window, its nodes, neighbours and history.

    `start` and `end` are epoch seconds or None. `kill_time` is when Slurm began to kill it, if it did.
    """

    attempt: Attempt
    start: float | None = None
    end: float | None = None
    kill_time: float | None = None
    nodes: Mapping[str, NodeRecord] = {}
    neighbours: tuple[tuple[Neighbour, float, float | None], ...] = ()
    history: tuple[tuple[HistoryItem, float], ...] = ()
    trusted_files: bool = False


class View:
    """The events as they stand now, in a fixed order (time, source, line). Read-only."""

    __slots__ = ("_asked", "_by_symptom", "_demoted", "_explained", "demoted", "events", "node", "outcome", "state", "symptoms")

    def __init__(
        self,
        events: Iterable[Event],
        demoted: Mapping[str, Demotion],
        symptoms: Mapping[str, Symptom],
        state: State,
        outcome: Mapping[str, Any] | None = None,
        node: str | None = None,
    ) -> None:
        # Views are shared between rules: what a rule is given, it can't change for the next one.
        self._asked: dict[tuple[str, ...], list[Event]]
        self._by_symptom: dict[str, list[Event]]
        self._explained: dict[tuple[str, str], bool]
        self._demoted: Mapping[str, Demotion]
        self.events: tuple[Event, ...]
        self.demoted: Mapping[str, Demotion]
        self.symptoms: Mapping[str, Symptom]
        self.state: State
        self.outcome: Mapping[str, Any]
        self.node: str | None
        for name, value in (
            ("_demoted", demoted), ("events", tuple(events)), ("demoted", MappingProxyType(demoted)),
            ("symptoms", MappingProxyType(symptoms)), ("state", state), ("outcome", MappingProxyType(_Outcome(outcome or {}))),
            ("node", node), ("_asked", {}), ("_explained", {}),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(f"a view is read-only: {name} can't be set")

    @property
    def attempt(self) -> Attempt:
        return self.state.attempt

    def live(self) -> list[Event]:
        """Events that nothing has demoted yet."""
        return [e for e in self.events if e.id not in self._demoted]

    def of(self, *patterns: str, live: bool = True) -> list[Event]:
        """Events whose symptom is one of the ids or globs (`gpu.*`); without `live=False`, demoted ones are left out."""
        found = self._asked.get(patterns)
        if found is None:
            by_symptom = self._index()
            names = [s for s in by_symptom if any(s == p or fnmatch.fnmatchcase(s, p) for p in patterns)]
            found = sorted((e for s in names for e in by_symptom[s]), key=event_order)
            self._asked[patterns] = found
        return [e for e in found if not (live and e.id in self._demoted)]

    def _index(self) -> dict[str, list[Event]]:
        try:
            return self._by_symptom
        except AttributeError:
            found: dict[str, list[Event]] = {}
            for e in self.events:
                found.setdefault(e.symptom, []).append(e)
            object.__setattr__(self, "_by_symptom", found)
            return found

    def role(self, event: Event) -> str:
        return self.symptoms[event.symptom].role

    def explains(self, cause: Event, effect: Event) -> bool:
        """Whether an edge of the cause's symptom names the effect's, at any scope or time; globs end in a star."""
        pair = cause.symptom, effect.symptom
        known = self._explained.get(pair)
        if known is None:
            edges = (x.symptom for x in self.symptoms[pair[0]].explains)
            known = any(pair[1].startswith(x[:-1]) if x.endswith("*") else pair[1] == x for x in edges)
            self._explained[pair] = known
        return known

    def unshown(self, events: Iterable[Event], effects: list[Event], rivals: list[Event]) -> Iterator[tuple[Event, Event]]:
        """Those of `events` that explain none of `effects`, each with the first of `rivals` that it does not explain."""
        found: dict[str, Event | None] = {}
        for e in events:
            if e.symptom not in found:
                shown = any(self.explains(e, x) for x in effects)
                found[e.symptom] = None if shown else next((r for r in rivals if not self.explains(e, r)), None)
            rival = found[e.symptom]
            if rival is not None:
                yield e, rival

    def steps_after(self, event: Event) -> list[Event]:
        """The steps of work that its source shows behind an event, demoted or not."""
        steps = self.of("app.progress", live=False)
        return [s for s in steps if s.source == event.source and max(s.line, s.last_line) > event.line]


def until(event: Event) -> float | None:
    """The time of its last repetition."""
    return event.last_time if event.last_time is not None else event.time


def second(event: Event, symptom: str, **changes: Any) -> Event:
    """The same line read as another possible cause, for `Add`. Keywords replace what the event says otherwise."""
    own = {"id": f"{event.id}:{symptom}", "emit": "bad_node", "stated": False}
    return msgspec.structs.replace(event, symptom=symptom, **{**own, **changes})


class _Outcome(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        raise KeyError(f"the outcome has no {key}: an example gives it, Example(outcome={{{key!r}: ...}})")


def event_order(e: Event) -> tuple[bool, float, str, int, str]:
    """The one order of events: timed before untimed, then source and line."""
    return (e.time is None, e.time or 0.0, e.source, e.line, e.id)


class Lines(Protocol):
    """What an accumulator is fed: one line at a time of the source (and rank) that triggered it."""

    def feed(self, text: str) -> bool:
        """Take the next line; False to opt out (the line is then not part of it)."""

    def result(self) -> Iterable[Accumulated]:
        """What was recognised; called once, at the end."""


class Accumulated(Frozen, frozen=True, kw_only=True):
    """An event of an accumulator: the engine adds place and time from the triggering line."""

    symptom: str
    emit: Literal["bad_node", "interesting_node", "bad_peers", "info"] = "bad_node"
    fields: Mapping[str, str] = {}
    text: str = ""


def sound(value: Any, *kinds: Any) -> Any:
    """What a rule gave, one of `kinds`, as it would be written down: with its types checked, and nothing shared.

    Raises TypeError or ValueError where it is something else.
    """
    if type(value) not in kinds:
        raise TypeError(f"gave {type(value).__name__}, not {' or '.join(kind.__name__ for kind in kinds)}")
    for key in ("event", "by"):
        if not isinstance(value, Add) and isinstance(getattr(value, key, None), Event):
            raise TypeError(f"{type(value).__name__} takes the id of an event: {key}=e.id, not {key}=e")
    return msgspec.json.decode(written(value), type=type(value))


def changes(result: Any, rule: PythonRule, known: Container[str]) -> list[Any]:
    """What a filter or refiner gave, checked; `known` are the events' ids. Raises what `sound` does, TypeError for a change
    that the rule's stage can't make, ValueError for an id that no event has.
    """
    found = [sound(change, *CHANGES) for change in listed(result)]
    for change in found:
        stages = LATE_CHANGES.get(type(change))
        if stages is not None and rule.stage not in stages:
            raise TypeError(
                f"{type(change).__name__} is for stage {' and '.join(stages)}, and this rule's stage is {rule.stage}"
            )
        named = [] if isinstance(change, Add | Blame | Confident) else [change.event]
        named += [change.by] if isinstance(change, Demote) and change.by is not None else []
        for name in named:
            if name not in known and not any(isinstance(c, Add) and c.event.id == name for c in found):
                raise ValueError(f"{type(change).__name__}: no event has the id {name!r}: give the id of one that the view has")
    return found


def listed(result: Any) -> list[Any]:
    """What a rule gave or yielded. Raises TypeError for nothing, and whatever a rule that yields does."""
    if result is None:
        raise TypeError("the rule gave None: yield what it finds, or return a list")
    return list(result)


def written(value: Any) -> bytes:
    """Anything that a rule gave as JSON, the same each time. Raises TypeError, ValueError or OverflowError where it can't be."""
    return msgspec.json.encode(value, enc_hook=_plain, order="deterministic")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no plain value")


def told(error: BaseException) -> str:
    """What a rule's code raised, in short, and on which line of its file; its own text may break as well."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - see above
        text = "its own text can't be shown"
    return f"{type(error).__name__}: {text}"[:300] + _line(error)


def _line(error: BaseException) -> str:
    found, trace = 0, error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith(MODULE):
            found = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {found})" if found else ""


# ---- examples and registration --------------------------------------------------------------------------------------


class Example(Frozen, frozen=True, kw_only=True):
    """`given` are events (lines of text for an accumulator); `expect` is what must come out.

    For filters and refiners: words such as "demote gpu.xid_45", "retag nvlink.netir nvlink.signal_integrity",
    "add gpu.repeat", "stated gpu.off_bus", "blame node-02", "confident low". For accumulators: symptom ids. For
    collectors: the facts, as a mapping. `quiet` is a second set of which nothing may come.
    """

    given: tuple[Any, ...]
    expect: tuple[str, ...] | Mapping[str, Any]
    quiet: tuple[Any, ...] = ()
    attempt: Mapping[str, Any] = {}
    history: tuple[HistoryItem, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    nodes: tuple[NodeRecord, ...] = ()
    outcome: Mapping[str, Any] = {}


class PythonRule(Frozen, frozen=True, kw_only=True):
    """A registered rule. `order` is (stage, name): the loader sorts, files don't matter."""

    kind: Literal["accumulator", "filter", "refiner", "collector"]
    name: str
    stage: str
    function: Callable[..., Any]
    example: Example
    trigger: str = ""
    needles: tuple[str, ...] = ()
    reads: tuple[SourceKind, ...] = ()
    doc: str = ""


F = TypeVar("F", bound=Callable[..., Any])


def _register(kind: Any, function: F, **more: Any) -> F:
    rule = PythonRule(kind=kind, function=function, doc=(function.__doc__ or "").strip(), **more)
    function.__rule__ = rule  # type: ignore[attr-defined]
    return function


def filter_rule(*, name: str, stage: FilterStage, example: Example) -> Callable[[F], F]:
    """Register `function(view: View) -> Iterable[Change]`, run once at `stage` over all events."""
    return lambda f: _register("filter", f, name=name, stage=stage, example=example)


def refiner(*, name: str, stage: RefineStage, example: Example) -> Callable[[F], F]:
    """Register `function(view: View) -> Iterable[Change]`: SCRUB sees one node (`view.node`), the others the job."""
    return lambda f: _register("refiner", f, name=name, stage=stage, example=example)


def collector(*, name: str, example: Example) -> Callable[[F], F]:
    """Register `function(view: View) -> Mapping[str, fact]`; it can't change the verdict."""
    return lambda f: _register("collector", f, name=name, stage="", example=example)


def accumulator(
    *, name: str, trigger: str, reads: tuple[SourceKind, ...], example: Example, needles: tuple[str, ...] = ()
) -> Callable[[F], F]:
    """Register `function(fields: Mapping[str, str], line: str) -> Lines`, started by a line that `trigger` matches."""
    return lambda f: _register(
        "accumulator", f, name=name, stage="", trigger=trigger, reads=reads, example=example, needles=needles
    )


_EVENT_FIELDS = frozenset(Event.__struct_fields__)


def event(symptom: str, node: str | None = "n1", **more: Any) -> Event:
    """An event for an example; unknown keywords become fields (`event("gpu.xid_45", xid="45", time=10.0)`).

    It is own-timed where a time is given, and from the kernel log unless `kind` says otherwise.
    """
    known = {k: v for k, v in more.items() if k in _EVENT_FIELDS}
    fields = {k: str(v) for k, v in more.items() if k not in _EVENT_FIELDS}
    base: dict[str, Any] = {
        "id": f"{symptom}@{node}@{more.get('time', '-')}@{more.get('line', 1)}", "rule": "example", "symptom": symptom,
        "emit": "bad_node", "kind": "kern", "source": f"{node}.kern", "line": 1, "node": node,
        "own_time": more.get("time") is not None,
    }  # fmt: skip
    return msgspec.convert({**base, **known, "fields": {**known.get("fields", {}), **fields}}, Event)
