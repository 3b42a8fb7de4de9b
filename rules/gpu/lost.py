"""A GPU that is lost while the driver loads: the driver says so over three lines and prints no XID."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Accumulated, Example, accumulator

MOST_LINES = 12


class ThreeLines:
    """Waits for the line that ends the sentence; other drivers' lines may stand between."""

    def __init__(self) -> None:
        self.left = MOST_LINES
        self.lost = False

    def feed(self, text: str) -> bool:
        if self.lost or self.left == 0:
            return False
        self.left -= 1
        body = text.strip()
        if body.startswith("NVRM: The NVIDIA GPU "):
            return False
        self.lost = body.startswith("NVRM:") and "fallen off the bus" in body
        return True

    def result(self) -> Iterable[Accumulated]:
        if self.lost:
            yield Accumulated(symptom="gpu.off_bus_no_xid")


@accumulator(
    name="gpu-lost-at-load",
    trigger=r"^NVRM: The NVIDIA GPU (?P<gpu>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s*$",
    reads=("kern", "dmesg", "syslog", "journal"),
    example=Example(
        given=(
            "NVRM: The NVIDIA GPU 0000:b3:00.0",
            "NVRM: (PCI ID: 10de:2330) installed in this system has",
            "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE",
            "NVRM: fallen off the bus and is not responding to commands.",
        ),
        expect=("gpu.off_bus_no_xid",),
        quiet=("NVRM: The NVIDIA GPU 0000:b3:00.0", "NVRM: (PCI ID: 10de:1234) installed in this system is not supported"),
    ),
)
def gpu_lost_at_load(fields: dict[str, str], line: str) -> ThreeLines:  # noqa: ARG001 - the trigger's groups stay with the event
    """Join the three records, and keep the GPU's address, which only the first one has."""
    return ThreeLines()
