"""`sattrib analyze DIR`: the verdict of an evidence bundle, offline."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import click

from attribution.cli.answer import answer, form_options
from attribution.cli.output import Color, color_option, note, show


class Moment(click.ParamType[float]):
    """An ISO 8601 time; without a zone it is UTC. Given as epoch seconds."""

    name = "ISO"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            when = datetime.fromisoformat(value)
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no ISO 8601 time (2026-10-03T03:41:55Z)", param, ctx)


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@form_options
@click.option("--archive", metavar="FILE", help="Keep the verdict there (a SQLite file, or a PostgreSQL URL).")
@click.option(
    "--rules",
    "rule_dirs",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="More rules; may be given again.",
)
@click.option("--now", type=Moment(), help="The time to store the verdict under (default: now). It changes no verdict.")
@color_option
def analyze(
    directory: Path,
    *,
    form: str | None,
    explain: bool,
    archive: str | None,
    rule_dirs: tuple[Path, ...],
    now: float | None,
    color: Color,
) -> None:
    """Attribute an evidence bundle: DIR with bundle.json and its logs."""
    from attribution.cli.watch import watched
    from attribution.pipeline import analyze_bundle

    with watched():
        analyzed = analyze_bundle(directory, rule_dirs, explain=explain)
    if archive is None:
        answer(analyzed.verdict, form, explain=explain, color=color)
        return
    from attribution.archive.open import open_archive
    from attribution.report.spans import BLANK, plain
    from attribution.report.text import stored_line

    with open_archive(archive) as opened:
        stored = opened.store(analyzed.verdict, analyzed.stored_input, analyzed.input_hash, time.time() if now is None else now)
        line = stored_line(opened.where, stored.version, new=stored.new)
    answer(analyzed.verdict, form, explain=explain, color=color)
    if form is None:
        show((BLANK, line), color)
    else:
        note(plain((line,)))
