"""Python rules: imports checked on the syntax tree, loaded without touching sys.modules, examples run."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attribution.engine.needles import UnsupportedPatternError, options
from attribution.engine.rules import compile_pattern
from attribution.errors import RuleError
from attribution.model import Symptom
from attribution.rule import Add, Blame, Change, Confident, Demote, Event, Example, PythonRule, Retag, State, Stated, View
from attribution.ruleset.files import Problem

ALLOWED = frozenset(
    {"attribution.rule", "__future__", "re2", "collections.abc", "typing", "dataclasses", "itertools", "functools", "math"}
)
# The plain language is enough for a rule; these names reach around the import check.
FORBIDDEN_NAMES = frozenset(
    {"open", "exec", "eval", "compile", "__import__", "globals", "locals", "vars", "getattr", "setattr", "delattr", "input",
     "breakpoint", "memoryview", "__builtins__", "__loader__", "__spec__", "help", "exit", "quit", "print"}
)  # fmt: skip


def load_python(
    path: Path, symptoms: Mapping[str, Symptom], problems: list[Problem], *, proven: bool = False
) -> list[PythonRule]:
    """The rules of one file; what is wrong is added to `problems` with file and rule.

    A `proven` file has passed the checks before: its names are not looked at, its examples are not run again.
    """
    try:
        source = path.read_text(encoding="utf-8")
        tree = None if proven else ast.parse(source, filename=str(path))
    except (OSError, SyntaxError, ValueError) as error:
        problems.append((str(path), "", f"can't be read as Python: {error}"))
        return []
    bad = list(_bad_nodes(tree)) if tree is not None else []
    if bad:
        problems += [(str(path), "", what) for what in bad]
        return []
    module = types.ModuleType(f"sattrib_rules_{path.stem}")
    module.__file__ = str(path)
    try:
        exec(compile(tree or source, str(path), "exec"), module.__dict__)  # noqa: S102 - root-owned rule files, checked above
    except Exception as error:  # noqa: BLE001 - anything a rule file does wrong is the file's fault
        problems.append((str(path), "", f"fails to load: {type(error).__name__}: {error}"))
        return []
    found = [getattr(v, "__rule__", None) for _, v in sorted(vars(module).items())]
    rules = [with_needles(r, path, problems) for r in found if isinstance(r, PythonRule)]
    for rule in [] if proven else rules:
        problems += [(str(path), rule.name, what) for what in run_example(rule, symptoms)]
    return rules


def _bad_nodes(tree: ast.AST) -> Iterable[str]:
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [("." * node.level) + (node.module or "")]
        for name in names:
            if name not in ALLOWED:
                yield f"line {node.lineno}: imports {name}: a rule may import only attribution.rule and {', '.join(sorted(ALLOWED - {'attribution.rule'}))}"  # type: ignore[attr-defined]
        if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            yield f"line {node.lineno}: uses {node.id}: rules are pure functions"
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            yield f"line {node.lineno}: uses .{node.attr}: rules are pure functions"


def with_needles(rule: PythonRule, path: Path, problems: list[Problem]) -> PythonRule:
    """An accumulator's needles, derived from its trigger where it gives none."""
    if rule.kind != "accumulator" or rule.needles:
        return rule
    try:
        compile_pattern(rule.trigger)
        found = options(rule.trigger)
    except (UnsupportedPatternError, ValueError) as error:
        problems.append((str(path), rule.name, f"trigger: {error}"))
        return rule
    if not found:
        problems.append((str(path), rule.name, "trigger has no needle; give `needles`"))
        return rule
    import msgspec

    return msgspec.structs.replace(rule, needles=tuple(sorted(found[0])))


def run_example(rule: PythonRule, symptoms: Mapping[str, Symptom]) -> list[str]:
    """Problems of a rule's own example; empty where it does what it says."""
    try:
        got = _outcome(rule, rule.example, rule.example.given, symptoms)
        quiet = _outcome(rule, rule.example, rule.example.quiet, symptoms) if rule.example.quiet else None
    except KeyError as error:
        return [f"example: {error} is no declared symptom"]
    except Exception as error:  # noqa: BLE001 - the example shows the rule's own bug
        return [f"example: {type(error).__name__}: {error}"]
    expect: Any = rule.example.expect
    want = dict(expect) if isinstance(expect, Mapping) else sorted(expect)
    faults = [] if got == want else [f"example gives {got!r}, not {want!r}"]
    if quiet:
        faults.append(f"the quiet example gives {quiet!r}, not nothing")
    return faults


def _outcome(rule: PythonRule, example: Example, given: tuple[Any, ...], symptoms: Mapping[str, Symptom]) -> Any:
    if rule.kind == "accumulator":
        return _accumulated(rule, given)
    for e in given:
        symptoms[e.symptom]
    view = View(given, {}, symptoms, example_state(example), example.outcome, node=next((e.node for e in given), None))
    result = rule.function(view)
    if rule.kind == "collector":
        return dict(result)
    by_id = {e.id: e for e in given}
    return sorted(words(change, by_id) for change in result)


def _accumulated(rule: PythonRule, given: tuple[str, ...]) -> list[str]:
    pattern = compile_pattern(rule.trigger)
    found: list[str] = []
    open_one: Any = None
    for text in given:
        if open_one is not None and open_one.feed(text):
            continue
        if open_one is not None:
            found += [a.symptom for a in open_one.result()]
            open_one = None
        hit = pattern.search(text)
        if hit is not None:
            open_one = rule.function({k: v for k, v in hit.groupdict().items() if v is not None}, text)
    if open_one is not None:
        found += [a.symptom for a in open_one.result()]
    return sorted(found)


def example_state(example: Example) -> State:
    """The state that an example's rule sees: an attempt of nodes n1 to n4 that failed between 0 and 1000."""
    from attribution.bundle import Attempt

    values = {"cluster": "c", "job_id": "1", "state": "FAILED", "nodes": ("n1", "n2", "n3", "n4"), "exit_code": "1:0"}
    extra = dict(example.attempt)
    start, end = extra.pop("start", 0.0), extra.pop("end", 1000.0)
    kill = extra.pop("kill_time", None)
    from attribution.engine.stamps import Zone, parse_when

    utc = Zone("UTC", None)
    return State(
        attempt=Attempt(**{**values, **extra}), start=start, end=end, kill_time=kill,
        nodes={n.name: n for n in example.nodes},
        neighbours=tuple((n, parse_when(n.start, utc), parse_when(n.end, utc) if n.end else None) for n in example.neighbours),
        history=tuple((h, parse_when(h.time, utc)) for h in example.history),
    )  # fmt: skip


def words(change: Change, by_id: Mapping[str, Event]) -> str:
    """A change in the words of an example's `expect`."""
    match change:
        case Demote():
            return f"demote {by_id[change.event].symptom}"
        case Retag():
            return f"retag {by_id[change.event].symptom} {change.symptom}"
        case Add():
            return f"add {change.event.symptom}"
        case Stated():
            return f"stated {by_id[change.event].symptom}"
        case Blame():
            return "blame " + " ".join(change.nodes) if change.nodes else "blame nobody"
        case Confident():
            return f"confident {change.at_most}"
    raise RuleError([("", "", f"{change!r} is no change")])


_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")


def name_problem(name: str) -> str | None:
    """Why a rule name is not acceptable, or None."""
    return None if _NAME.fullmatch(name) and len(name) <= 80 else f"name {name!r} must be lower-case words joined by - or _"
