"""What Python a rule may be written in: which modules, which of their names, which builtins, which syntax.

It keeps rules pure and easy to review. It is no sandbox: a rule file is code, and whoever can write one is trusted.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any

from attribution import rule
from attribution.engine.rules import compile_pattern
from attribution.rule import MODULE

# Module -> the names of it that a rule can use. Nothing else of a module is there, not even by another way.
PUBLIC: Mapping[str, frozenset[str]] = {
    "attribution.rule": frozenset(rule.__all__),
    "__future__": frozenset({"annotations"}),
    "bisect": frozenset({"bisect_left", "bisect_right"}),
    "collections.abc": frozenset(import_module("collections.abc").__all__),
    "dataclasses": frozenset({"dataclass", "field", "replace"}),
    "functools": frozenset({"cache", "cached_property", "cmp_to_key", "lru_cache", "partial", "reduce"}),
    # Not those that never end.
    "itertools": frozenset(n for n in vars(import_module("itertools")) if n[0] != "_") - {"count", "cycle", "repeat"},
    "math": frozenset(n for n in vars(import_module("math")) if n[0] != "_"),
    "re2": frozenset(
        {"Options", "compile", "error", "escape", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"}
    ),
    "typing": frozenset(
        {"Any", "Callable", "ClassVar", "Final", "Generic", "Iterable", "Iterator", "Literal", "Mapping", "NamedTuple",
         "Optional", "Protocol", "Sequence", "TypeAlias", "TypeVar", "Union", "cast"}
    ),
}  # fmt: skip
# Left out: what reaches outside, takes names as text, changes from run to run (hash, id), or catches what ends a run.
BUILTINS = frozenset(
    {"abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "classmethod", "complex",
     "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "hex", "int", "isinstance",
     "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "oct", "ord", "pow", "property",
     "range", "repr", "reversed", "round", "set", "slice", "sorted", "staticmethod", "str", "sum", "tuple", "zip",
     "Ellipsis", "NotImplemented", "ArithmeticError", "AssertionError", "AttributeError", "Exception", "IndexError",
     "KeyError", "LookupError", "OverflowError", "RuntimeError", "StopIteration", "TypeError", "UnicodeDecodeError",
     "UnicodeEncodeError", "UnicodeError", "ValueError", "ZeroDivisionError"}
)  # fmt: skip
METHODS = frozenset(
    {"__init__", "__post_init__", "__bool__", "__call__", "__contains__", "__eq__", "__ge__", "__getitem__", "__gt__",
     "__hash__", "__iter__", "__le__", "__len__", "__lt__", "__next__", "__repr__", "__str__", "__add__", "__sub__",
     "__and__", "__or__"}
)  # fmt: skip
# Attributes without an underscore that lead from a value to the interpreter, or take attributes' names as text.
_GATES = frozenset(
    {"format", "format_map", "mro", "with_traceback", "gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code",
     "cr_await", "cr_origin", "ag_frame", "ag_code", "ag_await", "tb_frame", "tb_next", "f_back", "f_builtins",
     "f_code", "f_globals", "f_locals"}
)  # fmt: skip
# The private parts of what a rule is given.
_FOREIGN = frozenset(n for k in vars(rule).values() if isinstance(k, type) for n in dir(k) if n.startswith("_"))
_SIGNATURES = {
    n: inspect.signature(getattr(rule, n))
    for n in ("Accumulated", "Add", "Blame", "Confident", "Demote", "Example", "Retag", "Stated", "accumulator", "collector",
              "event", "filter_rule", "refiner")
}  # fmt: skip
_LEAVING = (ast.Return, ast.Break, ast.Continue)
_REFUSED = (ast.Global, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)


def namespace(name: str, file: str) -> dict[str, Any]:
    """The globals that a rule file is run with."""
    known: dict[str, Any] = {n: getattr(builtins, n) for n in BUILTINS}
    known |= {"__import__": _Importer(), "__build_class__": builtins.__build_class__}
    return {"__name__": name, "__file__": file, "__builtins__": known}


class _Importer:
    """`import` for a rule file: it gives stand-ins, which have a module's public names alone and belong to this file."""

    def __init__(self) -> None:
        self._made: dict[str, ModuleType] = {}

    def __call__(self, name: str, _globals: Any = None, _locals: Any = None, names: Any = (), level: int = 0) -> ModuleType:
        if level or name not in PUBLIC:
            raise ImportError(f"a rule can't import {'.' * level}{name}")
        made = self._made.get(name) or self._stand_in(name)
        head, _, rest = name.partition(".")
        if names or not rest:
            return made
        above = self._made.setdefault(head, ModuleType(head))
        setattr(above, rest, made)
        return above

    def _stand_in(self, name: str) -> ModuleType:
        made = self._made[name] = ModuleType(name)
        whole = import_module(name)
        vars(made).update({n: getattr(whole, n) for n in PUBLIC[name]}, __all__=sorted(PUBLIC[name]))
        vars(made).update({n: own for (module, n), own in _OWN.items() if module == name})
        return made


