"""Python rules at run: what they raise or give is a diagnostic, and what they are given they can't change."""

from __future__ import annotations

import msgspec
import pytest
from tools import attempt, bundle, line_rule, rule_set, symptom

from attribution.bundle import NodeRecord, Source
from attribution.engine.session import Session
from attribution.model import Event, Verdict
from attribution.rule import Accumulated, Add, Blame, Confident, Demote, Example, PythonRule, Retag

EXAMPLE = Example(given=(), expect=())
SYMPTOMS = (symptom("app.a", "application"), symptom("app.b", "application", role="cascade"))
LINES = b"FATAL ERROR one\nFATAL ERROR two\n"


def python(kind: str, function, stage: str = "LATE", **more) -> PythonRule:
    stage = {"filter": stage, "refiner": "FINAL"}.get(kind, "")
    return PythonRule(kind=kind, name=f"the-{kind}", stage=stage, function=function, example=EXAMPLE, **more)  # type: ignore[arg-type]


def accumulator(function) -> PythonRule:
    return python("accumulator", function, trigger="FATAL ERROR (?P<what>one)", needles=("fatal error",), reads=("app",))


def verdict(*rules: PythonRule) -> Verdict:
    extractor = line_rule("a", "FATAL ERROR (?P<what>.+)", "app.a", ("fatal error",))
    given = bundle(
        Source(path="x", kind="app", node="n1"), nodes=(NodeRecord(name="n1"),),
        attempt=attempt(nodes=("n1",), node_addresses={"n1": ["10.0.0.1"]}),
    )  # fmt: skip
    session = Session(rule_set(*SYMPTOMS, extractors=(extractor,), python=rules), given, fast=False)
    session.ingest("x", LINES, last=True)
    found = session.attribute(explain=True)
    msgspec.json.encode(found)
    return found


def crashing(error: BaseException):
    def function(*_):
        raise error

    return function


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), RecursionError("deep"), MemoryError(), ValueError("x")])
@pytest.mark.parametrize("kind", ["filter", "refiner", "collector", "accumulator"])
def test_what_a_rule_raises_is_a_diagnostic(kind, error):
    function = crashing(error)
    found = verdict(accumulator(function) if kind == "accumulator" else python(kind, function))
    assert [d.rule for d in found.diagnostics] == [f"the-{kind}"]
    assert found.diagnostics[0].what.startswith(type(error).__name__)
    assert found.domain == "application"


@pytest.mark.parametrize("part", ["feed", "result", "neither"])
def test_what_an_accumulator_raises_later_is_a_diagnostic(part):
    class Reader:
        def feed(self, _text):
            raise SystemExit if part == "feed" else ValueError("x")

        def result(self):
            raise SystemExit

    found = verdict(accumulator(lambda *_: 7 if part == "neither" else Reader()))
    assert {d.rule for d in found.diagnostics} == {"the-accumulator"}


@pytest.mark.parametrize("kind", ["filter", "collector", "accumulator"])
def test_ctrl_c_ends_the_run(kind):
    function = crashing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        verdict(accumulator(function) if kind == "accumulator" else python(kind, function))


EVENT = Event(id="e", rule="r", symptom="app.b", emit="bad_node", kind="app", source="x", line=1)


@pytest.mark.parametrize(
    "given",
    [
        7, None, "demote", ("demote",), EVENT,
        Demote(event="x:1:a", reason=5),  # type: ignore[arg-type]
        Demote(event=[], reason="x"),  # type: ignore[arg-type]
        Demote(event="gone", reason="x"),
        Demote(event="x:1:a", reason="\ud800"),
        Retag(event="x:1:a", symptom="app.none", reason="x"),
        Retag(event="x:1:a", symptom="app.b", reason="x", fields={"a": 1}),  # type: ignore[dict-item]
        Retag(event="x:1:a", symptom="app.b", reason="x", node=3),  # type: ignore[arg-type]
        Blame(nodes="n1", reason="x"),  # type: ignore[arg-type]
        Confident(at_most="certain", reason="x"),  # type: ignore[arg-type]
        Add(event=7, reason="x"),  # type: ignore[arg-type]
        Add(event=msgspec.structs.replace(EVENT, line="1"), reason="x"),
        Add(event=msgspec.structs.replace(EVENT, symptom="app.none"), reason="x"),
    ],
)  # fmt: skip
def test_a_change_that_is_none_is_a_diagnostic(given):
    found = verdict(python("filter", lambda _view: [given]))
    assert [d.rule for d in found.diagnostics] == ["the-filter"]
    assert (found.domain, found.demoted) == ("application", ())


