"""An oops says some lines below its first one in which module the kernel was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import re2

from attribution.rule import Accumulated, Example, Lines, accumulator

KERNEL = ("kern", "dmesg", "syslog", "journal")
_WHERE = re2.compile(
    r"(?:^|[ \]])(?:RIP: (?:[0-9a-f]{4}:)?|pc : |NIP \[[0-9a-f]+\] )\S+\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(?P<module>\w+)[^\]]*\])?"
)
GPU = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem", "gdrdrv", "amdgpu", "i915", "xe", "habanalabs")
FAR = 60


class _Oops:
    """The lines from the first one to the one that names the place."""

    def __init__(self) -> None:
        self.lines = 0
        self.module = ""

    def feed(self, text: str) -> bool:
        self.lines += 1
        found = _WHERE.search(text)
        if found is not None:
            self.module = found["module"] or ""
            return False
        return self.lines < FAR

    def result(self) -> Iterable[Accumulated]:
        if self.module in GPU:
            yield Accumulated(symptom="krn.oops_gpu", fields={"in": self.module})


@accumulator(
    name="oops-in-a-gpu-driver",
    trigger=r"^(?:BUG: unable to handle|BUG: kernel NULL pointer|Unable to handle kernel|general protection fault, probably|Oops: general protection)",
    reads=KERNEL,
    example=Example(
        given=(
            "BUG: kernel NULL pointer dereference, address: 00000000000000a8",
            "Oops: 0000 [#1] SMP NOPTI",
            "CPU: 3 PID: 811 Comm: python Tainted: P           OE     6.8.0-40-generic #40-Ubuntu",
            "RIP: 0010:uvm_hmm_unregister_gpu+0x51/0x3a0 [nvidia_uvm]",
        ),
        expect=("krn.oops_gpu",),
        quiet=(
            "BUG: kernel NULL pointer dereference, address: 00000000000000a8",
            "RIP: 0010:ext4_writepages+0x51/0x3a0 [ext4]",
        ),
    ),
)
def oops_in_a_gpu_driver(_fields: Mapping[str, str], _line: str) -> Lines:
    """A bad pointer inside the GPU's driver is a bug of that driver, or of how it fits the kernel."""
    return _Oops()
