"""How long one start of the EpilogSlurmctld hook takes, alone and 64 at a time.

python benchmarks/bench_hook.py [--starts 10000] [--at-once 64] [--hook PATH]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

HOOK = Path(__file__).resolve().parents[1] / "slurm" / "epilog.d" / "sattrib"

# What Slurm 24.11 gives for a small job.
ENVIRONMENT = {
    "SLURM_SCRIPT_CONTEXT": "epilog_slurmctld",
    "SLURM_CLUSTER_NAME": "test",
    "SLURM_JOB_ID": "4711",
    "SLURM_JOBID": "4711",
    "SLURM_JOB_ACCOUNT": "research",
    "SLURM_JOB_COMMENT": "a comment of a user",
    "SLURM_JOB_CPUS_PER_NODE": "4(x64)",
    "SLURM_JOB_DERIVED_EC": "0",
    "SLURM_JOB_END_TIME": "1764426000",
    "SLURM_JOB_EXIT_CODE": "256",
    "SLURM_JOB_EXIT_CODE2": "1:0",
    "SLURM_JOB_GID": "2001",
    "SLURM_JOB_GROUP": "alice",
    "SLURM_JOB_NAME": "train-7b",
    "SLURM_JOB_NODELIST": "node-[001-064]",
    "SLURM_JOB_NUM_NODES": "64",
    "SLURM_JOB_PARTITION": "main",
    "SLURM_JOB_RESTART_COUNT": "0",
    "SLURM_JOB_START_TIME": "1764420000",
    "SLURM_JOB_STDERR": "/shared/alice/job-%j.out",
    "SLURM_JOB_STDIN": "/dev/null",
    "SLURM_JOB_STDOUT": "/shared/alice/job-%j.out",
    "SLURM_JOB_UID": "2001",
    "SLURM_JOB_USER": "alice",
    "SLURM_JOB_WORK_DIR": "/shared/alice",
}


def start(hook: Path, spool: Path) -> int:
    return os.posix_spawn("/bin/sh", ["sh", str(hook), str(spool)], ENVIRONMENT)


def measure(hook: Path, spool: Path, starts: int, at_once: int) -> tuple[list[float], float]:
    """Milliseconds of each start, and of the whole run."""
    began: dict[int, float] = {}
    took: list[float] = []
    first = time.perf_counter()
    left = starts
    while left or began:
        while left and len(began) < at_once:
            now = time.perf_counter()
            began[start(hook, spool)] = now
            left -= 1
        pid, status = os.waitpid(-1, 0)
        took.append((time.perf_counter() - began.pop(pid)) * 1000)
        if status != 0:
            raise SystemExit(f"the hook ended with wait status {status}")
    return took, (time.perf_counter() - first) * 1000


def report(name: str, hook: Path, starts: int, at_once: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="bench-hook-") as folder:
        took, whole = measure(hook, Path(folder), starts, at_once)
        records = sum(entry.name.endswith(".env") for entry in os.scandir(folder))
    worst = statistics.quantiles(took, n=100)[98]
    print(f"{name:<14}{starts:>8}{records:>9}{whole / starts:>12.2f}{statistics.median(took):>12.2f}{worst:>10.2f}")
    return records == starts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--hook", type=Path, default=HOOK)
    options = parser.parse_args()
    print(f"{'milliseconds':<14}{'starts':>8}{'records':>9}{'run/starts':>12}{'median':>12}{'p99':>10}")
    alone = report("one at a time", options.hook, min(options.starts, 1000), 1)
    crowd = report(f"{options.at_once} at a time", options.hook, options.starts, options.at_once)
    return 0 if alone and crowd else 1


if __name__ == "__main__":
    raise SystemExit(main())
