"""sattrib at work on the cluster: hook, opener and worker on the controller, and what archive and sacct say of a job."""

from __future__ import annotations

import json
from typing import Any

from harness import CONTROLLER, Cluster, wait_until

BIN = "/opt/sattrib/venv/bin"
STATE = "/var/lib/sattrib"
CONFIG = """
[local]
slurmdbd_log = ""
nodes = { kern = ["/nodelogs/{node}/kern.log"] }
[collect]
sources = ["app", "slurmctld", "kern"]
policy = "POLICY"
[comment]
per_second = 20
COMMENT
[worker]
state_dir = "STATE"
settle_seconds = 2
poll_seconds = 5
catch_up_hours = 1
[archive]
url = "sqlite:///STATE/archive.db"
"""
# A file makes it fail on one node.
PROLOG = "#!/bin/sh\n[ ! -e /shared/prolog-fails-on-$SLURMD_NODENAME ]\n"
ROWS = """
import json, sys
from attribution.archive.open import open_archive
with open_archive(sys.argv[1], create=False) as archive:
    print(json.dumps([[r.attempt, r.job_id, r.state, r.verdict, r.domain, r.terminal_state, r.version] for r in archive.since(0)]))
"""


class Live:
    """Starts it all once; `verdict` and `comment` wait until there is one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def start(self) -> None:
        self.cluster.install_venv()
        self.configure("/etc/sattrib/sattrib.toml", STATE)
        self.open_log()
        self.cluster.write_file(CONTROLLER, "/shared/prolog.sh", PROLOG, "0755")
        self.cluster.set_conf("Prolog", "/shared/prolog.sh")
        self.cluster.install_hook()
        self.root(
            "mkdir -p /run/sattrib; rm -f /run/sattrib/open.sock; for n in 1 2 3; do : > /nodelogs/node-0$n/kern.log; done"
        )
        self.background(f"{BIN}/sattrib-open --listen /run/sattrib/open.sock --idle 0", "root", "open.log")
        self.root("for n in 1 2 3 4 5 6 7 8 9; do [ -S /run/sattrib/open.sock ] && break; sleep 0.3; done; "
                  "chgrp sattrib /run/sattrib/open.sock; chmod 660 /run/sattrib/open.sock")  # fmt: skip
        self.start_worker()

    def open_log(self) -> None:
        """At each start slurmctld gives its log to its own group, but leaves the mode: so user sattrib joins that group."""
        self.root("chmod 640 /var/log/slurm/slurmctld.log; usermod -a -G slurm sattrib")

    def stop(self) -> None:
        self.kill_worker("TERM")
        self.root("pkill -u root -f '^[^ ]*python3? [^ ]*/sattrib-open --listen'", check=False)
        self.cluster.set_conf("EpilogSlurmctld")
        self.cluster.set_conf("Prolog")

    def configure(self, file: str, state: str, policy: str = "failed", comment: str = "", more: str = "") -> None:
        text = CONFIG.replace("STATE", state).replace("POLICY", policy).replace("COMMENT", comment)
        self.cluster.write_file(CONTROLLER, file, text + more)

    def root(self, script: str, *, check: bool = True) -> str:
        return self.cluster.run(CONTROLLER, ["sh", "-c", script], check=check).stdout

    def background(self, command: str, user: str, log: str) -> None:
        self.root(f"setsid runuser -u {user} -- {command} > /tmp/{log} 2>&1 < /dev/null &")

    def start_worker(self) -> None:
        self.background(f"{BIN}/sattrib worker", "sattrib", "worker.log")
        wait_until(self.worker_pid, 20, "the worker")

    def worker_pid(self) -> str:
        return self.root(f"pgrep -u sattrib -o -f '^{BIN}/python3? {BIN}/sattrib worker$'", check=False).strip()

    def kill_worker(self, signal: str = "KILL") -> None:
        pid = self.worker_pid()
        if not pid:
            return
        self.root(f"kill -{signal} {pid}; while [ -e /proc/{pid} ]; do sleep 0.1; done")

    def sattrib(self, *words: str, user: str | None = None, check: bool = True) -> Any:
        return self.cluster.run(CONTROLLER, [f"{BIN}/sattrib", *words], user=user, check=check, timeout=300)

    def verdicts(self, job: str, archive: str = f"{STATE}/archive.db") -> list[dict[str, Any]]:
        """The verdict of every attempt of the job that is archived, the oldest first."""
        done = self.sattrib("show", job, "--archive", archive, "--json", user="sattrib", check=False)
        text, found = done.stdout.strip(), []
        while text:
            document, end = json.JSONDecoder().raw_decode(text)
            found.append(document)
            text = text[end:].lstrip()
        return found

    def verdict(self, job: str, attempts: int = 1, timeout: float = 90) -> dict[str, Any]:
        """The verdict of the oldest attempt, once so many have one."""
        return wait_until(lambda: (found := self.verdicts(job)) and len(found) >= attempts and found, timeout,
                          f"a verdict of job {job}")[0]  # fmt: skip

    def comment(self, job: str, timeout: float = 30) -> str:
        """AdminComment of the job's newest row, once there is one."""

        def now() -> str:
            return self.admin_comment(job)

        return wait_until(now, timeout, f"the line of job {job} in sacct")

    def admin_comment(self, job: str, field: str = "AdminComment") -> str:
        rows = self.cluster.sacct(job, ["JobID", field], "-X")
        return next((row[field] for row in reversed(rows) if row["JobID"] == job), "")

    def archive_rows(self) -> list[list[Any]]:
        """[key, job id, state, verdict, domain, terminal state, version] of every attempt in the archive."""
        argv = [f"{BIN}/python", "-c", ROWS, f"{STATE}/archive.db"]
        return list(json.loads(self.cluster.run(CONTROLLER, argv, user="sattrib").stdout))


def place(verdict: dict[str, Any]) -> str:
    """`application_failure application/import_error`."""
    return f"{verdict['terminal_state']} {verdict['domain']}/{verdict['sub_domain']}"


def coverage(verdict: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    """(state, reason) of the sources of a kind."""
    return [(one["state"], one["reason"]) for one in verdict["coverage"] if one["kind"] == kind]
