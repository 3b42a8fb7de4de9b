"""The event log of a board holds the entries of years; only those of the attempt's days tell of it."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Demote, Example, View, event, filter_rule

_NUMBERS = re2.compile(r"^(\d{1,2})/(\d{1,2})/(\d{2,4})$")
_WORDS = re2.compile(r"^([A-Z][a-z]{2})-(\d{1,2})-(\d{4})$")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAY = 86400.0


def _epoch_day(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Gregorian calendar."""
    year, month = (year - 1, month + 12) if month <= 2 else (year, month)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469


def _date(text: str) -> float | None:
    """Epoch seconds of the beginning of the day that an entry of the log names (month first), or None."""
    numbers, words = _NUMBERS.search(text), _WORDS.search(text)
    if numbers is not None:
        month, day, year = (int(numbers.group(at)) for at in (1, 2, 3))
    elif words is not None and words.group(1) in MONTHS:
        month, day, year = MONTHS.index(words.group(1)) + 1, int(words.group(2)), int(words.group(3))
    else:
        return None
    return _epoch_day(year + 2000 if year < 100 else year, month, day) * DAY if 1 <= month <= 12 else None


@filter_rule(
    name="entry-of-another-day",
    stage="EARLY",
    example=Example(
        given=(event("cpu.mce_uc", "n1", kind="syslog", entry_date="03/02/1969"),),
        expect=("demote cpu.mce_uc",),
        quiet=(event("cpu.mce_uc", "n1", kind="syslog", entry_date="01/01/1970"), event("cpu.mce_uc", "n1", line=2)),
    ),
)
def entry_of_another_day(view: View) -> Iterable[Change]:
    """An entry of the board's log that names a day on which the attempt did not run. The board's clock may be hours off."""
    start, end = view.state.start, view.state.end
    if start is None or end is None:
        return
    for e in view.events:
        day = _date(e.fields.get("entry_date") or e.fields.get("entry_date2") or "")
        if day is not None and not start - 2 * DAY < day < end + DAY:
            yield Demote(event=e.id, reason="an entry of another day")
