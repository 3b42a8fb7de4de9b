"""What is in a record: NUL-separated KEY=VALUE, then the marker that says nothing was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attribution.errors import ConfigError
from attribution.model import Frozen

MARKER = b"SATTRIB_END=1\0"
MARKER_KEY = "SATTRIB_END"


class Record(Frozen, frozen=True):
    """One record. `time` is when it was written (epoch seconds, UTC): for a job end that is the end, as the hook saw it.

    `complete` False means that it was cut (a full disk, the hook's size limit, a kill): what is in `values` still counts.
    """

    name: str
    kind: Literal["end", "request"]
    values: Mapping[str, str]
    complete: bool
    time: float


def parse(content: bytes) -> tuple[dict[str, str], bool]:
    """The complete variables and whether the marker closes them. Takes any bytes; a name that repeats keeps its first value."""
    whole = content.removesuffix(MARKER)
    complete = whole != content and (not whole or whole.endswith(b"\0"))
    values: dict[str, str] = {}
    # What follows the last NUL was cut in the middle.
    for item in (whole if complete else content).split(b"\0")[:-1]:
        key, equals, value = item.decode("utf-8", "replace").partition("=")
        if equals and key and key != MARKER_KEY:
            values.setdefault(key, value)
    return values, complete


def dump(values: Mapping[str, str]) -> bytes:
    """The bytes of a record. Raises ConfigError where a key or value can't be written."""
    for key, value in values.items():
        if not key or "=" in key or "\0" in key or "\0" in value or key == MARKER_KEY:
            raise ConfigError("can't be written into a record", key=repr(key))
    return b"".join(f"{key}={value}\0".encode("utf-8", "replace") for key, value in values.items()) + MARKER
