"""Many node names in few characters, in the notation that Slurm's own commands take."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED_RE = re.compile(r"(.*?)([0-9]{1,9})$", re.DOTALL)


def fold(names: Iterable[str]) -> str:
    """`node-[01-03,07],login` for the names, each once and in order. Empty for none."""
    groups: dict[tuple[str, int], set[int]] = {}
    alone: list[str] = []
    for name in sorted(set(names)):
        match = _NUMBERED_RE.match(name)
        if match:
            groups.setdefault((match[1], len(match[2])), set()).add(int(match[2]))
        else:
            alone.append(name)
    folded = [_group(prefix, digits, sorted(numbers)) for (prefix, digits), numbers in groups.items()]
    return ",".join(sorted(folded + alone))


def _group(prefix: str, digits: int, numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [f"{a:0{digits}d}" if a == b else f"{a:0{digits}d}-{b:0{digits}d}" for a, b in runs]
    return f"{prefix}{parts[0]}" if len(numbers) == 1 else f"{prefix}[{','.join(parts)}]"
