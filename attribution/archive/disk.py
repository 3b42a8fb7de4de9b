"""Where a SQLite file may live: on a disk of this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

from attribution.errors import ConfigError

# SQLite's locks do not hold here, or only sometimes: an archive would be damaged in silence.
_REFUSED = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone"})
# Locks hold, but the shared memory of a write-ahead log does not reach other machines.
_NO_WAL = frozenset(
    {"lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "glusterfs", "fuse.glusterfs", "9p", "virtiofs", "ocfs2", "gfs2"}
)
_MOUNTS = Path("/proc/self/mounts")


def filesystem(path: Path, mounts: str) -> str:
    """The type of the file system that holds `path` (absolute, links resolved), by the text of /proc/mounts; empty if unknown."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[1])
        inside = path == Path(point) or Path(point) in path.parents
        # The last mount on a point is the one in use.
        if inside and len(point) >= best:
            best, kind = len(point), fields[2]
    return kind


def allows_wal(file: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether a write-ahead log works beside `file`.

    Raises ConfigError where SQLite would not be safe at all.
    """
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return True
    kind = filesystem(Path(os.path.realpath(file.parent)), text)
    if kind in _REFUSED:
        raise ConfigError(f"is on a network file system ({kind}), where SQLite loses data: choose a local disk", str(file))
    return kind not in _NO_WAL


def create(file: Path) -> bool:
    """Make `file`, empty, mode 0640, if there is none; whether it was made.

    Raises ConfigError where the directory is missing or may not be written.
    """
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o640)
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise ConfigError("no such directory: create it, or name another file", str(file.parent)) from None
    except OSError as error:
        raise ConfigError(f"can't be created ({error.strerror}): choose another directory", str(file)) from None
    try:
        os.fchmod(descriptor, 0o640)
    finally:
        os.close(descriptor)
    return True
