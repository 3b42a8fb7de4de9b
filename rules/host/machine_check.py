"""Machine checks that are really errors of memory: decoded in several lines, or told twice by the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import re2

from attribution.rule import Accumulated, Change, Demote, Example, Lines, View, accumulator, event, filter_rule

LOGS = ("kern", "dmesg", "syslog", "journal")
SAME_FAULT = 10.0
_UNCORRECTED = re2.compile(r"(?:^|: )(?:Uncorrected error|Uncorrected, software |System Fatal error)")
_OF_MEMORY = re2.compile(
    r"Unified Memory Controller|DRAM ECC error|MEMORY CONTROLLER \w+_ERR|Transaction: Memory (?:read|write|scrubbing) error"
)
_NEXT = re2.compile(
    r"Corrected error|Deferred error|Machine check events logged|^(?:mcelog(?:\[\d+\])?: )?(?:Hardware event\. |MCE \d+$)"
)


class _Record:
    """The lines of one decoded machine check, until the next one."""

    def __init__(self, uncorrected: bool) -> None:
        self.uncorrected, self.memory, self.lines = uncorrected, False, 0

    def feed(self, text: str) -> bool:
        self.lines += 1
        if self.lines > 1 and _NEXT.search(text):
            return False
        self.uncorrected = self.uncorrected or _UNCORRECTED.search(text) is not None
        self.memory = self.memory or _OF_MEMORY.search(text) is not None
        return self.lines < 30

    def result(self) -> Iterable[Accumulated]:
        if self.uncorrected:
            yield Accumulated(symptom="mem.edac_ue" if self.memory else "cpu.mce_uc")


@accumulator(
    name="machine-check-decoded-in-lines",
    trigger=r"^(?:(?:mcelog(?:\[\d+\])?: )?Hardware event\. This is not a software error|\[Hardware Error\]: (?P<fatal>Uncorrected, software |System Fatal error))",
    reads=LOGS,
    example=Example(
        given=(
            "Hardware event. This is not a software error.",
            "MCE 0",
            "CPU 20 BANK 9 TSC 1f2e3d4c5b6a",
            "MCi status:",
            "Uncorrected error",
            "MCA: MEMORY CONTROLLER RD_CHANNEL0_ERR",
        ),
        expect=("mem.edac_ue",),
        quiet=(
            "Hardware event. This is not a software error.",
            "MCE 0",
            "MCi status:",
            "Corrected error",
            "MCA: MEMORY CONTROLLER MS_CHANNEL1_ERR",
        ),
    ),
)
def machine_check_decoded_in_lines(fields: Mapping[str, str], _line: str) -> Lines:
    """Both mcelog and AMD's decoder say in one line that an error was not corrected, and lines below which part it was of."""
    return _Record(bool(fields.get("fatal")))


@filter_rule(
    name="machine-check-of-a-memory-module",
    stage="MID",
    example=Example(
        given=(event("cpu.mce_uc", "n1", time=5.0), event("mem.edac_ue", "n1", time=5.5)),
        expect=("demote cpu.mce_uc",),
        quiet=(event("cpu.mce_uc", "n1", time=5.0), event("mem.edac_ue", "n1", time=90.0)),
    ),
)
def machine_check_of_a_memory_module(view: View) -> Iterable[Change]:
    """The kernel prints the machine check first, and the memory controller's driver names the module a moment later."""
    for check in view.of("cpu.mce_uc"):
        for memory in view.of("mem.edac_ue"):
            near = check.time is None or memory.time is None or abs(memory.time - check.time) <= SAME_FAULT
            if memory.node == check.node and memory.clock == check.clock and near:
                yield Demote(event=check.id, reason="the memory controller names this error as its own", by=memory.id)
                break
