"""PCIe errors that the firmware reports (APEI, GHES): several records, of which only the first names the severity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import re2

from attribution.rule import Accumulated, Example, accumulator

_DEVICE = re2.compile(r"device_id: ([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
_MARK = "[Hardware Error]:"
SYMPTOM = {"fatal": "pcie.aer_fatal", "recoverable": "pcie.aer_nonfatal", "corrected": "pcie.aer_corr"}


class Record:
    """One report: taken as long as its lines go on."""

    def __init__(self, severity: str) -> None:
        self.severity = severity
        self.pcie = False
        self.device = ""

    def feed(self, text: str) -> bool:
        if _MARK not in text or "event severity" in text:
            return False
        self.pcie = self.pcie or "section_type: PCIe error" in text
        found = _DEVICE.search(text)
        if found is not None:
            self.device = found.group(1)
        return True

    def result(self) -> Iterable[Accumulated]:
        if self.pcie:
            kind = "bad_node" if self.severity == "fatal" else "interesting_node"
            yield Accumulated(symptom=SYMPTOM[self.severity], emit=kind, fields={"dev": self.device, "by": "firmware"})


@accumulator(
    name="apei-pcie",
    trigger=r"\[Hardware Error\]: event severity: (?P<severity>fatal|recoverable|corrected)",
    reads=("kern", "dmesg", "syslog", "journal"),
    example=Example(
        given=(
            "{359}[Hardware Error]: event severity: fatal",
            "{359}[Hardware Error]:  Error 0, type: fatal",
            "{359}[Hardware Error]:   section_type: PCIe error",
            "{359}[Hardware Error]:   device_id: 0000:65:00.0",
        ),
        expect=("pcie.aer_fatal",),
        quiet=("{360}[Hardware Error]: event severity: fatal", "{360}[Hardware Error]:   section_type: memory error"),
    ),
)
def apei_pcie(fields: Mapping[str, str], line: str) -> Record:  # noqa: ARG001 - the trigger's line stays with the event
    """The section type is some lines below the severity."""
    return Record(fields["severity"])
