"""The files of a rule directory, each read once: regular ones of a sane size, from those whom this process may trust."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from attribution.config.ownership import check_ownership, trusts_only_root
from attribution.errors import ConfigError, RuleError
from attribution.ruleset.files import Problem

SUFFIXES = (".toml", ".py", ".csv")
# What people write fits many times.
MOST_ENTRIES = 20_000
MOST_BYTES = 1 << 20
MOST_TOTAL = 32 << 20


def rule_files(folder: Path, problems: list[Problem], *, own: bool = False) -> dict[Path, bytes]:
    """Path -> content, sorted. `own` files came with sattrib: who owns them is not asked. Raises RuleError for no directory."""
    if not folder.is_dir():
        raise RuleError([(str(folder), "", "is no directory of rules")])
    asked = not own and trusts_only_root()
    found: dict[Path, bytes] = {}
    total = 0
    for path in sorted(_named(folder, problems)):
        try:
            content = _content(path)
            if asked and isinstance(content, bytes):
                check_ownership(path, sticky=True)
        except ConfigError as error:
            problems.append((str(path), "", error.what))
            continue
        except OSError as error:
            problems.append((str(path), "", f"can't be read: {error.strerror}"))
            continue
        if isinstance(content, str):
            problems.append((str(path), "", content))
            continue
        found[path] = content
        total += len(content)
        if total > MOST_TOTAL:
            raise RuleError([(str(folder), "", f"holds more than {MOST_TOTAL >> 20} MiB of rule files")])
    return found


def _named(folder: Path, problems: list[Problem]) -> Iterator[Path]:
    """What is named like a rule file, whatever it is. Hidden files and directories are not looked at."""

    def unread(error: OSError) -> None:
        problems.append((str(error.filename), "", f"can't be read: {error.strerror}"))

    count = 0
    for here, folders, names in os.walk(folder, onerror=unread):
        folders[:] = sorted(n for n in folders if not n.startswith((".", "__")))
        count += len(folders) + len(names)
        if count > MOST_ENTRIES:
            raise RuleError([(str(folder), "", f"holds more than {MOST_ENTRIES} files: is it a directory of rules?")])
        shown = (n for n in (*folders, *names) if not n.startswith((".", "__")))
        yield from (Path(here, n) for n in shown if n.endswith(SUFFIXES))


def _content(path: Path) -> bytes | str:
    """The file's bytes, or why it is none of ours. Never waits, as on a FIFO. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            return f"is {'a directory' if stat.S_ISDIR(state.st_mode) else 'no regular file'}, though named like a rule file"
        content = b""
        while state.st_size <= MOST_BYTES and (block := os.read(descriptor, MOST_BYTES + 1 - len(content))):
            content += block
        large = max(state.st_size, len(content)) > MOST_BYTES
        return f"is larger than {MOST_BYTES >> 20} MiB: no file that a person writes is" if large else content
    finally:
        os.close(descriptor)
