"""The default answer: one calm screen."""

from __future__ import annotations

from attribution.model import Verdict
from attribution.report.sections import SECTIONS
from attribution.report.spans import BLANK, Line, Screen, row

WIDTH = 80
LINES = 45


def screen(verdict: Verdict, width: int = WIDTH, lines: int = LINES) -> Screen:
    """The verdict on at most about `lines` lines of `width` cells (commands are longer where they must be).

    Where it does not fit, every part shows fewer items and says how many it left out.
    """
    for most in (8, 6, 5, 4, 3, 2, 1):
        shown = _assemble(verdict, width, most)
        if len(shown) <= lines:
            return tuple(shown)
    return tuple(_assemble(verdict, width, 1, airy=False))


def _assemble(verdict: Verdict, width: int, most: int, *, airy: bool = True) -> list[Line]:
    shown: list[Line] = []
    for section in SECTIONS:
        part = section(verdict, width, most)
        if part and shown and airy:
            shown.append(BLANK)
        shown += part
    return shown


def stored_line(where: str, version: int, *, new: bool) -> Line:
    """The line below the screen that says where the verdict is kept now."""
    what = (
        f"stored in {where} as version {version}" if new else f"already in {where} as version {version}: nothing new to store"
    )
    return row((what, "dim"))
