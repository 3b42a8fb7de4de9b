"""What a Python rule may be written in, and that a bad one is a line with its file and name, whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from attribution import ruleset
from attribution.errors import RuleError
from attribution.rule import event
from attribution.ruleset import dialect, limits

RULE = """
from attribution.rule import Demote, Example, event, filter_rule
{top}
@filter_rule(name="site-rule", stage="LATE", example=Example(given=(event("gpu.off_bus"),), expect=()))
def site_rule(view):
    {body}
    yield from ()
"""


@pytest.fixture
def bundled(tmp_path):
    folder = tmp_path / "bundled"
    folder.mkdir()
    (folder / "a.toml").write_text(
        'schema = 1\n[[symptom]]\nid = "gpu.off_bus"\nsays = "x"\ndomain = "hardware"\nsub_domain = "gpu"\nrole = "root"\nrank = 5\n'
        'advice = "ask"\nowner = "hw"\n'
    )
    return folder


@pytest.fixture
def load(tmp_path, bundled):
    def call(text: str):
        folder = tmp_path / "rules.d"
        folder.mkdir(exist_ok=True)
        (folder / "site.py").write_text(text)
        return ruleset.load((folder,), bundled=bundled)

    return call


@pytest.fixture
def refused(load, tmp_path):
    def call(text: str) -> list[str]:
        with pytest.raises(RuleError) as caught:
            load(text)
        lines = str(caught.value).splitlines()
        assert all(line.startswith(f"{tmp_path}/rules.d/site.py: ") for line in lines), lines
        return lines

    return call


ESCAPES = [
    "import dataclasses\nx = dataclasses.sys",
    "import dataclasses as d\nx = d.sys.modules['os']",
    "import typing\nx = typing.sys",
    "import typing\nx = typing.get_type_hints",
    "import collections.abc\nx = collections.abc.sys",
    "from dataclasses import sys",
    "from functools import update_wrapper",
    "from collections.abc import sys as s",
    "import attribution.rule\nx = attribution.rule.msgspec",
    "from attribution.rule import msgspec",
    "from attribution.rule import fnmatch",
    "import os",
    "from . import x",
    "import re",
    "x = ().__class__.__base__",
    "x = (lambda: 0).__globals__",
    "x = getattr((), 'x')",
    "x = '{0.__class__}'.format(())",
    "x = '{x}'.format_map({})",
    "f = str.format",
    "x = f'{().__class__}'",
    "x = (i for i in ()).gi_frame",
    "x = Exception.mro()",
    "x = __builtins__",
    "x = __import__('os')",
    "x = eval('1')",
    "exec('1')",
    "x = compile('1', '', 'eval')",
    "x = open('/etc/passwd')",
    "x = globals()",
    "x = vars()",
    "x = type('X', (), {})",
    "breakpoint()",
    "input()",
    "print()",
    "x = hash('x')",
    "import re2\nx = re2._re2",
    "match ():\n    case object(__class__=c):\n        pass",
    "class X:\n    __match_args__ = ('__class__',)",
    "class X:\n    def __setattr__(self, name, value):\n        pass",
    "class X:\n    def f(self, other):\n        return other._private",
    "class X:\n    def f(this):\n        return this._private",
    "def f(self):\n    self.x = 1",
    "class X:\n    def f(self):\n        self = 1",
    "class X:\n    def f(self):\n        return lambda self: self._demoted",
    "class X:\n    def f(self, x):\n        match x:\n            case self:\n                self.x = 1",
    "class X:\n    def f(self):\n        return self._demoted",
    "from attribution.rule import View\nfor View.of in ():\n    pass",
    "from attribution.rule import View\ndel View.of",
    "from attribution.rule import View\nView.of = None",
    "raise SystemExit",
    "raise KeyboardInterrupt",
    "try:\n    pass\nexcept:\n    pass",
    "try:\n    pass\nexcept BaseException:\n    pass",
    "while True:\n    try:\n        pass\n    finally:\n        break",
    "def f():\n    global x\n    x = 1",
    "async def f():\n    pass",
]


@pytest.mark.parametrize("text", ESCAPES)
def test_what_is_not_in_the_dialect_is_refused_with_its_line(refused, text):
    lines = refused(text + "\n")
    assert all(": line " in line for line in lines)


@pytest.mark.parametrize("text", [t for t in ESCAPES if t.startswith(("import", "from")) and "View.of" not in t])
def test_what_the_tree_does_not_show_is_not_there_either(bundled, load, monkeypatch, text):
    monkeypatch.setattr(dialect, "faults", lambda _tree: [])
    with pytest.raises(RuleError, match=r"fails to load: (ImportError|AttributeError|NameError)"):
        load(text + "\n")


ORDINARY = """
from __future__ import annotations

