"""`sattrib show JOBID`: a verdict out of the archive. `sattrib JOBID` is the same, from the site's own archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attribution.cli.answer import answer, form_options
from attribution.cli.output import Color, color_option
from attribution.cli.output import show as show_screen
from attribution.errors import ConfigError

if TYPE_CHECKING:
    from attribution.archive.open import Archive
    from attribution.archive.read import StoredVerdict


@click.command()
@click.argument("job", metavar="JOBID")
@click.option("--archive", metavar="FILE", required=True, help="Where it is kept (a SQLite file, or a PostgreSQL URL).")
@click.option(
    "--version", metavar="N", type=click.IntRange(min=1), help="An older version of the verdict (default: the newest)."
)
@form_options
@color_option
def show(job: str, *, archive: str, version: int | None, form: str | None, explain: bool, color: Color) -> None:
    """Show the verdict of a job that is in an archive.

    JOBID is 4242, 4242_7 for an array's task, 4242+1 for a part of a heterogeneous job, an SLUID, or an attempt's key.
    Of a job that was requeued every attempt is shown, the oldest first; with --json, one document after another.
    """
    show_stored(job, archive, version, form, explain=explain, color=color)


def show_stored(asked: str, archive: str, version: int | None, form: str | None, *, explain: bool, color: Color) -> None:
    """Print the verdict of every attempt of a job. Raises ConfigError where there is none."""
    from attribution.archive.open import open_archive

    with open_archive(archive, create=False) as opened:
        found = opened.latest(asked)
        if not found:
            raise ConfigError(f"no verdict of job {asked}: `sattrib analyze DIR --archive FILE` stores one", opened.where)
        if version is not None:
            found = _versions(opened, found, asked, version)
    for number, stored in enumerate(found):
        if number and form is None:
            show_screen(((), (("-" * 40, "dim"),), ()), color)
        answer(stored.verdict, form, explain=explain, color=color)
        if form is None and stored.latest > 1:
            show_screen((((f"version {stored.version} of {stored.latest}", "dim"),),), color)


def _versions(opened: Archive, found: tuple[StoredVerdict, ...], asked: str, version: int) -> tuple[StoredVerdict, ...]:
    chosen = tuple(stored for one in found if (stored := opened.version(one.attempt, version)))
    if not chosen:
        most = max(one.latest for one in found)
        raise ConfigError(f"job {asked} has no version {version}: the newest is {most}", opened.where)
    return chosen
