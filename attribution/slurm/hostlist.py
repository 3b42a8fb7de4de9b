"""Hostlists as Slurm writes them (`a[1-2]b[3-4],c`), without asking Slurm: expanded and compressed.

Order and width are those of `scontrol show hostnames`. ClusterShell's NodeSet can't stand in: it refuses
`node[001-1000]` ("padding length mismatch"), which Slurm prints.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator

from attribution.errors import SlurmError

LIMIT = 100_000
NO_NODES = frozenset({"", "None assigned", "None", "(null)", "N/A"})
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_TAIL = re.compile(r"(.*?)([0-9]{1,18})", re.ASCII | re.DOTALL)


def expand(text: str, limit: int = LIMIT) -> tuple[str, ...]:
    """The names in `text`, in Slurm's order, repeated names included; () for what Slurm prints where there are none.

    Raises SlurmError on anything malformed, and above `limit` names.
    """
    if text.strip() in NO_NODES:
        return ()
    names: list[str] = []
    for item in _items(text):
        names += _expand_item(item, text, limit, limit - len(names))
    return tuple(names)


def compress(names: Iterable[str]) -> str:
    """The shortest hostlist that expands to these names in this order (only neighbours join). Raises SlurmError."""
    groups = itertools.groupby((_split(name) for name in names), key=lambda pair: (pair[0], pair[1] is None))
    return ",".join(
        piece for (prefix, plain), pairs in groups for piece in _compress(prefix, plain, [p[1] or "" for p in pairs])
    )


def _items(text: str) -> Iterator[str]:
    """The parts between commas that are outside of brackets."""
    depth, item = 0, ""
    for c in text:
        depth += (c == "[") - (c == "]")
        if depth == 0 and c in ", \t\n":
            yield from [item] if item else []
            item = ""
        else:
            item += c
    yield from [item] if item else []


def _expand_item(item: str, text: str, limit: int, room: int) -> list[str]:
    pieces = _PIECE.findall(item)
    if "".join(literal or f"[{ranges}]" for ranges, literal in pieces) != item:
        raise _error(text, f"brackets don't match in {item[:80]!r}")
    lists = [[(0, 0, 0)] if literal else _ranges(ranges, text) for ranges, literal in pieces]
    count = math.prod(sum(last - first + 1 for first, last, _ in ranges) for ranges in lists)
    if count > room:
        raise _error(text, f"more than {limit} names")
    choices = [
        [literal] if literal else [str(n).zfill(width) for first, last, width in ranges for n in range(first, last + 1)]
        for ranges, (_, literal) in zip(lists, pieces, strict=True)
    ]
    # Slurm varies the last bracket fastest, then the first, the second, …: seen with scontrol 24.11.
    spots = [at for at, (_, literal) in enumerate(pieces) if not literal]
    order = [*reversed(spots[:-1]), *spots[-1:]]
    names = []
    for picked in itertools.product(*(choices[at] for at in order)):
        words = dict(zip(order, picked, strict=True))
        names.append("".join(words.get(at, choices[at][0]) for at in range(len(pieces))))
    return names


def _ranges(ranges: str, text: str) -> list[tuple[int, int, int]]:
    """First, last and width of each range of a bracket."""
    found = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise _error(text, f"{part[:80]!r} is no range")
        found.append((int(match[1]), int(match[2] or match[1]), len(match[1])))
    return found


def _split(name: str) -> tuple[str, str | None]:
    if not name or re.search(r"[\[\],\s]", name):
        raise SlurmError(f"{name[:80]!r} is no node name")
    match = _TAIL.fullmatch(name)
    return (match[1], match[2]) if match else (name, None)


def _compress(prefix: str, plain: bool, digits: list[str]) -> list[str]:
    if plain:
        return [prefix] * len(digits)
    runs: list[list[str]] = []
    for number in digits:
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])):
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(digits) == 1:
        return [prefix + digits[0]]
    return [f"{prefix}[{','.join(run[0] if len(run) == 1 else f'{run[0]}-{run[-1]}' for run in runs)}]"]


def _error(text: str, what: str) -> SlurmError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return SlurmError(f"hostlist {shown!r}: {what}")
