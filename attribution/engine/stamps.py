"""The time stamps that logs carry, in all shapes that occur, and what each one is worth.

A stamp is kept as written until it is known where the attempt's window lies: syslog and glog write no year, dmesg
writes seconds since boot.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, tzinfo
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Kind = Literal["wall", "naive", "yearless", "uptime", "delta"]
MONTHS = {m: i for i, m in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)}
_MON = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# Other locales' months as journalctl and syslog print them, by their first letters; English ones are found by three.
_LOCAL_MONTHS = (
    "jan ene gen sty янв", "feb fév fev lut фев", "mar mär mrt мар", "apr avr abr kwi апр", "may mai mei maj mag мая май",
    "jun juin giu cze июн", "jul juil lug lip июл", "aug aoû ago sie авг", "sep set wrz сен", "oct okt ott out paź окт",
    "nov lis ноя", "dec déc dez dic des gru дек",
)  # fmt: skip
_LOCAL = {name: i for i, names in enumerate(_LOCAL_MONTHS, 1) for name in names.split()}
LEAP_YEAR = 2000
HALF_YEAR = 180 * 86400
LATEST = 253_370_000_000.0  # late in 9998


class Stamp(NamedTuple):
    """`value` is epoch seconds for wall, the same read as UTC for naive, seconds of a leap year for yearless, seconds
    since boot for uptime, and seconds since the line before for delta. `grain` is the resolution in seconds.
    """

    kind: Kind
    value: float
    grain: float


ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|UTC|[+-]\d\d:?\d\d)(?!\d))?")
SYSLOG = re.compile(rf"({_MON}) {{1,2}}(\d{{1,2}}) (\d\d):(\d\d):(\d\d)(?:\.(\d{{1,9}}))?")
LOCAL = re.compile(r"([^\W\d_]{3,12})\.? {1,2}(\d{1,2})\.?,? (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
CJK = re.compile(r"(\d{1,2})[月월] {1,2}(\d{1,2})[日일]? (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
DAY_FIRST = re.compile(r"(\d{1,2})\.? ([^\W\d_]{3,12})[.,]{0,2} (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
UNIX = re.compile(r"(1\d{9})\.(\d{1,9}) ")
DMESG_T = re.compile(rf"\[(?:[A-Z][a-z]{{2}}) ({_MON}) {{1,2}}(\d{{1,2}}) (\d\d):(\d\d):(\d\d) (\d{{4}})\]")
DMESG_E = re.compile(rf"\[({_MON}) ?(\d{{1,2}}) (\d\d):(\d\d)\]")
FABRIC = re.compile(rf"\[({_MON}) {{1,2}}(\d{{1,2}}) (\d{{4}}) (\d\d):(\d\d):(\d\d)\]")
UPTIME = re.compile(r"\[ {0,9}(\d{1,10}\.\d{1,9})\](?: ?\[ {0,9}[TC]\d{1,9}\])?")
DELTA = re.compile(r"[\[<] {0,9}\+? {0,9}(\d{1,10}\.\d{1,9})[\]>]")
KMSG = re.compile(r"\d{1,4},\d{1,12},(\d{1,18}),[^;]{0,24};")
C10D = re.compile(r"\[?([EWIF])(\d{3,4}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
YEAR_SLASHED = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|UTC)?")
SLASHED = re.compile(r"(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)")
DASHED = re.compile(r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")


def _grain(fraction: str | None) -> float:
    return 10.0 ** -min(len(fraction), 9) if fraction else 1.0


def _seconds(year: int, month: int, day: int, h: int, m: int, s: int, fraction: str | None) -> float | None:
    if not (1 <= month <= 12 and 1 <= day <= 31 and h < 24 and m < 60 and s <= 60 and 1970 <= year <= 9999):
        return None
    if day > calendar.monthrange(year, month)[1]:
        return None
    whole = calendar.timegm((year, month, day, h, m, s))
    return whole + (float("0." + fraction) if fraction else 0.0)


def from_iso(match: re.Match[str]) -> Stamp | None:
    year, month, day, h, m, s, fraction, zone = match.groups()
    value = _seconds(int(year), int(month), int(day), int(h), int(m), int(s), fraction)
    if value is None:
        return None
    if zone is None:
        return Stamp("naive", value, _grain(fraction))
    if zone in ("Z", "UTC"):
        return Stamp("wall", value, _grain(fraction))
    digits = zone[1:].replace(":", "")
    shift = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return Stamp("wall", value - shift if zone[0] == "+" else value + shift, _grain(fraction))


def yearless(month: int, day: int, clock: tuple[str, str, str], fraction: str | None = None) -> Stamp | None:
    value = _seconds(LEAP_YEAR, month, day, int(clock[0]), int(clock[1]), int(clock[2]), fraction)
    return None if value is None else Stamp("yearless", value, _grain(fraction))


def from_syslog(match: re.Match[str]) -> Stamp | None:
    mon, day, h, m, s, fraction = match.groups()
    return yearless(MONTHS[mon], int(day), (h, m, s), fraction)


def _month(name: str) -> int | None:
    """1 to 12 for a month's name in one of the languages of syslog's users, or its number."""
    low = name.lower()
    return _LOCAL.get(low[:4]) or _LOCAL.get(low[:3]) or (int(low) if low.isdecimal() else None)


def from_local(match: re.Match[str]) -> Stamp | None:
    """A syslog stamp in another language."""
    mon, day, h, m, s, fraction = match.groups()
    month = _month(mon)
    return None if month is None else yearless(month, int(day), (h, m, s), fraction)


def from_day_first(match: re.Match[str]) -> Stamp | None:
    day, mon, h, m, s, fraction = match.groups()
    month = _month(mon)
    return None if month is None else yearless(month, int(day), (h, m, s), fraction)


def from_unix(match: re.Match[str]) -> Stamp:
    return Stamp("wall", float(f"{match[1]}.{match[2]}"), _grain(match[2]))


def from_dated(match: re.Match[str]) -> Stamp | None:
    """Dmesg -T writes the year last, Fabric Manager in the middle: both local time, without a zone."""
    groups = match.groups()
    mon, day = groups[0], int(groups[1])
    year, clock = (groups[5], groups[2:5]) if len(groups[2]) == 2 else (groups[2], groups[3:6])
    value = _seconds(int(year), MONTHS[mon], day, int(clock[0]), int(clock[1]), int(clock[2]), None)
    return None if value is None else Stamp("naive", value, 1.0)


def from_c10d(match: re.Match[str]) -> Stamp | None:
    """Glog pads the month (E0816), c10d does not (E816)."""
    _, date, h, m, s, fraction = match.groups()
    return yearless(int(date[:-2]), int(date[-2:]), (h, m, s), fraction)


class Zone:
    """Local time of the logs, and the window that a stamp without a year belongs to."""

    def __init__(self, name: str, reference: float | None) -> None:
        """Raises ValueError where no such time zone exists. `reference` is any epoch second near the attempt."""
        self.reference = reference
        try:
            self.zone: tzinfo = UTC if name in ("UTC", "Z", "") else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError, IndexError):
            raise ValueError(f"{name!r} is no time zone") from None

    def local(self, naive: float) -> float:
        """Epoch seconds of a local time that was read as if it were UTC."""
        if self.zone is UTC:
            return naive
        try:
            whole = int(naive)
            there = datetime.fromtimestamp(whole, UTC).replace(tzinfo=self.zone)
            return there.timestamp() + (naive - whole)
        except (OverflowError, ValueError, OSError):
            return naive

    def wall(self, stamp: Stamp) -> float | None:
        """Epoch seconds, or None where the stamp alone does not say (no year, seconds since boot)."""
        if stamp.kind == "wall":
            return stamp.value
        if stamp.kind == "naive":
            return self.local(stamp.value)
        if stamp.kind == "yearless" and self.reference is not None:
            return self._nearest(stamp.value)
        return None

    def _nearest(self, value: float) -> float:
        reference = self.reference or 0.0
        moment = datetime.fromtimestamp(value, UTC)
        # A bundle's times may lie at the calendar's very end, and a zone shift them past it.
        year = datetime.fromtimestamp(min(max(reference, 0.0), LATEST), UTC).year
        guesses: list[float] = []
        for y in (y for y in (year, year - 1, year + 1) if 1 < y < 9999):
            if guesses and abs(guesses[0] - reference) < HALF_YEAR:
                break
            day = min(moment.day, calendar.monthrange(y, moment.month)[1])
            naive = calendar.timegm((y, moment.month, day, moment.hour, moment.minute, moment.second)) + value % 1
            guesses.append(self.local(naive))
        return min(guesses, key=lambda g: abs(g - reference), default=reference)


def parse_when(text: str, zone: Zone) -> float:
    """Epoch seconds of an ISO 8601 time in a bundle; without a zone of its own it is in `zone`.

    Raises ValueError.
    """
    match = ISO.fullmatch(text.strip())
    stamp = from_iso(match) if match else None
    if stamp is None:
        raise ValueError(f"{text!r} is no ISO 8601 time (like 2026-03-02T04:18:56Z)")
    return stamp.value if stamp.kind == "wall" else zone.local(stamp.value)


def iso(epoch: float | None) -> str | None:
    """ISO 8601 in UTC with Z; milliseconds where there are any."""
    if epoch is None:
        return None
    try:
        moment = datetime.fromtimestamp(round(epoch, 3), UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{moment.microsecond // 1000:03d}" if moment.microsecond else "") + "Z"
