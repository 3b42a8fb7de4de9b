"""PCIe errors that the firmware reports (APEI, GHES): several records, of which only the first names the severity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import re2

from attribution.rule import Accumulated, Example, accumulator

_DEVICE = re2.compile(r"device_id: ([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
_VENDOR = re2.compile(r"vendor_id: 0x(?:10de|1002|8086)\b")
_CLASS = re2.compile(r"class_code: (?:0x)?(?:030[02]|0380|1200)")
_MARK = "[Hardware Error]:"
# Between the lines of a record stand those of the interrupt that reported it.
STRANGERS = 20
SYMPTOM = {"fatal": "pcie.aer_fatal", "recoverable": "pcie.aer_nonfatal", "corrected": "pcie.aer_corr"}


class Record:
    """One report: taken as long as its lines go on."""

    def __init__(self, severity: str) -> None:
        self.severity = severity
        self.pcie = self.vendor = self.gpu = False
        self.device = ""
        self.strangers = 0

    def feed(self, text: str) -> bool:
        if _MARK not in text:
            self.strangers += 1
            return self.strangers <= STRANGERS
        if "event severity" in text:
            return False
        self.pcie = self.pcie or "section_type: PCIe error" in text
        found = _DEVICE.search(text)
        if found is not None:
            self.device = found.group(1)
        self.vendor = self.vendor or _VENDOR.search(text) is not None
        self.gpu = self.gpu or (self.vendor and _CLASS.search(text) is not None)
        return True

    def result(self) -> Iterable[Accumulated]:
        if self.pcie:
            kind = "bad_node" if self.severity == "fatal" else "interesting_node"
            symptom = "pcie.gpu_link" if self.gpu and self.severity == "fatal" else SYMPTOM[self.severity]
            yield Accumulated(symptom=symptom, emit=kind, fields={"dev": self.device, "by": "firmware"})


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
