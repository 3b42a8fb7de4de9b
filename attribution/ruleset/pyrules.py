"""Python rules: held to their dialect, loaded under limits, examples run."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from attribution.engine.needles import UnsupportedPatternError, options
from attribution.engine.rules import compile_pattern
from attribution.errors import RuleError
from attribution.model import KINDS, Symptom
from attribution.rule import (
    FILTER_STAGES,
    MODULE,
    REFINE_STAGES,
    Accumulated,
    Add,
    Blame,
    Change,
    Confident,
    Demote,
    Event,
    Example,
    PythonRule,
    Retag,
    State,
    Stated,
    View,
    changes,
    listed,
    sound,
    told,
    written,
)
from attribution.ruleset import dialect
from attribution.ruleset.files import Problem
from attribution.ruleset.limits import StuckError, limited

_STAGES: Mapping[str, tuple[str, ...]] = {"filter": FILTER_STAGES, "refiner": REFINE_STAGES}


def load_python(
    path: Path, source: bytes, symptoms: Mapping[str, Symptom], problems: list[Problem], *, proven: bool = False
) -> list[PythonRule]:
    """The rules of one file; what is wrong is added to `problems` with file and rule.

    A `proven` file has passed the checks before: its names are not looked at, its examples are not run again.
    """
    try:
        text = source.decode("utf-8")
        tree = None if proven else ast.parse(text, filename=str(path))
        code = compile(tree or text, str(path), "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        problems.append((str(path), "", f"can't be read as Python: {told(error)}"))
        return []
    bad = dialect.faults(tree) if tree is not None else []
    if bad:
        problems += [(str(path), "", what) for what in bad]
        return []
    module = types.ModuleType(MODULE + path.stem)
    vars(module).update(dialect.namespace(module.__name__, str(path)))
    with _guarded(problems, path, "", "fails to load: ", proven=proven), _listed(module):
        exec(code, vars(module))  # noqa: S102 - rule files are trusted as code; the dialect keeps them reviewable
    dialect.freeze(vars(module))
    rules: list[PythonRule] = []
    for rule in (getattr(v, "__rule__", None) for _, v in sorted(vars(module).items())):
        if isinstance(rule, PythonRule) and rule.function.__module__ == module.__name__:
            with _guarded(problems, path, str(rule.name), "", proven=proven):
                rules += _taken(rule, symptoms, path, problems, proven=proven)
    return rules


@contextmanager
def _guarded(problems: list[Problem], path: Path, rule: str, lead: str, *, proven: bool) -> Iterator[None]:
    """Whatever a rule file raises, or that it does not end, is the file's fault, and never ours. A Ctrl-C stays one."""
    try:
        with nullcontext() if proven else limited():
            yield
    except StuckError as error:
        problems.append((str(path), rule, f"{lead}{error}"))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        problems.append((str(path), rule, f"{lead}{told(error)}"))


@contextmanager
def _listed(module: types.ModuleType) -> Iterator[None]:
    """`@dataclass` looks its module up among the loaded ones."""
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        sys.modules.pop(module.__name__, None)


def _taken(
    rule: PythonRule, symptoms: Mapping[str, Symptom], path: Path, problems: list[Problem], *, proven: bool
) -> list[PythonRule]:
    """The rule, ready to use, where it is what it must be; it stays in the set when only its example fails."""
    wrong = [] if proven else _misshapen(rule)
    problems += [(str(path), str(rule.name), what) for what in wrong]
    if wrong:
        return []
    ready = with_needles(rule, path, problems)
    if not proven:
        with _guarded(problems, path, rule.name, "example: ", proven=False):
            problems += [(str(path), rule.name, what) for what in run_example(ready, symptoms)]
    return [ready]


def _misshapen(rule: PythonRule) -> list[str]:
    """What the decorators' types say, for those who have no type checker."""
    stages = _STAGES.get(rule.kind, ("",))
    checks = (
        (isinstance(rule.name, str), "name must be text"),
        (rule.stage in stages, f"stage {rule.stage!r} is not one of {', '.join(stages)}"),
        (isinstance(rule.example, Example), "example must be an Example"),
        (isinstance(rule.trigger, str), "trigger must be text"),
        (isinstance(rule.reads, tuple) and set(rule.reads) <= set(KINDS), f"reads must be a tuple of {', '.join(KINDS)}"),
        (isinstance(rule.needles, tuple) and all(isinstance(n, str) for n in rule.needles), "needles must be a tuple of text"),
    )
    return [what for holds, what in checks if not holds]


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
        problems.append((str(path), rule.name, "trigger has no needle: no literal of 4 bytes in every branch; give `needles`"))
        return rule
    import msgspec

    return msgspec.structs.replace(rule, needles=tuple(sorted(found[0])))


def run_example(rule: PythonRule, symptoms: Mapping[str, Symptom]) -> list[str]:
    """Problems of a rule's own example; empty where it does what it says. Raises whatever the rule does."""
    given = [*rule.example.given, *rule.example.quiet]
    named = {e.symptom for e in given} if rule.kind != "accumulator" else set()
    if unknown := sorted(named - set(symptoms)):
        return [f"example: {name!r} is no declared symptom" for name in unknown]
    got, names = _outcome(rule, rule.example, rule.example.given, symptoms)
    quiet, more = _outcome(rule, rule.example, rule.example.quiet, symptoms) if rule.example.quiet else (None, set())
    expect: Any = rule.example.expect
    want = dict(expect) if isinstance(expect, Mapping) else sorted(expect)
    faults = [f"example: {name!r} is no declared symptom" for name in sorted((names | more) - set(symptoms))]
    if got != want:
        faults.append(f"example gives {got!r}, not {want!r}")
    if quiet:
        faults.append(f"the quiet example gives {quiet!r}, not nothing")
    return faults


def _outcome(
    rule: PythonRule, example: Example, given: tuple[Any, ...], symptoms: Mapping[str, Symptom]
) -> tuple[Any, set[str]]:
    """What comes out, in the words of `expect`, and the symptoms that it names."""
    if rule.kind == "accumulator":
        results = [sound(a, Accumulated) for a in _accumulated(rule, given)]
        return sorted(a.symptom for a in results), {a.symptom for a in results}
    view = View(given, {}, symptoms, example_state(example), example.outcome, node=next((e.node for e in given), None))
    result = rule.function(view)
    if rule.kind == "collector":
        if not isinstance(result, Mapping):
            raise TypeError(f"the rule gave {type(result).__name__}: return its facts as a dict, {{}} for none")
        written(result)
        return dict(result), set()
    by_id = {e.id: e for e in given}
    given_back = changes(result, rule, by_id)
    names = {c.symptom for c in given_back if isinstance(c, Retag)} | {
        c.event.symptom for c in given_back if isinstance(c, Add)
    }
    return sorted(words(change, by_id) for change in given_back), names


def _accumulated(rule: PythonRule, given: tuple[str, ...]) -> list[Any]:
    pattern = compile_pattern(rule.trigger)
    found: list[Any] = []
    open_one: Any = None
    for text in given:
        if open_one is not None and open_one.feed(text):
            continue
        if open_one is not None:
            found += listed(open_one.result())
            open_one = None
        hit = pattern.search(text)
        if hit is not None:
            open_one = rule.function({k: v for k, v in hit.groupdict().items() if v is not None}, text)
    if open_one is not None:
        found += listed(open_one.result())
    return found


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
