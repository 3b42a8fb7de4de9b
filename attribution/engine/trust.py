"""Which lines users can't have written."""

from __future__ import annotations

import re

from attribution.engine.hits import SHORT
from attribution.engine.ledger import Ledger
from attribution.engine.lines import MAX_LINE, parse
from attribution.model import TRUSTED, Event

_SENDER = re.compile(r"\[\d{1,10}\]:")


def trusted(event: Event, ledger: Ledger) -> bool:
    """Whether users can't have written this event's line."""
    if event.kind == "journal" and ledger.symptoms[event.symptom].domain != "application":
        return _kernels(event.text)
    return event.kind in TRUSTED or (ledger.state.trusted_files and event.kind in ("kern", "syslog"))


def _kernels(text: str) -> bool:
    """Whether a journal's line is the kernel's own. journald prints the sender's pid with whatever came over its socket:
    `kernel[77]: …` is a user's, and so is a tag that itself reads `kernel: NVRM: …` and ends in `[77]: `. A message's
    further lines are indented. A line that was cut may have lost its pid. (systemd, src/shared/logs-show.c)
    """
    line = parse(text)
    if text.startswith('{"'):
        return line.kernel
    whole = len(text) not in (SHORT, MAX_LINE) and "\x1b" not in text and not text[:1].isspace()
    return line.kernel and whole and " kernel: " in text and _SENDER.search(text) is None
