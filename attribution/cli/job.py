"""`sattrib JOBID`: the verdict of a job out of this site's archive, or asked for there and waited for."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attribution.cli.answer import form_options
from attribution.cli.output import Color, color_option, note
from attribution.cli.show import show_stored
from attribution.cli.site import config_option, enter
from attribution.errors import ConfigError, SattribError

if TYPE_CHECKING:
    from attribution.config import Config
    from attribution.spool import Spool

PAUSE = 0.25
REFUSED = {
    "has-not-ended": "it has not ended yet",
    "no-such-job": "the accounting has no such job",
    "unknown-request": "the worker does not know such a request: is it of another version?",
}


@click.command("job", hidden=True)
@click.argument("job_id", metavar="JOBID")
@click.option("--archive", metavar="FILE", help="Another archive (a SQLite file, or a PostgreSQL URL).")
@click.option(
    "--version", metavar="N", type=click.IntRange(min=1), help="An older version of the verdict (default: the newest)."
)
@click.option("--wait", metavar="SECONDS", type=click.IntRange(min=0), default=120, show_default=True, help="For the worker.")
@form_options
@config_option
@color_option
def job(
    job_id: str,
    *,
    archive: str | None,
    version: int | None,
    wait: int,
    form: str | None,
    explain: bool,
    config_file: str | None,
    color: Color,
) -> None:
    """Show the verdict of a job; one that has none yet is handed to the worker."""
    if archive is None:
        config = enter(config_file)
        archive = config.archive.url
        if not _is_known(archive, job_id):
            _ask(config, job_id, wait)
    show_stored(job_id, archive, version, form, explain=explain, color=color)


def _is_known(archive: str, job_id: str) -> bool:
    from attribution.archive.open import open_archive

    with open_archive(archive, create=False) as opened:
        return bool(opened.latest(job_id))


def _ask(config: Config, job_id: str, wait: int) -> None:
    """Put a request into the spool and wait until the worker has dealt with it. Raises ConfigError, SattribError."""
    from attribution.spool import Spool
    from attribution.worker.lock import is_held
    from attribution.worker.loop import LOCK

    spool = Spool(config.spool.dir)
    if not is_held(Path(config.worker.state_dir) / LOCK):
        raise ConfigError(f"no verdict of job {job_id} yet, and no worker is running: start it with: systemctl start sattrib")
    name = spool.request({"ASK": "attribute", "JOB": job_id})
    began = time.monotonic()
    while (why := _state(spool, name)) is None:
        passed = time.monotonic() - began
        if passed > wait:
            raise SattribError(f"no verdict of job {job_id} after {wait} s; the worker goes on with it, ask again later")
        _progress(f"job {job_id}: the worker is at it ({passed:.0f} s)")
        time.sleep(PAUSE)
    _progress("")
    if why:
        raise ConfigError(f"no verdict of job {job_id}: {REFUSED.get(why, why)}")


def _state(spool: Spool, name: str) -> str | None:
    """None while the request waits or is worked on; empty when it is done; else why it was refused."""
    for entry in spool.entries():
        if entry.name == name:
            if entry.state != "failed":
                return None
            (spool.failed / f"{entry.name}.{entry.why}").unlink(missing_ok=True)
            return entry.why
    return ""


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
    elif text.endswith("(0 s)"):
        note(text.removesuffix(" (0 s)"))
