"""`sattrib status`: how the worker is doing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attribution.cli.output import write
from attribution.cli.site import config_option, enter, load
from attribution.errors import ConfigError, SattribError
from attribution.report.escape import escape

if TYPE_CHECKING:
    from attribution.config import Config
    from attribution.worker.status import Status

NOT_RUNNING = 2


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print what the worker wrote, as JSON.")
@config_option
def status(config_file: str | None, *, as_json: bool) -> int:
    """Say what the worker has in hand, how fast it is, what it owes to sacct, and what went wrong last.

    What is missing is said with what to do next. The exit code is 2 where no worker is running.
    """
    from attribution.worker.status import read_status

    config = load(config_file)
    folder = Path(config.worker.state_dir)
    missing = [] if as_json else _missing(config)
    if as_json or folder.is_dir():
        enter(config_file)
    running = _is_running(folder)
    try:
        found = read_status(folder)
    except SattribError as problem:
        write("".join(f"{line}\n" for line in [_never(running=running), *missing]) if not as_json else "")
        raise SattribError(str(problem) if folder.is_dir() else f"{folder}: is missing: the worker has not run here") from None
    if as_json:
        import msgspec

        write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
    else:
        write("".join(f"{line}\n" for line in [*lines(found, running=running), *missing]))
    return 0 if running else NOT_RUNNING


def _is_running(folder: Path) -> bool:
    from attribution.worker.lock import is_held
    from attribution.worker.loop import LOCK

    try:
        return is_held(folder / LOCK)
    except OSError as problem:
        raise ConfigError(f"can't be read: {problem.strerror}", str(folder / LOCK)) from None


def _never(*, running: bool) -> str:
    return "worker    " + (
        "running, and has not yet written how it is doing: ask again in some seconds"
        if running
        else "NOT RUNNING, never seen here; start it with: systemctl start sattrib"
    )


def _missing(config: Config) -> list[str]:
    """A line for each place that is not there, with what to do; escaped."""
    file = Path(config.archive.url.removeprefix("sqlite:///")) if config.archive.url.startswith("sqlite:///") else None
    made = "make it as docs/install-slurm.md says"
    found = [
        f"{what:9} {escape(name)} {'is no directory' if Path(name).exists() else 'is missing'}: {then}"
        for what, name, then in (
            ("state", config.worker.state_dir, f"{made}, or name another in [worker] state_dir"),
            ("spool", config.spool.dir, f"{made}, or name another in [spool] dir"),
        )
        if not Path(name).is_dir()
    ]
    if file is not None and not file.is_file():
        is_there = "is no regular file: name another in [archive] url" if file.exists() else "is missing: the worker makes it"
        found.append(f"archive   {escape(str(file))} {is_there}")
    return found


def lines(found: Status, *, running: bool) -> list[str]:
    """The status for people; escaped."""
    head = (
        f"running, pid {found.pid}, since {_when(found.started)}" if running else f"NOT RUNNING, last seen {_when(found.now)}"
    )
    oldest = f", the oldest for {_span(found.now - found.oldest)}" if found.oldest else ""
    behind = f", the oldest for {_span(found.now - found.comments_oldest)}" if found.comments_oldest else ""
    poll = _when(found.last_poll) if found.last_poll else "not yet"
    hook = "stopped, the disk is full" if found.hook_stopped else "may write"
    listed = [
        f"worker    {head}",
        f"records   {found.records_waiting} waiting, {found.records_unmatched} not matched{oldest}",
        f"attempts  {found.in_hand} in hand, {found.ready} ready",
        f"archived  {found.archived} since the start, {found.last_minute} in the last minute, {found.last_ten_minutes} in ten",
        f"comments  {found.comments_written} written since the start, {found.comments_behind} behind{behind}",
        f"slurm     {escape(found.slurm)}; last poll {poll}",
        f"spool     {found.disk_percent} % full, the hook {hook}",
    ]
    for one in reversed(found.troubles[-5:]):
        times = f" ({one.count} times)" if one.count > 1 else ""
        listed.append(f"trouble   {_when(one.time)} {escape(one.where)}: {escape(one.what)}{times}")
    return listed


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min" if seconds < 36_000 else f"{seconds / 3600:.0f} h"
