"""The errors a person can cause, and the exit code that each one means.

Anything else that escapes is a bug: the CLI turns it into exit 70 with a report to paste.
"""

from __future__ import annotations

import re
from typing import Any


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


def refusal(error: Exception, kind: Any) -> str:
    """What msgspec says of input that is no `kind`; where it is none of several words, with those that are known."""
    said = re.fullmatch(r"(?s)(Invalid enum value .*)( - at `\$(.*)`)", str(error))
    if said is None:
        return str(error)
    import msgspec

    known = _choices(msgspec.inspect.type_info(kind), re.findall(r"\.(\w+)|\[", said[3]))
    return f"{said[1]} (known: {', '.join(sorted(known))}){said[2]}" if known else str(error)


def _choices(info: Any, path: list[str]) -> set[str]:
    """The words that stand for a value at `path`: names of keys, and an empty name for each step into a list or mapping."""
    if hasattr(info, "values"):
        return set(map(str, info.values))
    if hasattr(info, "types"):
        return set().union(*(_choices(one, path) for one in info.types))
    if hasattr(info, "type"):
        barred = (getattr(info, "extra_json_schema", None) or {}).get("not", {}).get("const")
        return _choices(info.type, path) - {barred}
    if not path:
        return set()
    inner = [f.type for f in getattr(info, "fields", ()) if f.encode_name == path[0]]
    inner += [getattr(info, name) for name in ("item_type", "value_type") if not path[0] and hasattr(info, name)]
    return set().union(*(_choices(one, path[1:]) for one in inner))
