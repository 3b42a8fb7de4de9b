"""The errors a person can cause, and the exit code that each one means.

Anything else that escapes is a bug: the CLI turns it into exit 70 with a report to paste.
"""

from __future__ import annotations


class SattribError(Exception):
    """A problem that one clear line explains: what is wrong, where, what to do."""

    exit_code = 2


def _one_line(text: str) -> str:
    """Names and values of people's files stand in messages: none of them begins a line of its own."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class ConfigError(SattribError):
    """Something a person wrote is wrong: a config file, a bundle, an argument.

    `file` and `key` say where; both may be empty for arguments.
    """

    def __init__(self, what: str, file: str = "", key: str = "") -> None:
        self.what, self.file, self.key = what, file, key
        where = ": ".join(part for part in (file, key) if part)
        super().__init__(_one_line(f"{where}: {what}" if where else what))


class RuleError(SattribError):
    """A rule or its file is wrong. `problems` holds every fault found, not only the first."""

    def __init__(self, problems: list[tuple[str, str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(_one_line(": ".join(part for part in problem if part)) for problem in problems))


class SlurmError(SattribError):
    """Slurm did not answer, or answered with something that can't be used."""

    exit_code = 3
