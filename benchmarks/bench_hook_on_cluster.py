"""How long the EpilogSlurmctld hook takes at real job ends, on the cluster in containers.

tests/cluster/cluster up && python benchmarks/bench_hook_on_cluster.py [--ends 200] [--at-once 4]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "cluster"))

from harness import CONTROLLER, Cluster, drive, wait_until

TIMER = "/usr/local/sbin/time-the-hook"
TIMES = "/var/log/slurm/hook-times"
# Stands where the hook stands, starts it as slurmctld does, and notes its nanoseconds. In C:
# an interpreter that starts at each end would itself be most of the load.
TIMER_TEXT = """
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv, char **env)
{
    char *hook[] = {"/usr/libexec/sattrib/epilogslurmctld", NULL};
    struct timespec began, ended;
    int status = -1, times = open("/var/log/slurm/hook-times", O_WRONLY | O_CREAT | O_APPEND, 0644);
    pid_t pid;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (posix_spawn(&pid, hook[0], NULL, NULL, hook, env) == 0)
        waitpid(pid, &status, 0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    dprintf(times, "%lld %d\\n",
            (ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec, status);
    return 0;
}
"""


def measure(cluster: Cluster, ends: int, at_once: int) -> list[tuple[int, int]]:
    """Nanoseconds and wait status of the hook at each end of a job array."""
    cluster.run(CONTROLLER, ["rm", "-f", TIMES])
    cluster.install_hook()
    cluster.write_file(CONTROLLER, f"{TIMER}.c", TIMER_TEXT)
    cluster.run(CONTROLLER, ["gcc", "-O2", "-o", TIMER, f"{TIMER}.c"])
    cluster.set_conf("EpilogSlurmctld", TIMER)
    try:
        cluster.sbatch("alice", "true", f"--array=1-{ends}%{at_once}", "-o", "/dev/null")

        def all_there() -> list[str]:
            lines = cluster.run(CONTROLLER, ["cat", TIMES], check=False).stdout.splitlines()
            return lines if len(lines) >= ends else []

        lines = wait_until(all_there, 60 + 4 * ends, f"{ends} ends")
    finally:
        cluster.set_conf("EpilogSlurmctld")
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ends", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=4, help="jobs that run at the same time")
    parser.add_argument("--slurm", default="24.11")
    options = parser.parse_args()
    drive("up", options.slurm)
    measured = measure(Cluster(options.slurm), options.ends, options.at_once)
    took = sorted(nanoseconds / 1e6 for nanoseconds, _ in measured)
    failed = sum(status != 0 for _, status in measured)
    print(f"Slurm {options.slurm}: {len(took)} real ends, {options.at_once} at a time, {failed} not 0")
    print(f"median {statistics.median(took):.2f} ms, p99 {took[int(len(took) * 0.99) - 1]:.2f} ms, most {took[-1]:.2f} ms")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