import itertools
import math
import collections.abc
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import re2

from attribution.rule import *

WORD = re2.compile("x+")

@dataclass
class One:
    number: int = 0
    names: list[str] = field(default_factory=list)

class Two(NamedTuple):
    a: int
    b: str | None = None

class Counted:
    def __init__(self, line: str) -> None:
        self._lines = [line]
        self.left = 3

    def feed(self, text: str) -> bool:
        self.left -= 1
        self._lines.append(text)
        return self._more()

    def _more(self) -> bool:
        return self.left > 0

    def result(self):
        try:
            yield Accumulated(symptom="gpu.off_bus", text=f"{self._lines[0]:>10}")
        except (ValueError, KeyError) as error:
            raise RuntimeError(str(error)) from error

@cache
def twice(number: int) -> int:
    return number * 2

def isdigit(id: int, type: str = "x") -> Any:
    return id, type, One(3), Two(1)._a if False else Two(1).a, math.pi, list(itertools.chain([twice(2)])), WORD.search("x")

@accumulator(name="counted", trigger="^some long words", reads=("app",), example=Example(given=("some long words", "b"), expect=("gpu.off_bus",)))
def counted(fields, line):
    isdigit(1)
    return Counted(line)
""".replace("Two(1)._a if False else ", "")


def test_ordinary_python_is_fine(load):
    assert load(ORDINARY).accumulators["counted"]


def test_a_stand_in_belongs_to_one_file():
    first, second = (dialect.namespace("x", "x.py")["__builtins__"]["__import__"] for _ in range(2))
    assert first("math") is first("math")
    assert first("math") is not second("math")


@pytest.mark.parametrize("body", ["raise ValueError('x')", "raise RuntimeError", "1 / 0", "site_rule(view).send(1)", "nowhere"])
def test_an_example_that_crashes_names_file_and_rule(refused, body):
    [line] = refused(RULE.format(top="", body=body))
    assert "site.py: site-rule: example: " in line


@pytest.mark.parametrize("raised", ["SystemExit", "GeneratorExit", "RecursionError", "MemoryError", "ValueError"])
@pytest.mark.parametrize("where", ["top", "body"])
def test_whatever_a_rule_raises_is_a_line(refused, monkeypatch, raised, where):
    monkeypatch.setattr(dialect, "faults", lambda _tree: [])
    monkeypatch.setattr(dialect, "BUILTINS", dialect.BUILTINS | {raised})
    [line] = refused(RULE.format(**{"top": "", "body": "", where: f"raise {raised}('all of it')"}))
    assert f"{raised}: all of it" in line
    assert ("fails to load: " if where == "top" else "site-rule: example: ") in line


def test_an_exception_whose_text_breaks_is_a_line(refused):
    top = "class Odd(Exception):\n    def __str__(self):\n        raise ValueError\n"
    assert "Odd: its own text can't be shown" in refused(RULE.format(top=top, body="raise Odd"))[0]


def test_deep_and_endless_recursion_are_lines(refused):
    assert "RecursionError" in refused(RULE.format(top="", body="\n    def again(): return again()\n    again()"))[0]
    assert "can't be read as Python" in refused("x = " + "(" * 5000 + ")" * 5000)[0]
    assert "can't be read as Python" in refused("x = " + "-" * 100_000 + "1")[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('name="site-rule"', "name=3"), "name must be text"),
        (('stage="LATE"', 'stage="SOON"'), "stage 'SOON' is not one of EARLY, MID, STANDARD, LATE"),
        (('example=Example(given=(event("gpu.off_bus"),), expect=())', "example=None"), "example must be an Example"),
    ],
)
def test_a_decorator_with_a_wrong_value_is_a_line(refused, change, says):
    assert says in "\n".join(refused(RULE.format(top="", body="").replace(*change)))


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.2)


@pytest.mark.parametrize(
    "loop", ["while True: pass", "while True:\n        try:\n            pass\n        except Exception:\n            pass"]
)
def test_a_rule_that_never_ends_is_refused_with_its_file_and_name(refused, soon, loop):
    began = time.process_time()
    [line] = refused(RULE.format(top="", body=loop))
    assert line.endswith("site.py: site-rule: example: takes more than 0.2 s of CPU")
    [line] = refused(RULE.format(top=loop.replace("\n    ", "\n"), body=""))
    assert line.endswith("site.py: fails to load: takes more than 0.2 s of CPU")
    assert time.process_time() - began < 5
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_a_rule_that_takes_all_memory_is_refused(refused, monkeypatch):
    monkeypatch.setattr(limits, "MEMORY", 64 << 20)
    assert "site-rule: example: MemoryError" in refused(RULE.format(top="", body="x = list(range(10 ** 10))"))[0]


def test_ctrl_c_in_a_rule_is_still_one(tmp_path, bundled):
    (tmp_path / "site.py").write_text(RULE.format(top="", body="while True: pass"))
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from pathlib import Path; from attribution import ruleset; from attribution.cli import main; "
        f"ruleset.bundled_dir = lambda: Path({str(bundled)!r}); print('on', flush=True); main.run(['rules', 'check', {str(tmp_path)!r}])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    process.communicate()


def test_what_a_file_holds_at_its_top_does_not_change(load):
    top = "SEEN = []\nNAMES = {'a': 1}\nKNOWN = {'a'}\n"
    rules = load(RULE.format(top=top, body="assert 'a' in KNOWN and NAMES['a'] == 1 and not SEEN"))
    [rule] = rules.python
    values = rule.function.__globals__
    assert (type(values["SEEN"]), type(values["KNOWN"])) == (tuple, frozenset)
    with pytest.raises(TypeError):
        values["NAMES"]["b"] = 2


def test_a_rule_that_keeps_what_it_saw_is_refused(refused):
    [line] = refused(RULE.format(top="SEEN = []\n", body="SEEN.append(view)"))
    assert line.endswith("site-rule: example: AttributeError: 'tuple' object has no attribute 'append' (line 7)")


def test_a_broken_pattern_is_one_line(refused, capfd):
    [line] = refused("import re2\nX = re2.compile('a(b')\n")
    assert "missing )" in line
    assert capfd.readouterr().err == ""


def test_what_changes_a_class_is_for_own_classes_alone(refused):
    [line] = refused("from dataclasses import dataclass\nfrom attribution.rule import View\ndataclass(View)\n")
    assert line.endswith("fails to load: TypeError: View is not this file's own class (line 3)")


def test_a_rule_belongs_to_the_file_of_its_function(tmp_path, bundled):
    folder = tmp_path / "rules.d"
    folder.mkdir()
    mark = 'filter_rule(name="stolen", stage="LATE", example=Example(given=(), expect=()))(event)\n'
    (folder / "a.py").write_text("from attribution.rule import Example, event, filter_rule\n" + mark)
    (folder / "b.py").write_text("from attribution.rule import event\n")
    try:
        assert ruleset.load((folder,), bundled=bundled).python == ()
    finally:
        del event.__rule__


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("yield Retag(event=view.events[0].id, symptom='gpu.none', reason='x')", "'gpu.none' is no declared symptom"),
        ("yield Demote(event=view.events[0].id, reason=7)", "example: ValidationError: Expected `str`, got `int`"),
        ("yield 7", "example: TypeError: gave int, not Demote or"),
        ("view.events[0].fields['none']", "example: KeyError: 'none'"),
        ("yield Demote(event='none', reason='x')", "Demote: no event has the id 'none'"),
        ("yield Demote(event=view.events[0].id, by='none', reason='x')", "Demote: no event has the id 'none'"),
        ("yield Blame(nodes=(), reason='x')", "Blame is for stage FINAL and POST_OUTCOME, and this rule's stage is"),
        (
            "yield from (Demote(event=view.events[0].id, reason='x') for _ in range(10000))",
            "example gives ['demote gpu.off_bus'",
        ),
    ],
)
def test_what_an_example_gives_is_checked_as_at_run(refused, body, says):
    lines = refused(RULE.format(top="from attribution.rule import Blame, Retag", body=body))
    assert any(says in line for line in lines)
    assert all(len(line) < 1200 for line in lines)


def test_an_accumulator_gives_declared_symptoms(refused):
    assert any(
        "'gpu.off_buss' is no declared symptom" in line for line in refused(ORDINARY.replace("gpu.off_bus", "gpu.off_buss"))
    )


WRONG_CALLS = [
    ("yield Demote('x', 'y')", "line 6: Demote: too many positional arguments; it takes event, reason, by=, by keyword"),
    (
        "yield Confident(level='low', reason='x')",
        "line 6: Confident: missing a required argument: 'at_most'; it takes at_most, reason, by keyword",
    ),
    (
        "yield Confident(at_most='low', reason='x', level='low')",
        "line 6: Confident: got an unexpected keyword argument 'level'; it takes at_most, reason, by keyword",
    ),
    (
        "yield Demote(event=view.events[0], reason='x')",
        "example: TypeError: Demote takes the id of an event: event=e.id, not event=e",
    ),
    ("return view.outcome.symptom", 'line 6: uses view.outcome.symptom: it is a mapping, view.outcome["symptom"]; an example'),
    ("return view.outcome['symptom']", "the outcome has no symptom: an example gives it, Example(outcome={'symptom': ...})"),
]


@pytest.mark.parametrize(("body", "says"), WRONG_CALLS)
def test_a_wrong_call_says_what_it_takes(refused, body, says):
    [line] = refused(RULE.format(top="from attribution.rule import Confident", body=body))
    assert says in line


def test_a_decorator_without_an_example_is_a_line(refused):
    [line] = refused(
        "from attribution.rule import filter_rule\n\n@filter_rule(name='x', stage='LATE')\ndef x(view):\n    yield\n"
    )
    assert "line 3: filter_rule: missing a required argument: 'example'; it takes name, stage, example" in line


def test_what_takes_more_than_one_shape_of_arguments_is_left_alone(load):
    assert load(
        RULE.format(top="MORE = {'time': 1.0}", body="event('gpu.off_bus', **MORE)\n    event(*('gpu.off_bus',), xid=1)")
    )


def test_a_name_that_is_not_public_lists_those_that_are(refused):
    [line] = refused("from attribution.rule import Foo\n")
    assert "uses attribution.rule.Foo: rules may use of attribution.rule only Accumulated, Add, Attempt, " in line


def test_a_rule_that_gives_nothing_back_says_so(refused):
    [line] = refused(RULE.format(top="", body="pass").replace("    yield from ()\n", ""))
    assert line.endswith("example: TypeError: the rule gave None: yield what it finds, or return a list")
    [line] = refused(ORDINARY.replace("        try:\n            yield Acc", "        try:\n            Acc"))
    assert line.endswith("example: TypeError: the rule gave None: yield what it finds, or return a list")


def test_a_crash_names_its_line(refused):
    [line] = refused(RULE.format(top="", body="view.of(1 / len(view.demoted))"))
    assert line.endswith("example: ZeroDivisionError: division by zero (line 6)")


def test_an_own_meaning_of_a_public_name_is_called_as_it_likes(load):
    assert load(RULE.format(top="", body="(lambda event: event(1, 2, 3))(lambda *a: a)"))
