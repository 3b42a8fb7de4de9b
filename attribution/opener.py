"""sattrib-open: opens one file as the job's owner and hands the descriptor over. The only part that has root's rights.

One request a connection: `{"uid": 1000, "path": "/home/ann/out"}` and a newline. The answer is `{"ok": true}` with the
descriptor (SCM_RIGHTS), or `{"error": WORD, "reason": TEXT}`. The parent accepts and forks, nothing else: names, paths and
file systems are touched only by a child that has a time limit, and files opened only after it has become the owner.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import pwd
import select
import signal
import socket
import stat
import struct
import sys
import time
from pathlib import Path

# Regular files there are made by the kernel: reading them can act, or never end.
KERNEL = ("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "pstore",
          "bpf", "efivarfs", "mqueue", "fusectl", "binfmt_misc", "selinuxfs", "rpc_pipefs", "nsfs", "nfsd")  # fmt: skip
WORDS = {errno.EACCES: "denied", errno.EPERM: "denied", errno.ELOOP: "denied", errno.ENOENT: "missing", errno.ENOTDIR: "missing",
         errno.ENXIO: "not_regular"}  # fmt: skip


class RefusedError(Exception):
    """Nothing is handed over. Its arguments: a word for the caller's program, a reason for people."""


def open_regular(path: str, refused: frozenset[int] = frozenset()) -> int:
    """Open `path` with this process's rights; `refused` are device numbers (st_dev). Raises RefusedError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as problem:
        reason = "is a symbolic link" if problem.errno == errno.ELOOP else problem.strerror or str(problem)
        raise RefusedError(WORDS.get(problem.errno or 0, "failed"), reason) from None
    state = os.fstat(fd)
    if not stat.S_ISREG(state.st_mode) or state.st_dev in refused:
        os.close(fd)
        raise RefusedError("not_regular", "is no regular file on a real file system")
    return fd


def kernel_devices() -> frozenset[int]:
    """Device numbers of the mounted file systems that hold no real files."""
    rows = (line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines())
    numbers = (before.split(" ")[2].split(":") for before, _, after in rows if after.split(" ", 1)[0] in KERNEL)
    return frozenset(os.makedev(int(major), int(minor)) for major, minor in numbers)


def _request(connection: socket.socket) -> tuple[int, str]:
    text = b""
    while b"\n" not in text and len(text) <= 65536 and (piece := connection.recv(8192)):
        text += piece
    try:
        uid, path = (json.loads(text)[key] for key in ("uid", "path"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RefusedError("bad_request", "give one line of JSON with uid and path") from None
    if type(uid) is not int or not 0 <= uid < 2**32 or not isinstance(path, str) or path[:1] != "/" or "\0" in path:
        raise RefusedError("bad_request", "uid is a number and path an absolute path")
    return uid, path


def become(uid: int, least: int, allowed: list[int]) -> None:
    """Give up everything but the rights of `uid`. Raises RefusedError for system users, unless `allowed` names them."""
    if uid not in allowed and (uid < max(least, 1) or uid in (65534, 2**32 - 1)):
        raise RefusedError("refused", f"uid {uid} is a system user's")
    try:
        person = pwd.getpwuid(uid)
    except KeyError:
        raise RefusedError("refused", f"uid {uid} is unknown here") from None
    os.initgroups(person.pw_name, person.pw_gid)
    os.setresgid(person.pw_gid, person.pw_gid, person.pw_gid)
    os.setresuid(uid, uid, uid)


def _answer(connection: socket.socket, args: argparse.Namespace) -> None:
    """The child: all that can wait or fail, under a time limit whose signal nothing catches."""
    signal.alarm(args.seconds)
    try:
        uid, path = _request(connection)
        refused = kernel_devices()
        become(uid, args.least_uid, args.allow_uid)
        fd = open_regular(path, refused)
        socket.send_fds(connection, [b'{"ok": true}\n'], [fd])
    except (RefusedError, OSError, ValueError) as why:
        word, reason = why.args if isinstance(why, RefusedError) else ("failed", str(why))
        connection.sendall(json.dumps({"error": word, "reason": reason}).encode() + b"\n")


def serve(listener: socket.socket, peers: tuple[int, ...], args: argparse.Namespace) -> None:
    """Accept until nobody has asked for `args.idle` seconds (0: for ever). `peers` are the uids that may ask."""
    children: dict[int, float] = {}
    listener.setblocking(False)
    asked = time.monotonic()
    while children or not args.idle or time.monotonic() - asked < args.idle:
        waiting = select.select([listener], [], [], 1.0)[0]
        for pid, began in list(children.items()):
            if time.monotonic() - began > args.seconds + 5:  # the owner may stop it, not keep it
                os.kill(pid, signal.SIGKILL)
            if os.waitpid(pid, os.WNOHANG)[0]:
                del children[pid]
        if not waiting:
            continue
        asked = time.monotonic()
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
            if uid not in peers or len(children) >= args.children:
                connection.send(b'{"error": "%s", "reason": "not taken"}\n' % (b"busy" if uid in peers else b"refused"))
                continue
            if (pid := os.fork()) == 0:  # noqa: TID251 - one thread, no exec, and proc.py is not the standard library
                try:
                    listener.close()
                    _answer(connection, args)
                finally:
                    os._exit(0)
            children[pid] = time.monotonic()


def main() -> None:
    """Run on systemd's socket (LISTEN_FDS), or on a socket made at --listen."""
    parser = argparse.ArgumentParser(prog="sattrib-open", description="Opens files of jobs as their owners, for sattrib.")
    parser.add_argument("--listen", help="make the socket here (without systemd)")
    parser.add_argument("--peer", default="sattrib", help="user that may ask, beside root")
    parser.add_argument("--least-uid", type=int, default=1000, help="smaller uids are refused")
    parser.add_argument("--allow-uid", type=int, action="append", default=[], help="a system uid that is not refused")
    for name, value, text in (("seconds", 20, "time limit of one request"), ("children", 64, "requests at once"),
                              ("idle", 300, "end after so many seconds without a request; 0: never")):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value, help=text)
    args = parser.parse_args()
    if args.listen:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(args.listen)
        listener.listen(64)
    elif (os.environ.get("LISTEN_PID"), os.environ.get("LISTEN_FDS")) == (str(os.getpid()), "1"):
        listener = socket.socket(fileno=3)
    else:
        sys.exit("sattrib-open: no socket: start sattrib-open.socket, or give --listen PATH")
    serve(listener, (0, int(args.peer) if args.peer.isdigit() else pwd.getpwnam(args.peer).pw_uid), args)


if __name__ == "__main__":
    main()