@pytest.mark.parametrize(
    "given",
    [7, Accumulated(symptom=["app.b"]), Accumulated(symptom="app.b", fields=None), Accumulated(symptom="app.b", text=7),
     Accumulated(symptom="app.b", emit="all")],
)  # fmt: skip
def test_a_result_that_is_none_is_a_diagnostic(given):
    class Reader:
        def feed(self, _text):
            return False

        def result(self):
            return [given]

    assert [d.rule for d in verdict(accumulator(lambda *_: Reader())).diagnostics] == ["the-accumulator"]


@pytest.mark.parametrize("given", [7, [1], {"x": object()}, {"x": "\ud800"}, {(1, 2): 3}])
def test_a_fact_that_can_not_be_written_down_is_a_diagnostic(given):
    found = verdict(python("collector", lambda _view: given))
    assert [d.rule for d in found.diagnostics] == ["the-collector"]
    assert found.facts == {}


def test_facts_are_plain_values():
    found = verdict(python("collector", lambda view: {"b": view.events[0].fields, "a": {3, 1, 2}, "c": float("nan")}))
    assert found.facts == {"a": [1, 2, 3], "b": {"what": "one"}}


def _change_items(view):
    view.events[0].fields["what"] = "changed"


CHANGES = {
    "symptoms": lambda v: v.symptoms.clear(),
    "a symptom": lambda v: v.symptoms.update({"app.a": None}),
    "demoted": lambda v: v.demoted.clear(),
    "events": lambda v: v.events.append(None),
    "the view": lambda v: setattr(v, "events", ()),
    "a new attribute": lambda v: setattr(v, "mine", 1),
    "fields": _change_items,
    "fields, whole": lambda v: v.events[0].fields.clear(),
    "an event": lambda v: setattr(v.events[0], "symptom", "app.b"),
    "evidence": lambda v: v.events[0].evidence.append(None),
    "addresses": lambda v: v.attempt.node_addresses.clear(),
    "nodes": lambda v: v.state.nodes.clear(),
    "the state": lambda v: setattr(v.state, "history", ()),
    "the outcome": lambda v: v.outcome.update(domain="hardware"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_rule_can_not_change_what_it_is_given(change):
    found = verdict(python("filter", lambda view: change(view) or ()))
    assert [d.rule for d in found.diagnostics] == ["the-filter"]
    same = verdict()
    assert msgspec.structs.replace(found, diagnostics=()) == msgspec.structs.replace(same, diagnostics=())


def test_lists_that_a_view_gives_are_the_rules_own():
    seen = []

    def function(view):
        seen.append(len(view.of("app.*")))
        view.of("app.*").clear()
        view.live().clear()
        return ()

    verdict(python("filter", function), python("refiner", function))
    assert seen == [2, 2]


def test_what_an_accumulator_is_given_is_read_only():
    found = verdict(accumulator(lambda fields, _line: fields.update(what="x")))
    assert [d.rule for d in found.diagnostics] == ["the-accumulator"]


def test_an_added_event_is_no_longer_its_rules():
    fields = {"what": "mine"}

    def collects(view):
        fields["what"] = "changed"
        return {"what": [e.fields["what"] for e in view.of("app.b")]}

    adds = python("filter", lambda _view: [Add(event=msgspec.structs.replace(EVENT, fields=fields), reason="x")])
    assert verdict(adds, python("collector", collects)).facts == {"what": ["mine"]}


def test_the_trail_tells_of_rules_on_the_outcome_after_the_choice():
    cap = python("refiner", lambda _view: [Confident(at_most="low", reason="x")])
    found = verdict(msgspec.structs.replace(cap, stage="POST_OUTCOME"))
    assert list(dict.fromkeys(step.stage for step in found.trail))[-3:] == ["CHOICE", "POST_OUTCOME", "OUTCOME"]
    assert found.confidence == "low"
