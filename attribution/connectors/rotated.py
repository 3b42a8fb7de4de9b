"""A log and what logrotate made of it, as one stream of the lines in a window."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from attribution.connectors.span import SLACK, Counted, Span, Times, Window, find_span
from attribution.model import CoverageState

BLOCK = 1 << 20
MOST_FILES = 400
# A compressed file can't be entered in the middle: this many bytes of it are decompressed at most.
MOST_UNPACKED = 8 << 30
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_SUFFIX = re.compile(
    r"(?:[.-](?:\d{1,4}|\d{8}(?:[-_T]?\d{1,10})?|\d{4}-\d\d-\d\d(?:[-_T]\d\d[\d:-]{0,6})?|\d{10}))?(?:\.(gz|xz|bz2))?"
)
UNPACK: dict[str, Any] = {"gz": gzip.open, "xz": lzma.open, "bz2": bz2.open}


class NotReadError(Exception):
    """A log that can't be read: the state of its coverage, and the reason."""

    def __init__(self, state: CoverageState, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


class Member:
    """One file of the log, open. `packed` is its compression, or nothing."""

    def __init__(self, path: Path, fd: int, state: os.stat_result, packed: str) -> None:
        self.path, self.fd, self.size, self.mtime, self.packed = path, fd, state.st_size, state.st_mtime, packed
        self.identity = (state.st_dev, state.st_ino)


class Log:
    """Reads a log with its rotated files. `close` it. Raises NotReadError where nothing of it can be read."""

    def __init__(self, path: str, window: Window, limit: int) -> None:
        self.window, self._left, self.path = window, limit, path
        self.notes: list[str] = []
        self.complete = True
        self.read_bytes = 0
        # Where the log ends: a log that ends before the window says nothing of it.
        self.last: float | None = None
        self.dated = False
        self._members = self._open(Path(path))

    def close(self) -> None:
        """Close what is open."""
        for member in self._members:
            os.close(member.fd)
        self._members = []

    def _open(self, path: Path) -> list[Member]:
        problems: list[NotReadError] = []
        found: dict[tuple[int, int], Member] = {}
        for name, packed in self._names(path):
            try:
                member = _member(path.with_name(name), packed)
            except NotReadError as problem:
                problems.append(problem)
                continue
            if member.identity in found:
                os.close(member.fd)
            else:
                found[member.identity] = member
        if not found:
            raise problems[0] if problems else NotReadError("unreachable", f"{path}: no such file")
        if problems:
            self.complete = False
            self.notes += [p.reason for p in problems]
        return sorted(found.values(), key=lambda m: (m.mtime, m.path.name == path.name, str(m.path)))

    def _names(self, path: Path) -> list[tuple[str, str]]:
        """The log itself and its rotated files that were written to since the window began."""
        names = [(path.name, "")]
        try:
            with os.scandir(path.parent) as entries:
                for entry in entries:
                    match = _SUFFIX.fullmatch(entry.name[len(path.name) :]) if entry.name.startswith(path.name) else None
                    if match is not None and entry.name != path.name and self._recent(entry):
                        names.append((entry.name, match[1] or ""))
        except FileNotFoundError:
            raise NotReadError("unreachable", f"{path}: no such file") from None
        except OSError as problem:
            raise NotReadError("denied", f"{path.parent}: {problem.strerror}") from None
        if len(names) > MOST_FILES:
            self.complete = False
            self.notes.append(f"only {MOST_FILES} of {len(names)} rotated files were looked at")
        return sorted(names)[:MOST_FILES]

    def _recent(self, entry: os.DirEntry[str]) -> bool:
        try:
            return self.window.start is None or entry.stat().st_mtime >= self.window.start - SLACK
        except OSError:
            return True

    # ---- reading ----------------------------------------------------------------------------------------------------

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the window, oldest file first; each file ends with a line's end."""
        for member, span in self._spans():
            ended = True
            try:
                for piece in self._unpacked(member) if member.packed else self._plain(member, span):
                    self.read_bytes += len(piece)
                    ended = piece.endswith(b"\n")
                    yield piece
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
                # A broken archive must not hide the log of today.
                self.complete = False
                self.notes.append(f"{member.path}: reading stopped: {problem}")
            if not ended:
                yield b"\n"

    def _spans(self) -> list[tuple[Member, Span]]:
        """What to read of each file; where it is more than the limit, the latest of it."""
        found: list[tuple[Member, Span]] = []
        for member in reversed(self._members):
            if member.packed:
                found.append((member, Span(0, member.size, dated=False)))
                continue
            read = Counted(member.fd)
            span = find_span(read, member.size, Times(self.window.zone, member.mtime), self.window)
            self.dated = self.dated or span.dated
            self.last = max((t for t in (self.last, span.last) if t is not None), default=None)
            length = span.stop - span.begin
            if length > self._left:
                self._note_cut(member, length - self._left)
                span = Span(span.stop - self._left, span.stop, dated=span.dated)
            self._left -= span.stop - span.begin
            found.append((member, span))
        return found[::-1]

    def _note_cut(self, member: Member, missing: int) -> None:
        self.complete = False
        self.notes.append(f"{member.path}: the first {missing} bytes of the window were not read (collect.max_mb)")

    def _plain(self, member: Member, span: Span) -> Iterator[bytes]:
        at = span.begin
        while at < span.stop and (piece := os.pread(member.fd, min(BLOCK, span.stop - at), at)):
            at += len(piece)
            yield piece

    def _unpacked(self, member: Member) -> Iterator[bytes]:
        """The window of a compressed file: what is before it is unpacked and dropped."""
        times, left, seen = Times(self.window.zone, member.mtime), self._left, 0
        start, end = self.window.start, self.window.end
        with os.fdopen(os.dup(member.fd), "rb") as raw, UNPACK[member.packed](raw) as file:
            for piece in _pieces(file):
                seen += len(piece)
                first, last = times.of(piece), times.of(piece, reverse=True)
                self.last = max((t for t in (self.last, last) if t is not None), default=None)
                self.dated = self.dated or last is not None
                if start is not None and last is not None and last < start - SLACK:
                    continue
                if (end is not None and first is not None and first > end + SLACK) or left <= 0 or seen > MOST_UNPACKED:
                    if left <= 0 or seen > MOST_UNPACKED:
                        self.complete = False
                        self.notes.append(f"{member.path}: not read to its end (collect.max_mb)")
                    return
                left -= len(piece)
                self._left = max(0, left)
                yield piece


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(BLOCK):
        yield piece + file.readline(BLOCK)


def _member(path: Path, packed: str) -> Member:
    """Links are followed: the configuration names these files, and logs of the day are often links."""
    try:
        fd = os.open(path, FLAGS)
    except FileNotFoundError:
        raise NotReadError("unreachable", f"{path}: no such file") from None
    except OSError as problem:
        state: CoverageState = "denied" if isinstance(problem, PermissionError) else "unreachable"
        raise NotReadError(state, f"{path}: {problem.strerror}") from None
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise NotReadError("denied", f"{path}: is no regular file")
    return Member(path, fd, found, packed)
