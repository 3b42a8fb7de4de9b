"""`sattrib worker`: the unit that turns job ends into verdicts."""

from __future__ import annotations

import click

from attribution.cli.site import config_option, enter


@click.command()
@click.option("--once", is_flag=True, help="Do what there is to do, then end.")
@config_option
def worker(config_file: str | None, *, once: bool) -> None:
    """Judge job attempts as they end, until stopped.

    Runs as user sattrib (root becomes that user), normally as the unit sattrib.service. SIGTERM ends it, SIGHUP makes it load the rules anew.
    """
    from attribution.worker import serve

    serve(enter(config_file), once=once)
