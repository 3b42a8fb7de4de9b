"""What systemd is told, by datagrams to its socket; without systemd nothing happens."""

from __future__ import annotations

import contextlib
import os
import socket


class Notify:
    """sd_notify(3). `watchdog` is how often, in seconds, a sign of life is expected; None: never."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self.watchdog: float | None = None
        usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
        if self._address and usec.isdigit() and int(usec) > 0 and pid in ("", str(os.getpid())):
            self.watchdog = int(usec) / 1e6

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={' '.join(text.split())}")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            # A systemd that is slow to read must not hold the worker.
            sender.setblocking(False)
            sender.sendto(text.encode(), address)
