"""Slurm's times. Its commands are always run with SLURM_TIME_FORMAT=%s, so they are epoch seconds or a word."""

from __future__ import annotations

import datetime as dt
import re

# The largest time that is accepted is in the year 9999: more makes datetime raise.
_LAST = 253_402_300_799


def epoch(text: str) -> int | None:
    """Epoch seconds; None for Unknown, None, NONE, N/A, an empty cell or anything else that is no time."""
    if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII):
        return None
    value = int(text)
    return value if 0 < value <= _LAST else None


def iso(seconds: int | None) -> str | None:
    """ISO 8601 with Z, as it stands in a bundle."""
    if seconds is None:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> int | None:
    """The number in a setting like "30 sec"; None where there is none."""
    match = re.match(r"([0-9]{1,9})(?: sec)?\s*$", text, re.ASCII)
    return int(match[1]) if match else None
