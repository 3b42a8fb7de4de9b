"""The bundle connector: a directory with bundle.json and log files, the whole input of one verdict, offline."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from attribution.bundle import Bundle, Source
from attribution.engine.record import STATES, base_state
from attribution.engine.stamps import Zone, parse_when
from attribution.errors import ConfigError, refusal
from attribution.model import Coverage, CoverageState

BLOCK = 4 << 20
MAX_JSON = 64 << 20
_OFFSET = re.compile(r"(?<=[T ]).*[+-]([0-9]{2}):?([0-9]{2})?$")
_PORT = re.compile(r"(?:[0-9.]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,9})")


def read_bundle(folder: Path) -> Bundle:
    """The bundle of a directory. Raises ConfigError with file and key for everything that is wrong with bundle.json."""
    path = folder / "bundle.json"
    if not folder.is_dir():
        raise ConfigError("is no directory; give a directory that holds a bundle.json", str(folder))
    raw = _read(path)
    try:
        bundle = msgspec.json.decode(raw, type=Bundle)
    except msgspec.ValidationError as error:
        what, key = _where(refusal(error, Bundle))
        raise ConfigError(what, str(path), key) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"is not valid JSON: {error}", str(path)) from None
    _refuse_twice(raw, str(path))
    _check(bundle, str(path))
    return bundle


def _read(path: Path) -> bytes:
    """The whole bundle.json. Never waits, as on a FIFO, and reads no more than the limit, as of /dev/zero."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError("is no regular file", str(path))
            raw = file.read(MAX_JSON + 1) if os.fstat(descriptor).st_size <= MAX_JSON else None
    except FileNotFoundError:
        raise ConfigError("is missing; a bundle is a directory with a bundle.json and log files", str(path)) from None
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", str(path)) from None
    if raw is None or len(raw) > MAX_JSON:
        raise ConfigError("is larger than 64 MiB", str(path))
    return raw


def _refuse_twice(raw: bytes, file: str) -> None:
    """A key that an object has twice would silently mean its last value."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ConfigError("stands twice in the same object", file, key)
            seen.add(key)

    try:
        json.loads(raw, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is not valid JSON: {error}", file) from None


def _where(message: str) -> tuple[str, str]:
    """Msgspec writes "what - at `$.key`": the key in front, as people look for it."""
    what, _, at = message.partition(" - at `$")
    return what, at.rstrip("`").lstrip(".")


def _check(bundle: Bundle, file: str) -> None:
    attempt = bundle.attempt
    if base_state(attempt.state) not in STATES:
        raise ConfigError(f"{attempt.state!r} is no state of Slurm's", file, "attempt.state")
    try:
        zone = Zone(attempt.log_timezone, None)
    except ValueError as error:
        raise ConfigError(str(error), file, "attempt.log_timezone") from None
    if attempt.log_timezone.endswith("localtime"):
        raise ConfigError("is another zone on each machine: name one, like Europe/Berlin", file, "attempt.log_timezone")
    times: dict[str, float | None] = {}
    for key, text in _times(bundle):
        try:
            times[key] = _when(text, zone) if text is not None else None
        except ValueError as error:
            raise ConfigError(str(error), file, key) from None
    start, end = times.get("attempt.start"), times.get("attempt.end")
    if start is not None and end is not None and start > end:
        raise ConfigError(f"start {attempt.start} is after end {attempt.end}", file, "attempt.start")
    if not attempt.nodes and start is not None:
        raise ConfigError("is empty although the attempt started", file, "attempt.nodes")
    _check_nodes(bundle, file)
    _check_sources(bundle, file)
    _check_cancellation(bundle, file)


def _check_nodes(bundle: Bundle, file: str) -> None:
    known: dict[str, list[Hashable]] = {"attempt.nodes": list(bundle.attempt.nodes), "nodes": [n.name for n in bundle.nodes]}
    for number, node in enumerate(bundle.nodes):
        known[f"nodes[{number}].boots"] = [b.id for b in node.boots]
        known[f"nodes[{number}].gpus"] = [g.index for g in node.gpus]
    for key, names in known.items():
        seen: set[Hashable] = set()
        for name in names:
            if name in seen:
                raise ConfigError(f"lists {name!r} twice", file, key)
            seen.add(name)
    for key, address in _addresses(bundle):
        port = _PORT.fullmatch(address)
        if port and not 0 < int(port[1]) < 65536:
            raise ConfigError(f"{address!r}: the port is not between 1 and 65535", file, key)


def _addresses(bundle: Bundle) -> Iterator[tuple[str, str]]:
    for node, where in bundle.attempt.node_addresses.items():
        yield from ((f"attempt.node_addresses.{node}", one) for one in ((where,) if isinstance(where, str) else where))
    yield from ((f"nodes[{i}].addresses", one) for i, n in enumerate(bundle.nodes) for one in n.addresses)


def _when(text: str, zone: Zone) -> float:
    """Epoch seconds. Raises ValueError, also for an offset from UTC that no place has."""
    offset = _OFFSET.search(text)
    if not text.isascii() or (offset and (int(offset[1]) > 15 or int(offset[2] or 0) > 59)):
        raise ValueError(f"{text!r} has an offset from UTC that no place has" if offset else f"{text!r} is no ISO 8601 time")
    return parse_when(text, zone)


def _times(bundle: Bundle) -> Iterator[tuple[str, str | None]]:
    attempt = bundle.attempt
    yield from (("attempt.start", attempt.start), ("attempt.end", attempt.end), ("attempt.submit", attempt.submit))
    yield from ((f"attempt.steps[{i}].{k}", getattr(s, k)) for i, s in enumerate(attempt.steps) for k in ("start", "end"))
    yield from ((f"attempt.events[{i}].time", e.time) for i, e in enumerate(attempt.events))
    if attempt.allocation_failure is not None:
        yield "attempt.allocation_failure.time", attempt.allocation_failure.time
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
        _when(found.time, Zone("UTC", None))
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


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """The file's bytes in blocks of some megabytes; a hole, which may be of terabytes, is one NUL byte."""
    while True:
        at = file.tell()
        try:
            start = file.seek(at, os.SEEK_DATA)
        except OSError as error:
            # ENXIO: no more data, the end or a hole up to it. Else it is a file system that knows no holes.
            start = file.seek(0, os.SEEK_END) if error.errno == errno.ENXIO else at
        if start > at:
            yield b"\0"
        if not (block := file.read(BLOCK)):
            return
        yield block
