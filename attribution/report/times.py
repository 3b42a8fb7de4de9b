"""Times for people: UTC with a Z. A time without a zone is shown without the Z, since nobody knows its zone."""

from __future__ import annotations

from datetime import UTC, date, datetime


def parse(text: str | None) -> datetime | None:
    """The time that ISO 8601 `text` says, in UTC where it has a zone; None for none and for what is no time."""
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text)
        return when.astimezone(UTC) if when.tzinfo else when
    except (ValueError, OverflowError):
        return None


def show(text: str | None, day: date | None = None) -> str:
    """`2026-10-03 01:12:07Z`; only the time of day where it is on `day`; what is no time stays as it is."""
    when = parse(text)
    if when is None:
        return text or ""
    shown = when.strftime("%H:%M:%S")
    if when.microsecond:
        shown += f".{when.microsecond // 1000:03d}"
    if when.tzinfo:
        shown += "Z"
    return shown if when.date() == day else f"{when.year:04d}-{when.month:02d}-{when.day:02d} {shown}"


def day_of(*texts: str | None) -> date | None:
    """The day of the first of these that is a time."""
    return next((when.date() for when in map(parse, texts) if when), None)


def duration(start: str | None, end: str | None) -> str:
    """`2h 29m`, `29m 5s`, `5s`, `3d 2h`; empty where one of the two is missing or they don't compare."""
    first, last = parse(start), parse(end)
    if first is None or last is None or (first.tzinfo is None) != (last.tzinfo is None) or last < first:
        return ""
    seconds = int((last - first).total_seconds())
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    kept = [f"{value}{unit}" for value, unit in parts if value][:2]
    return " ".join(kept) or "0s"


def order(text: str | None) -> tuple[bool, float, str]:
    """A sort key: by time, what has none last. A time without a zone counts as UTC."""
    when = parse(text)
    if when is None:
        return (True, 0.0, text or "")
    return (False, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp(), text or "")