def _compile(pattern: str, options: Any = None) -> Any:
    """`re2.compile` that raises, and does not also write to stderr, what is wrong with a pattern."""
    return compile_pattern(pattern) if options is None else import_module("re2").compile(pattern, options)


def _dataclass(kind: Any = None, /, **options: Any) -> Any:
    """`dataclass` for the file's own classes alone: it changes the class that it is given."""
    if kind is None:
        return partial(_dataclass, **options)
    if not kind.__module__.startswith(MODULE):
        raise TypeError(f"{kind.__name__} is not this file's own class")
    return dataclasses.dataclass(kind, **options)


_OWN: Mapping[tuple[str, str], Any] = {("re2", "compile"): _compile, ("dataclasses", "dataclass"): _dataclass}


def freeze(values: dict[str, Any]) -> None:
    """Make constants of a loaded file's globals: what one attempt left in a list would change the next one's verdict."""
    kinds: dict[type[Any], Callable[[Any], Any]] = {list: tuple, set: frozenset, dict: MappingProxyType}
    own = {n: kinds[type(v)](v) for n, v in values.items() if type(v) in kinds and not n.startswith("__")}
    values.update(own)


def faults(tree: ast.AST) -> list[str]:
    """What of a file is not in the dialect, each with its line."""
    check = _Check(tree)
    return list(dict.fromkeys(f"line {line}: {what}" for line, what in sorted(check.all())))


