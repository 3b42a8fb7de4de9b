"""The healthy corpus: 20,000 lines of logs in which nothing is wrong, grown from the templates in rules/healthy/.

A template may hold {n}, {x} and {f}: a number, a hexadecimal word, a decimal fraction. Files named common-* hold what
a healthy cluster prints all day; every other template appears a few times only.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

SIZE = 20_000
RARE = 5


def healthy_lines(folder: Path | None = None) -> tuple[str, ...]:
    """The corpus, the same each time. `folder` holds *.log files of templates."""
    from attribution.ruleset import bundled_dir

    return _grown(folder or bundled_dir() / "healthy")


@cache
def _grown(folder: Path) -> tuple[str, ...]:
    rare: list[str] = []
    common: list[str] = []
    for path in sorted(folder.glob("*.log")):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        (common if path.name.startswith("common-") else rare).extend(lines)
    found = [_fill(line, number) for number in range(RARE) for line in rare][: SIZE // 2]
    number = 0
    while len(found) < SIZE and common:
        found += [_fill(line, number) for line in common[: SIZE - len(found)]]
        number += 1
    return tuple(found)


def _fill(template: str, number: int) -> str:
    """A template with its placeholders counted up: no random numbers, so that the corpus never changes."""
    word = number * 2654435761 % 2**32
    return (
        template.replace("{n}", str(number * 37 % 9973))
        .replace("{x}", f"{word:08x}")
        .replace("{f}", f"{word % 9999 / 1000:.3f}")
    )
