"""To the terminal, in colour where there is one; to a pipe as plain text."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import click

from attribution.report.spans import Screen, Style, plain

Color = Literal["auto", "always", "never"]
F = TypeVar("F", bound=Callable[..., Any])

WIDTH = 80
_WIDEST = 140
_NARROWEST = 76
# Our own signs, where the terminal's encoding has none of them.
_ASCII = str.maketrans({"…": "...", "\N{MULTIPLICATION SIGN}": "x"})
_LOOKS: dict[Style, str] = {
    "plain": "", "title": "bold", "good": "bold green", "warn": "yellow", "bad": "bold red", "dim": "dim", "node": "bold cyan",
    "command": "cyan", "heading": "bold blue", "log": "",
}  # fmt: skip


class ReaderGoneError(Exception):
    """Whoever read the answer has seen enough (`sattrib … | head`)."""


@contextmanager
def _reader() -> Iterator[None]:
    # click would make exit 1 of a BrokenPipeError.
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGoneError from None


def color_option(function: F) -> F:
    """Adds `--color auto|always|never`, given as `color`."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colours: on a terminal (auto; NO_COLOR is respected), always or never.",
    )(function)


def width() -> int:
    """The terminal's width within reason; 80 where the answer goes to a pipe or a file."""
    if not sys.stdout.isatty():
        return WIDTH
    return max(_NARROWEST, min(shutil.get_terminal_size((WIDTH, 24)).columns, _WIDEST))


def show(screen: Screen, color: Color = "auto") -> None:
    """Print it. Nothing in it is ever taken for markup."""
    if not _colored(color):
        write(plain(screen))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(force_terminal=True, color_system="standard", no_color=False, markup=False, highlight=False, emoji=False)
    with _reader():
        for line in screen:
            text = Text.assemble(*((_encodable(part), _LOOKS[style]) for part, style in line))
            console.print(text, soft_wrap=True, overflow="ignore", no_wrap=True, crop=False)


def write(text: str) -> None:
    """Print text whose dangerous characters are already escaped."""
    with _reader():
        sys.stdout.write(_encodable(text))


def note(text: str) -> None:
    """A line for the person, beside an answer that is for a program."""
    sys.stderr.write(_encodable(text).rstrip("\n") + "\n")


def _encodable(text: str) -> str:
    if text.isascii() or (sys.stdout.encoding or "").lower().replace("_", "-") in ("utf-8", "utf8"):
        return text
    return text.translate(_ASCII)


def _colored(color: Color) -> bool:
    if color != "auto":
        return color == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
