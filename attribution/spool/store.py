"""Records as files: every change of state is one rename, so a crash at any moment loses and doubles nothing."""
# ruff: noqa: PTH102, PTH104, PTH108, PTH116, PTH208
# Which system calls happen, and in which order, is what this file is about; its tests stop at each of them.

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attribution.errors import ConfigError
from attribution.model import Frozen
from attribution.spool.record import Record, dump, parse
from attribution.spool.space import STOP

TRIES = 3
MAX_BYTES = 128 * 1024
STALE_SECONDS = 3600.0
CLAIMED, FAILED = "claimed", "failed"
WRITING, ASKING = ".tmp.", ".ask."
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.(env|ask)", re.ASCII)
KINDS: dict[str, Literal["end", "request"]] = {"env": "end", "ask": "request"}


class Claim(Frozen, frozen=True):
    """A record that was taken out of the queue. Work on it was begun `tries` times."""

    record: Record
    tries: int

    @property
    def file(self) -> str:
        return f"{self.record.name}.{self.tries}"


class Entry(Frozen, frozen=True):
    """One line of `sattrib spool list`. `why` is set for failed ones; `time` is epoch seconds, UTC."""

    state: Literal["waiting", "claimed", "failed"]
    name: str
    tries: int
    why: str
    size: int
    time: float


class NoRecordError(Exception):
    """A file that is no record; its text is why, as a part of a file name."""


