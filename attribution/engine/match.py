"""From blocks of raw bytes to the few lines that may matter: needles find them, nothing is decoded before.

Two implementations give the same candidates: pyahocorasick on the lower-cased block, and Hyperscan where it is
installed. Case is folded for ASCII only, in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ahocorasick


class Candidate(NamedTuple):
    """A line of the block, without its newline, and the rules that it may match (by name, sorted).

    In application output, where carriage returns stand in a line (a progress bar's), it is the piece between two of them.
    """

    start: int
    end: int
    rules: tuple[str, ...]


class Prefilter:
    """Finds candidate lines. `needles` maps each needle (lower case) to the names of its rules."""

    def __init__(self, needles: Mapping[str, tuple[str, ...]], *, fast: bool | None = None, pieces: bool = True) -> None:
        """`fast`: True needs Hyperscan (ImportError without it), False never uses it, None takes it where it is. `pieces`:
        carriage returns part a line.
        """
        self._pieces = pieces
        self._rules = tuple(needles.values())
        self._merged: dict[frozenset[int] | int, tuple[str, ...]] = {}
        self._hits = _hyperscan_hits(tuple(needles), fast) or _ahocorasick_hits(tuple(needles))
        self.fast = self._hits.__name__ == "hyperscan_hits"

    def candidates(self, block: bytes, skip: Sequence[int] = (0,)) -> Iterator[Candidate]:
        """Candidate lines of a block that ends at a line's end, in order.

        The caller may raise `skip[0]` while it iterates: hits before that offset are passed over.
        """
        # Nothing is searched twice, whatever a line holds: `floor` is where the last search ended, `line_end` a newline.
        start, end, floor, line_end, found = 0, -1, 0, -1, set[int]()
        for at, needle in self._hits(block):
            if at < end:
                found.add(needle)
                continue
            if found:
                yield Candidate(start, end, self._names(found))
                found = set()
            if at < skip[0]:
                end = -1
                continue
            if at > line_end:
                floor = max(floor, block.rfind(b"\n", floor, at) + 1)
                line_end = block.find(b"\n", at)
                line_end = len(block) if line_end < 0 else line_end
            start, end = floor, -1
            if self._pieces:
                start = floor = max(floor, block.rfind(b"\r", floor, at) + 1)
                end = block.find(b"\r", at, line_end)
            end = line_end if end < 0 else end
            found = {needle}
        if found:
            yield Candidate(start, end, self._names(found))

    def _names(self, found: set[int]) -> tuple[str, ...]:
        if len(found) == 1:
            return self._rules[next(iter(found))]
        key = frozenset(found)
        names = self._merged.get(key)
        if names is None:
            names = tuple(sorted({n for i in found for n in self._rules[i]}))
            if len(self._merged) < 4096:
                self._merged[key] = names
        return names


def _ahocorasick_hits(needles: Sequence[str]) -> Any:
    automaton = ahocorasick.Automaton()
    for index, needle in enumerate(needles):
        automaton.add_word(needle, index)
    if needles:
        automaton.make_automaton()

    def ahocorasick_hits(block: bytes) -> Any:
        return automaton.iter(block.lower().decode("latin-1")) if needles else ()

    return ahocorasick_hits


def _hyperscan_hits(needles: Sequence[str], fast: bool | None) -> Any:
    if fast is False or not needles:
        return None
    try:
        import hyperscan
    except ImportError:
        if fast:
            raise
        return None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[_literal(n) for n in needles],
        ids=list(range(len(needles))),
        flags=[hyperscan.HS_FLAG_CASELESS] * len(needles),
    )

    def hyperscan_hits(block: bytes) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []
        add = hits.append
        database.scan(block, match_event_handler=lambda number, _from, to, _flags, _context: add((to - 1, number)))
        return hits

    return hyperscan_hits


def _literal(needle: str) -> bytes:
    return re.escape(needle).encode("ascii")
