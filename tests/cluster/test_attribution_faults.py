"""What breaks: devices, nodes, the worker itself. After the ordinary ends, since it leaves traces on the nodes."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from harness import CONTROLLER, wait_until
from live import Live, place

pytestmark = pytest.mark.cluster

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
BOOT = "Linux version 6.8.0-45-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-13) #45-Ubuntu SMP PREEMPT_DYNAMIC"
NCCL = """srun -N2 sh -c '
echo "$SLURMD_NODENAME:4242:4301 [0] NCCL INFO Channel 00/02 : 0 1"
sleep 6
echo "$SLURMD_NODENAME:4242:4301 [0] NCCL WARN [Service thread] Connection closed by localRank 0"
echo "[rank$SLURM_PROCID]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, unhandled cuda error"
exit 1'
"""
PLAIN = """python3 -c 'raise FileNotFoundError("/data/train.bin")'"""


def cause(found: dict[str, object]) -> tuple[object, ...]:
    return place(found), tuple(found["responsible_nodes"])


def test_a_device_error_on_one_of_two_nodes(live: Live) -> None:
    cluster = live.cluster
    job = cluster.sbatch("alice", NCCL, "-w", "node-01,node-02", "-N2", "--mem=60")
    cluster.wait_state(job, ["RUNNING"])
    time.sleep(2)
    cluster.kernel_line("node-02", XID)
    found = live.verdict(job)
    assert (found["terminal_state"], found["domain"], found["responsible_nodes"]) == (
        "hardware_failure",
        "hardware",
        ["node-02"],
    )
    assert found["attempt"]["nodes"] == ["node-01", "node-02"]
    line = live.comment(job)
    assert line.startswith("sattrib:1 hardware_failure hardware/")
    assert " node-02 " in line


def test_a_device_error_before_the_start_with_a_boot_in_between_blames_nobody(live: Live) -> None:
    cluster = live.cluster
    cluster.kernel_line("node-03", XID)
    time.sleep(1.1)
    cluster.kernel_line("node-03", BOOT)
    time.sleep(1.1)
    job = cluster.sbatch("alice", NCCL, "-w", "node-01,node-03", "-N2", "--mem=60")
    found = live.verdict(job)
    assert found["responsible_nodes"] == []
    assert found["domain"] != "hardware"


def test_an_old_device_error_without_one_in_the_window_is_context(live: Live) -> None:
    """node-02 had its error in the first of these tests, and was not booted since."""
    cluster = live.cluster
    job = cluster.sbatch("alice", PLAIN, "-w", "node-02", "--mem=60")
    found = live.verdict(job)
    assert (found["domain"], found["responsible_nodes"]) == ("application", [])
    shown = [*found["interesting"], *found["demoted"]]
    assert any(one["nodes"] == ["node-02"] and "gpu" in one["symptom"] for one in shown)


def test_an_end_is_found_though_no_hook_is_configured(live: Live) -> None:
    cluster = live.cluster
    cluster.set_conf("EpilogSlurmctld")
    try:
        job = cluster.sbatch("bob", "exit 7", "--mem=60")
        found = live.verdict(job)
        assert found["attempt"]["exit_code"] == "7:0"
        assert live.comment(job).startswith("sattrib:1 ")
    finally:
        cluster.install_hook()


def test_a_worker_that_is_killed_loses_nothing_and_judges_nothing_twice(live: Live) -> None:
    cluster = live.cluster
    job = cluster.sbatch("bob", "exit $((SLURM_ARRAY_TASK_ID % 3))", "--array=1-40", "--mem=60")
    for _ in range(3):
        time.sleep(3)
        live.kill_worker("KILL")
        live.start_worker()
    cluster.wait_job(job)
    wait_until(lambda: len(live.verdicts(job)) == 40, 90, "40 verdicts")
    keys = {found["attempt"]["key"] for found in live.verdicts(job)}
    rows = [row for row in live.archive_rows() if row[0] in keys]
    assert [row[-1] for row in rows] == [1] * 40
    assert wait_until(lambda: not live.root("find /var/spool/sattrib -name '*.env.[0-9]'"), 30, "an empty spool")
    assert live.root("ls /var/spool/sattrib/failed") == ""


def test_two_hundred_jobs_at_once(live: Live) -> None:
    cluster = live.cluster
    before = len(live.archive_rows())
    job = cluster.sbatch("bob", "exit $((SLURM_ARRAY_TASK_ID % 2))", "--array=1-200", "--mem=60", "-o", "/dev/null")
    began = time.monotonic()
    cluster.wait_job(job, timeout=240)
    ended = time.monotonic()
    wait_until(lambda: len(live.archive_rows()) >= before + 200, 120, "200 verdicts")
    behind = time.monotonic() - ended
    print(f"200 jobs took {ended - began:.0f} s, their verdicts {behind:.0f} s more")

    # The status is written every few seconds only: what stands in sacct says when the worker is done.
    def lines() -> dict[str, int]:
        rows = cluster.sacct(job, ["State", "AdminComment"], "-X")
        return dict(Counter(f"{row['State']} {row['AdminComment'][:10]}".strip() for row in rows))

    expected = {"FAILED sattrib:1": 100, "COMPLETED": 100}
    wait_until(lambda: lines().get("FAILED sattrib:1") == 100, 60, "a line for every failed job")
    wait_until(lambda: " 0 behind" in live.sattrib("status").stdout, 60, "nothing owed")
    assert lines() == expected


def test_a_node_whose_prolog_fails(live: Live) -> None:
    cluster = live.cluster
    cluster.run(CONTROLLER, ["touch", "/shared/prolog-fails-on-node-03"])
    try:
        job = cluster.sbatch("alice", "true", "-w", "node-03", "--no-requeue", "--mem=60")
        found = live.verdict(job)
        assert place(found) == "launch_failure scheduler/prolog_failure"
        assert live.comment(job).startswith("sattrib:1 launch_failure scheduler/prolog_failure ")
    finally:
        cluster.run(CONTROLLER, ["rm", "-f", "/shared/prolog-fails-on-node-03"])
        cluster.run(CONTROLLER, ["scontrol", "update", "NodeName=node-03", "State=RESUME"], check=False)
    wait_until(lambda: cluster.is_back("node-03"), 60, "node-03")


def test_a_lost_node_and_the_attempt_after_it(live: Live) -> None:
    cluster = live.cluster
    script = "[ ${SLURM_RESTART_COUNT:-0} = 0 ] && sleep 600; echo again; exit 3"
    job = cluster.sbatch("alice", script, "-w", "node-03", "--requeue", "--mem=60")
    cluster.wait_state(job, ["RUNNING"])
    cluster.kill_node("node-03")
    try:
        cluster.wait_state(job, ["NODE_FAIL"], timeout=90)
    finally:
        cluster.start_node("node-03")
    lost = live.verdict(job, attempts=2, timeout=150)
    _, second = live.verdicts(job)
    assert (lost["attempt"]["state"], lost["terminal_state"]) == ("NODE_FAIL", "node_lost")
    assert lost["responsible_nodes"] == ["node-03"]
    assert second["attempt"]["exit_code"] == "3:0"
    assert second["responsible_nodes"] == []
    comments = [row["AdminComment"] for row in cluster.sacct(job, ["AdminComment"], "-X")]
    assert not any("node-03" in text for text in comments[1:])
    # Before 26.05 no command can write to an older attempt's row: the archive alone has its line.
    assert comments[0] == ""
