"""`sattrib comment JOBID`: the line for sacct, and what would happen to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attribution.cli.output import write
from attribution.cli.site import config_option, enter
from attribution.errors import ConfigError
from attribution.report.escape import escape

if TYPE_CHECKING:
    from attribution.worker.explain import Explained


@click.command()
@click.argument("job", metavar="JOBID")
@config_option
def comment(job: str, config_file: str | None) -> None:
    """Say which line of a job would be written into sacct, where, and why, or why not. Writes nothing."""
    from attribution.worker.explain import explain

    found = explain(enter(config_file), job)
    if not found:
        raise ConfigError(f"no verdict of job {escape(job)} in the archive: `sattrib {escape(job)}` asks for one")
    write("".join(_lines(one) for one in found))


def _lines(one: Explained) -> str:
    says = {
        "write": f"would be written to {one.decision.field} of {one.decision.selector}",
        "keep": f"stands in {one.decision.field}",
        "wait": "not yet",
        "archive": "stays in the archive alone",
    }[one.decision.action]
    held = f"\n  AdminComment now: {escape(one.admin)}" if one.admin else ""
    return f"{escape(one.attempt)}\n  {escape(one.line)}\n  {escape(says)}: {escape(one.decision.why)}{held}\n"
