"""What the screen formats give: lines of styled text. A style is a word; how it looks is the terminal's affair."""

from __future__ import annotations

from typing import Literal

from attribution.report.escape import escape

Style = Literal["plain", "title", "good", "warn", "bad", "dim", "node", "command", "heading", "log"]
Span = tuple[str, Style]
Line = tuple[Span, ...]
Screen = tuple[Line, ...]

BLANK: Line = ()
TIMES = "\N{MULTIPLICATION SIGN}"


def row(*parts: str | Span) -> Line:
    """One line out of its parts. The only way to make one: every text is escaped here."""
    spans: list[Span] = [(part, "plain") if isinstance(part, str) else part for part in parts]
    return tuple((escape(text), style) for text, style in spans if text)


def heading(text: str) -> Line:
    return row((text, "heading"))


def more(count: int, what: str, where: str = "--explain") -> Line:
    """Says aloud that `count` further items are not on this screen."""
    return row((f"  … {count} more {what}, see {where}", "dim"))


def plain(screen: Screen) -> str:
    """The screen as text without styles, each line ended by a newline."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in screen)