class _Check:
    def __init__(self, tree: ast.AST) -> None:
        self._nodes = list(ast.walk(tree))
        self._own = {name for n in self._nodes if (name := _name_bound(n))}
        self._modules = {
            (a.asname or a.name): a.name for n in self._nodes if isinstance(n, ast.Import) for a in n.names if a.name in PUBLIC
        }
        elsewhere = {_name_bound(n) for n in self._nodes if not isinstance(n, ast.alias)}
        self._called = {
            (a.asname or a.name): a.name for n in self._nodes if isinstance(n, ast.ImportFrom) for a in n.names
            if n.module == rule.__name__ and a.name in _SIGNATURES and (a.asname or a.name) not in elsewhere
        }  # fmt: skip
        # A method may keep things, private ones too, in its own object.
        methods = [f for n in self._nodes if isinstance(n, ast.ClassDef) for f in n.body if isinstance(f, ast.FunctionDef)]
        methods = [f for f in methods if f.args.args and f.args.args[0].arg == "self"]
        self._selves = {id(f.args.args[0]) for f in methods}
        self._kept = {id(n) for f in methods for n in ast.walk(f) if _of_self(n)}

    def all(self) -> Iterator[tuple[int, str]]:
        for node in self._nodes:
            for what in self._of(node):
                yield getattr(node, "lineno", 0), what
            if _name_bound(node) == "self" and id(node) not in self._selves:
                yield getattr(node, "lineno", 0), "gives `self` another meaning"

    def _of(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import():
                yield from (_no_module(a.name) for a in node.names if a.name not in PUBLIC)
            case ast.ImportFrom():
                yield from self._names_from(node)
            case ast.Name():
                yield from self._name(node)
            case ast.Attribute():
                yield from self._attribute(node)
            case ast.Call(func=ast.Name(id=name)) if name in self._called:
                yield from _call(node, self._called[name])
            case ast.MatchClass():
                yield from (_no_use(f".{a}") for a in node.kwd_attrs if a.startswith("_") or a in _GATES)
            case ast.FunctionDef() | ast.ClassDef():
                if node.name.startswith("__") and node.name not in METHODS:
                    yield f"defines {node.name}: not one of the methods that rules need"
            case ast.ExceptHandler(type=None):
                yield "catches everything: name the exceptions that are meant"
            case ast.Try() | ast.TryStar() if any(isinstance(n, _LEAVING) for f in node.finalbody for n in ast.walk(f)):
                yield "leaves a `finally` half-way, which hides what ended it"
            case _ if isinstance(node, _REFUSED):
                yield f"uses {type(node).__name__}: rules are pure functions, with no state between two calls"

    def _names_from(self, node: ast.ImportFrom) -> Iterator[str]:
        module = "." * node.level + (node.module or "")
        if module not in PUBLIC:
            yield _no_module(module)
            return
        yield from (_no_name(module, a.name) for a in node.names if a.name not in PUBLIC[module] | {"*"})

    def _name(self, node: ast.Name) -> Iterator[str]:
        if node.id.startswith("__") or (node.id not in BUILTINS | self._own and hasattr(builtins, node.id)):
            yield _no_use(node.id)

    def _attribute(self, node: ast.Attribute) -> Iterator[str]:
        module = self._modules.get(ast.unparse(node.value)) if isinstance(node.value, ast.Name | ast.Attribute) else None
        if module is not None and node.attr not in PUBLIC[module]:
            yield _no_name(module, node.attr)
        elif (
            node.attr in _GATES | _FOREIGN
            or (node.attr.startswith("_") and id(node) not in self._kept)
            or node.attr[:2] == "__"
        ):
            yield _no_use(f".{node.attr}")
        elif (
            isinstance(node.value, ast.Attribute)
            and ast.unparse(node.value) == "view.outcome"
            and not hasattr(Mapping, node.attr)
        ):
            yield f'uses view.outcome.{node.attr}: it is a mapping, view.outcome["{node.attr}"]; an example gives it as outcome={{...}}'
        elif not isinstance(node.ctx, ast.Load) and id(node) not in self._kept:
            yield f"changes .{node.attr} of something that is not its own"


def _call(call: ast.Call, name: str) -> Iterator[str]:
    """Where it can't be called like that: msgspec's own words name neither the class nor what it takes."""
    keywords = [k.arg for k in call.keywords if k.arg is not None]
    if len(keywords) < len(call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return
    try:
        _SIGNATURES[name].bind(*call.args, **dict.fromkeys(keywords))
    except TypeError as error:
        takes = (
            p.name if p.default is p.empty else f"{p.name}=" for p in _SIGNATURES[name].parameters.values() if p.name != "more"
        )
        yield f"{name}: {error}; it takes {', '.join(takes)}, by keyword"


def _of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _name_bound(node: ast.AST) -> str | None:
    """The name that a file gives a meaning of its own here."""
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return node.id
        case ast.arg():
            return node.arg
        case ast.FunctionDef() | ast.ClassDef() | ast.MatchAs() | ast.MatchStar() | ast.ExceptHandler():
            return node.name
        case ast.MatchMapping():
            return node.rest
        case ast.alias():
            return node.asname or node.name
    return None


def _no_module(name: str) -> str:
    return f"imports {name}: a rule may import only {', '.join(sorted(PUBLIC))}"


def _no_name(module: str, name: str) -> str:
    return f"uses {module}.{name}: rules may use of {module} only {', '.join(sorted(PUBLIC[module]))}"


def _no_use(name: str) -> str:
    return f"uses {name}: rules are pure functions of plain values"