class Spool:
    """The spool of one host, with one worker on it (the worker holds a lock of its own).

    All methods raise OSError where the directory can't be used at all.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.claimed = self.directory / CLAIMED
        self.failed = self.directory / FAILED

    def prepare(self) -> None:
        """Make what is missing inside the spool. Raises ConfigError where there is no spool."""
        if not self.directory.is_dir():
            raise ConfigError("the spool is not a directory", str(self.directory), "spool.dir")
        for path in (self.claimed, self.failed):
            if not path.is_dir():
                os.mkdir(path, 0o750)

    # ---- the queue ---------------------------------------------------------------------------------------------

    def waiting(self, limit: int = 10_000) -> list[str]:
        """Names of records, oldest first. What is in the spool and can't be a record goes to failed/."""
        found: list[tuple[float, str]] = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name in {CLAIMED, FAILED, STOP} or entry.name.startswith((WRITING, ASKING)):
                    continue
                if NAME.fullmatch(entry.name):
                    found.append((_mtime(entry), entry.name))
                else:
                    self._give_up(self.directory / entry.name, _safe(entry.name), "unknown-name")
        return [name for _, name in sorted(found)[:limit]]

    def claim(self, name: str) -> Claim | None:
        """Take a waiting record; None where it is gone or no record (then it is in failed/)."""
        try:
            os.rename(self.directory / name, self.claimed / f"{name}.0")
        except FileNotFoundError:
            return None
        return self._read_claimed(name, 0)

    def recover(self) -> list[Claim]:
        """What an earlier worker had claimed and not finished, oldest first. For the start of a worker."""
        found = []
        for file in sorted(os.listdir(self.claimed)):
            name, _, tries = file.rpartition(".")
            if not NAME.fullmatch(name) or not re.fullmatch(r"[0-9]{1,3}", tries, re.ASCII):
                self._give_up(self.claimed / file, _safe(file), "unknown-name")
            elif claim := self._read_claimed(name, int(tries)):
                found.append(claim)
        return sorted(found, key=lambda claim: (claim.record.time, claim.record.name))

    def begin(self, claim: Claim) -> Claim | None:
        """Count a try, before the work that could crash; None after three of them (the record is in failed/ then)."""
        if claim.tries >= TRIES:
            self.fail(claim, "worker-died")
            return None
        return self._renumber(claim, claim.tries + 1)

    def crashed(self, claim: Claim, signal: str, step: str) -> Claim | None:
        """Work on it died by `signal` in `step`; the claim for another try, or None after the third (failed/ says why)."""
        if claim.tries >= TRIES:
            self.fail(claim, f"{signal}-in-{step}")
            return None
        return claim

    def release(self, claim: Claim) -> Claim:
        """The work was stopped through no fault of the record: the try does not count. It stays claimed."""
        return self._renumber(claim, max(0, claim.tries - 1))

    def remove(self, claim: Claim) -> None:
        """It is in the archive: forget it."""
        os.unlink(self.claimed / claim.file)

    def fail(self, claim: Claim, why: str) -> None:
        """Move it to failed/; `why` becomes a part of its name there."""
        self._give_up(self.claimed / claim.file, claim.record.name, why)

    # ---- people ------------------------------------------------------------------------------------------------

    def request(self, values: Mapping[str, str]) -> str:
        """Put a request into the queue, e.g. {"ASK": "attribute", "JOB": "123_4"}; gives its name."""
        content = dump(values)
        name = str(uuid.uuid4())
        writing = self.directory / f"{ASKING}{name}"
        descriptor = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o640)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)
        os.rename(writing, self.directory / f"{name}.ask")
        return f"{name}.ask"

    def entries(self) -> list[Entry]:
        """Everything in the spool, by state, then age."""
        found: list[Entry] = []
        with os.scandir(self.directory) as files:
            found += [_entry("waiting", file, file.name, 0, "") for file in files if NAME.fullmatch(file.name)]
        with os.scandir(self.claimed) as files:
            for file in files:
                name, _, tries = file.name.rpartition(".")
                found.append(_entry("claimed", file, name, int(tries) if tries.isdecimal() else 0, ""))
        with os.scandir(self.failed) as files:
            for file in files:
                match = NAME.match(file.name)
                name = match[0] if match else file.name
                found.append(_entry("failed", file, name, 0, file.name[len(name) + 1 :]))
        states = ("waiting", "claimed", "failed")
        return sorted(found, key=lambda entry: (states.index(entry.state), entry.time, entry.name))

    def retry(self, name: str) -> None:
        """Put a failed record back into the queue, with all its tries. Raises ConfigError where it is not there."""
        for file in sorted(os.listdir(self.failed)):
            if NAME.fullmatch(name) and file.startswith(f"{name}."):
                os.rename(self.failed / file, self.directory / name)
                return
        raise ConfigError("no such failed record; see: sattrib spool list", str(self.failed), name)

    # ---- upkeep ------------------------------------------------------------------------------------------------

    def clean(self, now: float) -> int:
        """Deal with files that were being written an hour ago or longer; gives how many.

        The hook was killed over a `.tmp.` file: with at least one complete variable it is a record that was cut.
        """
        count = 0
        for file in sorted(os.listdir(self.directory)):
            path = self.directory / file
            if not file.startswith((WRITING, ASKING)) or _age(path, now) < STALE_SECONDS:
                continue
            count += 1
            try:
                content, _ = self._read(path)
            except NoRecordError as why:
                self._give_up(path, _safe(file), str(why))
                continue
            if file.startswith(WRITING) and parse(content)[0]:
                os.rename(path, self.directory / f"{_safe(file)}.env")
            else:
                os.unlink(path)
        return count

    # ---- files -------------------------------------------------------------------------------------------------

    def _read_claimed(self, name: str, tries: int) -> Claim | None:
        path = self.claimed / f"{name}.{tries}"
        try:
            content, time = self._read(path)
        except NoRecordError as why:
            self._give_up(path, name, str(why))
            return None
        values, complete = parse(content)
        kind = KINDS[name.rpartition(".")[2]]
        return Claim(record=Record(name=name, kind=kind, values=values, complete=complete, time=time), tries=tries)

    def _read(self, path: Path) -> tuple[bytes, float]:
        """Content and mtime of a regular file of SlurmUser (who owns the spool), root or ourselves. Raises NoRecordError."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            raise NoRecordError("link" if path.is_symlink() else f"unreadable-{problem.strerror}") from None
        try:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise NoRecordError("no-regular-file")
            if state.st_uid not in {0, os.geteuid(), os.stat(self.directory).st_uid}:
                raise NoRecordError("foreign-owner")
            if state.st_nlink != 1:
                raise NoRecordError("hard-link")
            content = os.read(descriptor, MAX_BYTES + 1)
            if state.st_size > MAX_BYTES or len(content) > MAX_BYTES:
                raise NoRecordError("too-large")
            return content, state.st_mtime
        finally:
            os.close(descriptor)

    def _renumber(self, claim: Claim, tries: int) -> Claim:
        after = Claim(record=claim.record, tries=tries)
        if after.file != claim.file:
            os.rename(self.claimed / claim.file, self.claimed / after.file)
        return after

    def _give_up(self, path: Path, name: str, why: str) -> None:
        slug = re.sub(r"[^a-z0-9]+", "-", why.lower()).strip("-")[:80] or "unknown"
        target, count = self.failed / f"{name}.{slug}", 1
        while os.path.lexists(target):
            count += 1
            target = self.failed / f"{name}.{slug}-{count}"
        with contextlib.suppress(FileNotFoundError):  # a person was faster
            os.rename(path, target)


def _age(path: Path, now: float) -> float:
    try:
        return now - os.lstat(path).st_mtime
    except FileNotFoundError:  # the hook has just finished it
        return 0.0


def _entry(state: Literal["waiting", "claimed", "failed"], file: os.DirEntry[str], name: str, tries: int, why: str) -> Entry:
    known = file.stat(follow_symlinks=False)
    return Entry(state=state, name=name, tries=tries, why=why, size=known.st_size, time=known.st_mtime)


def _mtime(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return 0.0


def _safe(name: str) -> str:
    """A name that is safe to show, and still another one for every other file."""
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:12]
    return (re.sub(r"[^A-Za-z0-9_-]", "-", name).lstrip("-_")[:60] or "file") + "-" + digest
