"""The command table: a command's module is imported when it is asked for, so that every command starts fast."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

import click

# command -> (module, attribute); in the order of --help. A module that is not installed is left out.
COMMANDS: dict[str, tuple[str, str]] = {
    "analyze": ("attribution.cli.analyze", "analyze"),
    "show": ("attribution.cli.show", "show"),
    "status": ("attribution.cli.status", "status"),
    "comment": ("attribution.cli.comment", "comment"),
    "spool": ("attribution.cli.spool", "spool"),
    "worker": ("attribution.cli.worker", "worker"),
    "config": ("attribution.cli.config", "config"),
    "rules": ("attribution.cli.rules", "rules"),
    "schema": ("attribution.cli.schema", "schema"),
}
_JOB = ("attribution.cli.job", "job")
# A job as Slurm writes it (4242, 4242_7, 4242+1), or an SLUID.
_JOB_RE = re.compile(r"[0-9]+(?:[_+][0-9]+)?|s[0-9A-Z]{13}")


class LazyGroup(click.Group):
    """A group that knows its commands by name, and takes a job id in place of a command."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [name for name, (module, _) in COMMANDS.items() if find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, attribute = COMMANDS.get(cmd_name, ("", ""))
        if not module and _JOB_RE.fullmatch(cmd_name):
            module, attribute = _JOB
        elif cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """`sattrib 4242 --json` is `sattrib job 4242 --json`: the job's id stays an argument."""
        name, command, rest = super().resolve_command(ctx, args)
        if args and args[0] not in COMMANDS and _JOB_RE.fullmatch(args[0]):
            return "job", command, args
        return name, command, rest
