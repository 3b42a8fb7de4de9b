"""Lines that are one record in JSON: journald's, a container runtime's, a program's logger's."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from attribution.engine import stamps
from attribution.engine.stamps import Stamp

_MESSAGE, _TIME = ("log", "message", "msg"), ("time", "timestamp", "@timestamp", "asctime", "ts")


class Record(NamedTuple):
    """What one record says. `journal`: journald wrote it, so host and kernel are its word."""

    message: str
    stamp: Stamp | None
    host: str | None = None
    kernel: bool = False
    journal: bool = False


def read(text: str, *, printed: bool) -> Record | None:
    """The record that a line is, or None. `printed`: in a program's output any logger's record counts, elsewhere journald's."""
    try:
        record = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        record = _with_nan(text) if printed else None
    if not isinstance(record, dict):
        return None
    if isinstance(message := record.get("MESSAGE"), str):
        return _of_journal(message, record)
    said = next((word for key in _MESSAGE if isinstance(word := record.get(key), str)), None)
    if said is None or not printed:
        return None
    time = next((word for key in _TIME if isinstance(word := record.get(key), str)), None)
    when = stamps.ISO.match(time) if time is not None else None
    return Record(said, stamps.from_iso(when) if when else None)


def _with_nan(text: str) -> object:
    """Python's own logger writes NaN, which is no JSON."""
    try:
        return json.loads(text) if "NaN" in text or "Infinity" in text else None
    except (ValueError, RecursionError):
        return None


def _of_journal(message: str, record: dict[str, object]) -> Record:
    micro = record.get("__REALTIME_TIMESTAMP")
    stamp = (
        Stamp("wall", int(micro) / 1e6, 1e-6)
        if isinstance(micro, str) and micro.isascii() and micro.isdigit() and len(micro) < 20
        else None
    )
    host = record.get("_HOSTNAME")
    tag = record.get("SYSLOG_IDENTIFIER")
    kernel = record.get("_TRANSPORT") == "kernel"
    body = message if kernel or not isinstance(tag, str) else f"{tag}: {message}"
    return Record(body, stamp, host if isinstance(host, str) else None, kernel, journal=True)
