"""Which lines of a source are worth carrying: what a node, journald or Loki returns for the rules' needles.

Property, tested on every case: the verdict from the selection equals the verdict from the whole log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from attribution.engine import lines
from attribution.engine.hits import RAW_LINES
from attribution.engine.rules import RuleSet
from attribution.engine.source import DISTINCT, LAST, MAX_LINE
from attribution.model import Frozen

TAIL_LINES = 200


class Selection(Frozen, frozen=True, kw_only=True):
    """Kept lines as (number, text), and the needles of which a cap cut hits."""

    lines: tuple[tuple[int, bytes], ...]
    cut: tuple[str, ...]
    total: int


def needle_lists(rules: RuleSet, kinds: Iterable[str]) -> tuple[list[str], list[str]]:
    """(needles of rules that need their own line only, needles of rules that need lines around it)."""
    plain: set[str] = set()
    context: set[str] = set()
    for kind in kinds:
        for needle, names in rules.needles(kind).items():
            for name in names:
                (context if context_of(rules, name)[1] or context_of(rules, name)[0] else plain).add(needle)
    return sorted(plain - context), sorted(context)


def context_of(rules: RuleSet, name: str) -> tuple[int, int]:
    """Lines before and after a hit that the rule needs; accumulators need what they may be fed."""
    if name in rules.accumulators:
        return 0, RAW_LINES
    rule = rules.matchers[name].rule
    return rule.before, rule.after


def select(
    rules: RuleSet, kind: str, text: bytes, *, keep: int = DISTINCT, last: int = LAST, after: int = RAW_LINES
) -> Selection:
    """The lines that matter: per needle and rank the first `keep` and the last `last` hits, context where a rule needs
    it, the tail where progress rules look, and for a line without a time the last line before it that has one.
    """
    prefilter = rules.prefilter(kind)
    whole = text.split(b"\n")
    wanted: set[int] = set()
    counts: dict[tuple[tuple[str, ...], int | None], int] = {}
    late: dict[tuple[tuple[str, ...], int | None], deque[int]] = {}
    cut: set[str] = set()
    number, at = 0, 0
    for start, _end, names in prefilter.candidates(text):
        number += text.count(b"\n", at, start)
        at = start
        rank = lines.parse(whole[number][:MAX_LINE].decode("utf-8", "replace")).rank
        key = (names, rank)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= keep:
            wanted |= set(_with_context(rules, names, number, len(whole), after))
        else:
            cut |= set(names)
            late.setdefault(key, deque(maxlen=last)).append(number)
    for numbers in late.values():
        wanted.update(numbers)
    if rules.progress(kind):
        wanted.update(range(max(0, len(whole) - 3000), len(whole)))
    wanted |= set(_times(whole, sorted(wanted)))
    return Selection(
        lines=tuple((n, whole[n]) for n in sorted(wanted) if n < len(whole)), cut=tuple(sorted(cut)), total=len(whole)
    )


def _with_context(rules: RuleSet, names: Iterable[str], number: int, total: int, after: int) -> Iterator[int]:
    before, behind = 0, 0
    for name in names:
        b, a = context_of(rules, name)
        before, behind = max(before, b), max(behind, min(a, after))
    return iter(range(max(0, number - before), min(total, number + behind + 1)))


def _times(whole: list[bytes], wanted: list[int]) -> Iterator[int]:
    """For each kept line without a time of its own, the last line before it that has one."""
    for number in wanted:
        for back in range(number, max(-1, number - 41), -1):
            if lines.only_stamp(whole[back][:400].decode("utf-8", "replace")) is not None:
                yield back
                break


def as_text(selection: Selection) -> bytes:
    """The selection as one text, in order."""
    return b"\n".join(text for _, text in selection.lines)
