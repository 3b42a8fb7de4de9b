"""A verdict in the form that was asked for: shared by every command that answers with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from attribution.cli.output import Color, show, width, write

if TYPE_CHECKING:
    from attribution.model import Verdict

F = TypeVar("F", bound=Callable[..., Any])


def form_options(function: F) -> F:
    """Adds `--json`, `--line`, `--markdown` (at most one of them, given as `form`) and `--explain`."""
    for name, text in (
        ("markdown", "Answer as Markdown, for a ticket."),
        ("line", "Answer in one line."),
        ("json", "Answer with the whole verdict as JSON."),
    ):
        function = click.option(f"--{name}", "form", flag_value=name, type=str, default=None, help=text)(function)
    return click.option(
        "--explain", is_flag=True, help="Show the whole trail: every rule that fired or decided, all evidence."
    )(function)


def answer(verdict: Verdict, form: str | None, *, explain: bool, color: Color) -> None:
    """Print one verdict. With JSON, `explain` changes nothing: the trail stands in it where it was made."""
    if form == "json":
        from attribution.report.as_json import verdict_json

        write(verdict_json(verdict))
    elif form == "line":
        from attribution.report.line import job_line

        write(job_line(verdict))
    elif form == "markdown":
        from attribution.report.markdown import markdown

        write(markdown(verdict))
    elif explain:
        from attribution.report.explain import explain as whole_trail

        show(whole_trail(verdict, width()), color)
    else:
        from attribution.report.text import screen

        show(screen(verdict, width()), color)
