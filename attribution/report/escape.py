"""Logs are written by users: what a terminal or a reader could take for something else is shown as an escape."""

from __future__ import annotations

import re
import unicodedata

# Printable by their category, and yet nothing is seen (or the sign before them changes).
_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef"
_UNSEEN_RE = re.compile(f"[{_UNSEEN}]")
_NOT_ASCII_RE = re.compile(f"[^ -~]|[{_UNSEEN}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
ELLIPSIS = "…"


def is_shown(char: str) -> bool:
    """Whether one character stands for itself: no control, format, bidi, zero-width, surrogate or unassigned one."""
    return char.isprintable() and not _UNSEEN_RE.match(char)


def _escape_char(match: re.Match[str]) -> str:
    char = match.group()
    if is_shown(char):
        return char
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def escape(text: str) -> str:
    """`text` on one line, with all that is not plainly visible as a Python escape. Applying it again changes nothing."""
    if text.isascii() and text.isprintable():
        return text
    return _NOT_ASCII_RE.sub(_escape_char, text)


def json_escape(document: str) -> str:
    """A JSON document with every such character of its strings as a JSON escape: the same values, safe on a terminal."""
    if document.isascii() and "\x7f" not in document:
        return document
    return re.sub(r"[^\n -~]", lambda m: m.group() if is_shown(m.group()) else _json_char(m.group()), document)


def _json_char(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def columns(text: str) -> int:
    """How many terminal cells escaped `text` takes: wide signs take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int) -> str:
    """`text` escaped and cut to `width` cells, with … where it was cut. Looks at no more of a long text than it shows."""
    head = escape(text[: width * 4 + 4])
    if len(text) <= width * 4 + 4 and columns(head) <= width:
        return head
    used, kept = 0, []
    for char in head:
        used += _cells(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + ELLIPSIS


def wrap(text: str, width: int, most: int) -> list[str]:
    """`text` escaped, on at most `most` lines of at most `width` cells, broken at spaces where there are any.

    What does not fit is left out, and the last line ends with … then.
    """
    width = max(width, 8)
    rest = clip(text, width * most + most)
    lines: list[str] = []
    while rest and len(lines) < most:
        if columns(rest) <= width:
            lines.append(rest)
            return lines
        head, rest = _break(rest, width)
        lines.append(head)
    if rest:
        lines[-1] = clip(lines[-1] + ELLIPSIS * 2, width) if columns(lines[-1]) >= width else lines[-1] + ELLIPSIS
    return lines


def _break(text: str, width: int) -> tuple[str, str]:
    used, cut = 0, 0
    for char in text:
        used += _cells(char)
        if used > width:
            break
        cut += 1
    space = text.rfind(" ", 0, cut + 1)
    if space > width // 3:
        return text[:space].rstrip(), text[space:].lstrip()
    return text[:cut], text[cut:]
