"""The bundle connector: a directory with bundle.json and log files, the whole input of one verdict, offline."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from attribution.bundle import Bundle, Source
from attribution.engine.record import STATES, base_state
from attribution.engine.stamps import Zone, parse_when
from attribution.errors import ConfigError
from attribution.model import Coverage, CoverageState

BLOCK = 4 << 20
MAX_JSON = 64 << 20


def read_bundle(folder: Path) -> Bundle:
    """The bundle of a directory. Raises ConfigError with file and key for everything that is wrong with bundle.json."""
    path = folder / "bundle.json"
    if not folder.is_dir():
        raise ConfigError("is no directory; give a directory that holds a bundle.json", str(folder))
    try:
        if path.stat().st_size > MAX_JSON:
            raise ConfigError("is larger than 64 MiB", str(path))
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError("is missing; a bundle is a directory with a bundle.json and log files", str(path)) from None
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", str(path)) from None
    try:
        bundle = msgspec.json.decode(raw, type=Bundle)
    except msgspec.ValidationError as error:
        what, key = _where(str(error))
        raise ConfigError(what, str(path), key) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"is not valid JSON: {error}", str(path)) from None
    _check(bundle, str(path))
    return bundle


def _where(message: str) -> tuple[str, str]:
    """Msgspec writes "what - at `$.key`": the key in front, as people look for it."""
    what, _, at = message.partition(" - at `$")
    return what, at.rstrip("`").lstrip(".")


def _check(bundle: Bundle, file: str) -> None:
    attempt = bundle.attempt
    if base_state(attempt.state) not in STATES:
        raise ConfigError(f"{attempt.state!r} is no state of Slurm's", file, "attempt.state")
    if not attempt.job_id:
        raise ConfigError("is empty", file, "attempt.job_id")
    try:
        zone = Zone(attempt.log_timezone, None)
    except ValueError as error:
        raise ConfigError(str(error), file, "attempt.log_timezone") from None
    times: dict[str, float | None] = {}
    for key, text in _times(bundle):
        try:
            times[key] = parse_when(text, zone) if text is not None else None
        except ValueError as error:
            raise ConfigError(str(error), file, key) from None
    start, end = times.get("attempt.start"), times.get("attempt.end")
    if start is not None and end is not None and start > end:
        raise ConfigError(f"start {attempt.start} is after end {attempt.end}", file, "attempt.start")
    if not attempt.nodes and start is not None:
        raise ConfigError("is empty although the attempt started", file, "attempt.nodes")
    _check_sources(bundle, file)
    _check_cancellation(bundle, file)


def _times(bundle: Bundle) -> Iterator[tuple[str, str | None]]:
    attempt = bundle.attempt
    yield from (("attempt.start", attempt.start), ("attempt.end", attempt.end), ("attempt.submit", attempt.submit))
    yield from ((f"attempt.steps[{i}].{k}", getattr(s, k)) for i, s in enumerate(attempt.steps) for k in ("start", "end"))
    yield from ((f"attempt.events[{i}].time", e.time) for i, e in enumerate(attempt.events))
    yield from ((f"nodes[{i}].boots[{j}].start", b.start) for i, n in enumerate(bundle.nodes) for j, b in enumerate(n.boots))
    yield from ((f"neighbours[{i}].{k}", getattr(n, k)) for i, n in enumerate(bundle.neighbours) for k in ("start", "end"))
    yield from ((f"history[{i}].time", h.time) for i, h in enumerate(bundle.history))


def _check_sources(bundle: Bundle, file: str) -> None:
    seen: set[str] = set()
    for number, source in enumerate(bundle.sources):
        key = f"sources[{number}].path"
        if source.kind == "record":
            raise ConfigError("kind record is Slurm's own record: it comes from `attempt`", file, f"sources[{number}].kind")
        if source.path.startswith("/") or ".." in source.path.split("/") or "\0" in source.path or not source.path:
            raise ConfigError(f"{source.path!r} leaves the bundle; paths are relative to its directory", file, key)
        if source.path in seen:
            raise ConfigError(f"{source.path!r} is listed twice", file, key)
        seen.add(source.path)


def _check_cancellation(bundle: Bundle, file: str) -> None:
    found = bundle.attempt.execution_cancellation
    if found is None:
        return
    key = "attempt.execution_cancellation"
    if found.record_id != bundle.attempt.job_id:
        raise ConfigError(f"record_id {found.record_id!r} is not this record's id {bundle.attempt.job_id!r}", file, key)
    if not found.by.strip():
        raise ConfigError("says not by whom it was cancelled", file, key + ".by")
    if not any(ch in found.time[10:] for ch in "Z+-"):
        raise ConfigError(f"{found.time!r} has no time zone", file, key + ".time")
    try:
        parse_when(found.time, Zone("UTC", None))
    except ValueError as error:
        raise ConfigError(str(error), file, key + ".time") from None


def open_source(folder: Path, source: Source) -> tuple[Any, Coverage | None]:
    """(file object, None) or (None, coverage that says why not). Never follows a link out of the bundle, never blocks."""

    def problem(state: CoverageState, reason: str) -> tuple[None, Coverage]:
        return None, Coverage(source=source.path, kind=source.kind, state=state, node=source.node, reason=reason)

    if source.coverage is not None and source.coverage.state in ("denied", "unreachable", "timed_out", "not_configured"):
        return problem(source.coverage.state, source.coverage.reason)
    path = folder / source.path
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return problem("denied", "is a link that leaves the bundle")
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return problem("unreachable", "the file is missing")
    except PermissionError:
        return problem("denied", "permission denied")
    except (OSError, RuntimeError, ValueError) as error:
        return problem("unreachable", getattr(error, "strerror", None) or str(error))
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        return problem("unreachable", "is a directory" if stat.S_ISDIR(found.st_mode) else "is no regular file")
    return os.fdopen(fd, "rb", buffering=0), None


def blocks(file: Any) -> Iterator[bytes]:
    """The file's bytes in blocks of some megabytes."""
    while block := file.read(BLOCK):
        yield block
