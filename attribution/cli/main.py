"""`sattrib`: the command group, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from attribution import __version__
from attribution.cli.lazy import LazyGroup
from attribution.cli.output import ReaderGoneError
from attribution.errors import SattribError

BUG = 70
_BROKEN_PIPE = 141


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, options_metavar="", no_args_is_help=True)
@click.version_option(__version__, prog_name="sattrib", message="%(prog)s %(version)s")
def cli() -> None:
    """Why did this Slurm job attempt end, which nodes are to blame, and what should be done?"""


def run(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    0: answered; 2: something given is wrong; 3: Slurm did not answer; 70: a bug, with a report to paste; 130: interrupted.
    """
    arguments = sys.argv[1:] if argv is None else argv
    _tolerate_encodings()
    try:
        code = _run(arguments)
    except ReaderGoneError:
        # Python must not complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _BROKEN_PIPE
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    try:
        result = cli.main(arguments, prog_name="sattrib", standalone_mode=False)
    except SattribError as error:
        for line in str(error).splitlines() or [type(error).__name__]:
            _say(line)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except ReaderGoneError:
        raise
    except Exception as error:  # noqa: BLE001
        from attribution.cli.bug import report

        sys.stderr.write(report(error, arguments))
        return BUG
    return result if isinstance(result, int) else 0


def _say(line: str) -> None:
    from attribution.report.escape import escape

    sys.stderr.write(f"sattrib: {escape(line)}\n")


def _tolerate_encodings() -> None:
    """What a terminal's encoding lacks is shown as an escape, and never as a crash."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    run()
