"""The Slurm cluster in containers, as tests use it: run, submit, wait, break nodes."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

DRIVER = Path(__file__).with_name("cluster")
CONTROLLER = "controller"
NODES = ("node-01", "node-02", "node-03")
SEPARATOR = "\x1f"
CANNOT_RUN = 3
NOT_ENDED = ("PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED")

# As the kernel's own lines come: facility kern, which logger(1) refuses to send.
SEND_KERNEL_LINE = """
import socket, sys
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.connect("/dev/log")
log.send(b"<3>kernel: " + sys.stdin.buffer.read())
"""

Result = TypeVar("Result")
Done = subprocess.CompletedProcess[str]


class ClusterError(Exception):
    """A command in the cluster failed; the text has its output."""


class CannotRunHereError(ClusterError):
    """No docker can be had on this machine."""


def wait_until(predicate: Callable[[], Result], timeout: float, what: str) -> Result:
    """The first true answer of predicate; asks four times a second."""
    end = time.monotonic() + timeout
    while not (answer := predicate()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        time.sleep(0.25)
    return answer


def run_here(argv: Sequence[str], text: str | None = None, timeout: float = 120, check: bool = True) -> Done:
    # Without text, an empty input: a command must never read the terminal of the tests.
    done = subprocess.run(argv, input=text or "", capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode != 0:
        raise ClusterError(f"exit {done.returncode}: {shlex.join(argv)}\n{done.stdout}{done.stderr}")
    return done


def drive(verb: str, version: str, *arguments: str, timeout: float = 300) -> Done:
    """One subcommand of the driver script."""
    done = run_here([str(DRIVER), verb, f"SLURM={version}", *arguments], timeout=timeout, check=False)
    if done.returncode == CANNOT_RUN:
        raise CannotRunHereError(done.stderr.strip())
    if done.returncode != 0:
        raise ClusterError(f"cluster {verb}: exit {done.returncode}\n{done.stderr}")
    return done


@dataclass(frozen=True)
class Cluster:
    version: str

    @classmethod
    def up(cls, version: str) -> Cluster:
        # The first time also makes the base image and the image.
        drive("up", version, timeout=1200)
        return cls(version)

    def down(self) -> None:
        drive("down", self.version)

    def logs(self, directory: Path) -> None:
        drive("logs", self.version, str(directory))

    def container(self, node: str) -> str:
        return f"sattrib-{self.version.replace('.', '')}-{node}"

    def run(
        self,
        node: str,
        argv: Sequence[str],
        user: str | None = None,
        *,
        check: bool = True,
        text: str | None = None,
        timeout: float = 120,
    ) -> Done:
        """Runs a command in a container, as root or as a user, who starts in his own home."""
        options = ["-i"]
        if user is not None:
            options += ["-u", user]
        if user in ("alice", "bob"):
            options += ["-w", f"/shared/{user}"]
        return run_here(["docker", "exec", *options, self.container(node), *argv], text, timeout, check)

    def read_file(self, node: str, path: str) -> str:
        return self.run(node, ["cat", "--", path]).stdout

    def write_file(self, node: str, path: str, text: str, mode: str = "0644", owner: str = "root:root") -> None:
        script = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chown "$2" "$1" && chmod "$3" "$1"'
        self.run(node, ["sh", "-c", script, "sh", path, owner, mode], text=text)

    def sbatch(self, user: str, script: str, *args: str) -> str:
        """Submits a script; the id as sbatch prints it."""
        if not script.startswith("#!"):
            script = f"#!/bin/sh\n{script}\n"
        return self.run(CONTROLLER, ["sbatch", "--parsable", *args], user=user, text=script).stdout.strip()

    def sacct(self, jobid: str, fields: Sequence[str], *args: str) -> list[dict[str, str]]:
        """All rows of a job: every attempt (-D) with its steps, unless args say otherwise."""
        argv = ["sacct", "-D", "-n", "-P", f"--delimiter={SEPARATOR}", "-j", jobid, "-o", ",".join(fields), *args]
        lines = self.run(CONTROLLER, argv).stdout.splitlines()
        return [dict(zip(fields, line.split(SEPARATOR), strict=True)) for line in lines]

    def wait_state(self, jobid: str, states: Sequence[str], timeout: float = 60) -> None:
        """Until some attempt of the job is in one of these states, as accounting sees it."""

        def reached() -> bool:
            return any(row["State"].startswith(tuple(states)) for row in self.sacct(jobid, ["State"], "-X"))

        wait_until(reached, timeout, f"job {jobid} to be {' or '.join(states)}")

    def wait_job(self, jobid: str, timeout: float = 120) -> list[dict[str, str]]:
        """The rows of a job once it, and every attempt, task and step of it, has ended."""
        fields = ["JobID", "State", "ExitCode", "NodeList", "DBIndex", "End"]

        def ended() -> list[dict[str, str]]:
            rows = self.sacct(jobid, fields)
            over = all(not row["State"].startswith(NOT_ENDED) and row["End"] != "Unknown" for row in rows)
            return rows if over else []

        return wait_until(ended, timeout, f"job {jobid} to end")

    def set_conf(self, key: str, *values: str) -> None:
        """Sets a key of slurm.conf (no value: removes it) and restarts slurmctld."""
        verb = "set" if values else "unset"
        self.run(CONTROLLER, ["slurm-conf", verb, key, *values])

    def install_hook(self) -> None:
        self.run(CONTROLLER, ["install-hook"])

    def install_venv(self, extras: str = "") -> None:
        self.run(CONTROLLER, ["install-venv", extras], timeout=600)

    def service(self, node: str, verb: str, name: str) -> None:
        """start, stop or restart of munge, rsyslog, sshd, mariadb, slurmdbd, slurmctld, slurmd."""
        self.run(node, ["svc", verb, name])

    def node_state(self, node: str) -> str:
        return self.run(CONTROLLER, ["sinfo", "-h", "-p", "main", "-n", node, "-o", "%T"]).stdout.strip()

    def kill_node(self, node: str) -> None:
        """As a lost power supply does it: nothing on the node gets to say goodbye."""
        run_here(["docker", "kill", self.container(node)])

    def start_node(self, node: str, timeout: float = 60) -> None:
        run_here(["docker", "start", self.container(node)])
        wait_until(lambda: self.is_back(node), timeout, f"{node} to be back")

    def is_back(self, node: str) -> bool:
        if node == CONTROLLER:
            return "is UP" in self.run(CONTROLLER, ["scontrol", "ping"], check=False).stdout
        return self.node_state(node) in ("idle", "mixed", "allocated")

    def wait_saved(self, timeout: float = 30) -> None:
        """Until slurmctld has saved all it knows by now; killed earlier, it forgets the last seconds."""
        mark = f"saved-{time.time_ns()}"
        job = self.sbatch("bob", "true", "--hold", "-J", mark)
        saved = ["grep", "-q", mark, "/var/spool/slurmctld/job_state"]
        wait_until(lambda: self.run(CONTROLLER, saved, check=False).returncode == 0, timeout, "slurmctld to save its state")
        self.run(CONTROLLER, ["scancel", job])

    def kernel_line(self, node: str, text: str) -> None:
        """A line in the node's kern.log as its kernel would have written it (also in /nodelogs).

        node-01 and node-02 write `Nov 29 14:37:05 node-01 kernel: TEXT`, node-03 an ISO stamp.
        """
        self.run(node, ["python3", "-c", SEND_KERNEL_LINE], text=text)
        log = f"/nodelogs/{node}/kern.log"
        wait_until(lambda: text in self.read_file(CONTROLLER, log), 20, f"the line in {log}")
