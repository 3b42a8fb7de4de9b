"""`sattrib spool list|retry`: the records that the hook left."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from attribution.cli.output import write
from attribution.cli.site import config_option, enter
from attribution.errors import ConfigError
from attribution.report.escape import escape

if TYPE_CHECKING:
    from attribution.spool import Spool


@click.group()
def spool() -> None:
    """Look at job ends that wait, and try failed ones again."""


@spool.command("list")
@config_option
def list_(config_file: str | None) -> None:
    """List the records: state, tries, when, name, and why it failed."""
    entries = _spool(config_file).entries()
    for entry in entries:
        when = datetime.fromtimestamp(entry.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        write(f"{entry.state:8} {entry.tries} {when} {escape(entry.name)} {escape(entry.why)}".rstrip() + "\n")
    if not entries:
        write("the spool is empty\n")


@spool.command()
@click.argument("name")
@config_option
def retry(name: str, config_file: str | None) -> None:
    """Put the failed record NAME back into the queue."""
    _spool(config_file).retry(name)
    write(f"{escape(name)} is in the queue again ({time.strftime('%H:%M:%S')})\n")


def _spool(config_file: str | None) -> Spool:
    from attribution.spool import Spool

    opened = Spool(enter(config_file).spool.dir)
    if not opened.claimed.is_dir():
        raise ConfigError("the worker has not run on this spool yet", str(opened.directory), "spool.dir")
    return opened
