"""enroot by hand: it says what it unpacks, and then tar or mksquashfs speak in their own name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import re2

from attribution.rule import Accumulated, Example, Lines, accumulator

FULL = re2.compile(
    r"^(?:tar|cp|zstd|gzip|mkdir|mktemp|tee|find|mksquashfs|parallel): .{1,300}(?:No space left on device|Disk quota exceeded)"
)
AGAIN = re2.compile(r"^\[(?:INFO|WARN|ERROR)\] ")


class Unpacking:
    """The lines between one step of enroot and the next."""

    def __init__(self) -> None:
        self.full = ""

    def feed(self, text: str) -> bool:
        if not self.full and FULL.search(text):
            self.full = text
        return not self.full and not AGAIN.search(text)

    def result(self) -> Iterable[Accumulated]:
        if self.full:
            yield Accumulated(symptom="enroot.space", text=self.full)


@accumulator(
    name="enroot-unpacks-into-a-full-directory",
    trigger=r"^\[INFO\] (?:Extracting image (?:content|layers)|Extracting squashfs filesystem|Creating squashfs filesystem)",
    reads=("app",),
    needles=(
        "extracting image content",
        "extracting image layers",
        "extracting squashfs filesystem",
        "creating squashfs filesystem",
    ),
    example=Example(
        given=("[INFO] Extracting image content...", "tar: usr/lib/x.so: Cannot write: No space left on device"),
        expect=("enroot.space",),
        quiet=("[INFO] Extracting image content...", "[WARN] Image is old", "tar: x: Cannot write: No space left on device"),
    ),
)
def enroot_unpacks(_groups: Mapping[str, str], _line: str) -> Lines:
    """A tar that has no space is the import's only where enroot has just begun to unpack."""
    return Unpacking()
