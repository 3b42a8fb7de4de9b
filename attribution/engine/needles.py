"""Literals that a line must hold for a pattern to match it.

A needle is ASCII, lower case, at least four bytes. A pattern gives *options*: each option is a set of needles of which
every match holds at least one. The rule set picks one option per rule (`choose`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# The standard library's own parse of the pattern: it names the parts of RE2's common subset exactly.
_parser: Any = re._parser  # type: ignore[attr-defined]  # noqa: SLF001
_c: Any = re._constants  # type: ignore[attr-defined]  # noqa: SLF001

MIN_LENGTH = 4
MAX_ALTERNATIVES = 64
_LOOK = {_c.ASSERT, _c.ASSERT_NOT}
_LITERAL = _c.LITERAL

Option = frozenset[str]


class UnsupportedPatternError(ValueError):
    """The pattern uses something that RE2 does not have (look-around, back-references) or does not parse."""


def options(pattern: str) -> list[Option]:
    """All options of `pattern`, best first; empty where some branch holds no literal of four bytes.

    Raises UnsupportedPatternError with the reason.
    """
    try:
        tree = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsupportedPatternError(f"does not parse: {error}") from None
    return sorted(_of_sequence(tree.data), key=_weight)


def _weight(option: Option) -> tuple[int, int, list[str]]:
    return (-min(len(n) for n in option), len(option), sorted(option))


def _of_sequence(items: Sequence[Any]) -> list[Option]:
    found: list[Option] = []
    words = [""]
    run = ""  # literals one after the other, which most of a pattern is; joined to `words` at their end
    for op, arg in items:
        if op is _LITERAL and 32 <= arg < 127:
            run += chr(arg)
            continue
        if run:
            words, run = [w + run.lower() for w in words], ""
        extended = _extend(words, op, arg)
        if extended is not None:
            words = extended
            continue
        _flush(words, found)
        words = [""]
        found.extend(_of_one(op, arg))
    _flush([w + run.lower() for w in words], found)
    return found


def _flush(words: list[str], found: list[Option]) -> None:
    if all(len(w) >= MIN_LENGTH for w in words):
        found.append(frozenset(words))


def _extend(words: list[str], op: Any, arg: Any) -> list[str] | None:
    """The running literals, each followed by what this item must be; None where that is not a few literals."""
    choices = _letters(op, arg)
    if choices is None or len(words) * len(choices) > 4:
        return None
    return [w + c for w in words for c in choices]


def _letters(op: Any, arg: Any) -> list[str] | None:
    """The literal strings that an item stands for, lower case, or None."""
    if op is _c.LITERAL:
        return [chr(arg).lower()] if 32 <= arg < 127 else None
    if op is _c.AT:
        return [""]
    if op is _c.IN and all(o is _c.LITERAL and 32 <= a < 127 for o, a in arg):
        letters = sorted({chr(a).lower() for _, a in arg})
        return letters if len(letters) <= 2 else None
    if op is _c.SUBPATTERN:
        inner = [""]
        for o, a in arg[3].data:
            step = _letters(o, a)
            if step is None or len(inner) * len(step) > 4:
                return None
            inner = [w + c for w in inner for c in step]
        return inner
    return None


def _of_one(op: Any, arg: Any) -> list[Option]:
    if op in _LOOK or op in (_c.GROUPREF, _c.GROUPREF_EXISTS):
        raise UnsupportedPatternError("look-around and back-references are not part of RE2; use unless_re")
    if op is _c.SUBPATTERN:
        return _of_sequence(arg[3].data)
    if op in (_c.MAX_REPEAT, _c.MIN_REPEAT):
        low, _high, body = arg
        inner = _of_sequence(body.data)
        return inner if low >= 1 else []
    if op is _c.BRANCH:
        return _of_branches([b.data for b in arg[1]])
    return []


def _of_branches(branches: list[list[Any]]) -> list[Option]:
    union: set[str] = set()
    for branch in branches:
        own = sorted(_of_sequence(branch), key=_weight)
        if not own:
            return []
        union |= own[0]
    return [frozenset(union)] if len(union) <= MAX_ALTERNATIVES else []


def choose(all_options: Mapping[str, Iterable[Option]]) -> dict[str, Option]:
    """One option per rule name: the one whose needles the fewest rules share, then the longest.

    `all_options` must hold at least one option for each name.
    """
    shared: dict[str, int] = {}
    for opts in all_options.values():
        for needle in {n for o in opts for n in o}:
            shared[needle] = shared.get(needle, 0) + 1
    return {
        name: min(opts, key=lambda o: (max(shared[n] for n in o), *_weight(o))) for name, opts in sorted(all_options.items())
    }
