"""The cluster itself does what the other tests count on, with real Slurm."""

from __future__ import annotations

import pytest
from harness import CONTROLLER, NODES, Cluster, wait_until

pytestmark = pytest.mark.cluster

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
RECORDS = "/var/spool/sattrib"


def row(rows: list[dict[str, str]], jobid: str) -> dict[str, str]:
    (found,) = [row for row in rows if row["JobID"] == jobid]
    return found


@pytest.fixture(scope="module")
def jobs_over_time() -> dict[str, str]:
    return {}


@pytest.fixture(autouse=True)
def job_over_time(cluster: Cluster, jobs_over_time: dict[str, str]) -> str:
    """A job that runs into its limit of one minute: submitted first, looked at last."""
    if cluster.version not in jobs_over_time:
        jobs_over_time[cluster.version] = cluster.sbatch("bob", "sleep 600", "-t", "1", "-w", "node-03")
    return jobs_over_time[cluster.version]


def test_srun_reaches_every_node(cluster: Cluster) -> None:
    done = cluster.run(CONTROLLER, ["srun", "-N3", "hostname"], user="alice")
    assert sorted(done.stdout.split()) == list(NODES)


def test_accounting_has_a_row_and_the_output_is_on_the_shared_volume(cluster: Cluster) -> None:
    job = cluster.sbatch("alice", "echo said; exit 7", "-o", "seven-%j.out", "--comment", "a b")
    rows = cluster.wait_job(job)
    assert (row(rows, job)["State"], row(rows, job)["ExitCode"]) == ("FAILED", "7:0")
    assert int(row(rows, job)["DBIndex"]) > 0
    (more,) = cluster.sacct(job, ["User", "Account", "Comment"], "-X")
    assert more == {"User": "alice", "Account": "research", "Comment": "a b"}
    for place in (CONTROLLER, *NODES):
        assert cluster.read_file(place, f"/shared/alice/seven-{job}.out") == "said\n"


def test_a_step_that_takes_too_much_memory_is_killed(cluster: Cluster) -> None:
    eat = "srun python3 -c 'print(len(bytearray(400 << 20)))'"
    job = cluster.sbatch("alice", eat, "--mem=100")
    rows = cluster.wait_job(job)
    assert row(rows, f"{job}.0")["State"] == "OUT_OF_MEMORY"
    assert row(rows, f"{job}.0")["ExitCode"] == "0:125"


def test_the_controller_reads_the_logs_of_the_nodes(cluster: Cluster) -> None:
    for node in NODES:
        cluster.kernel_line(node, XID)
        central = cluster.run(CONTROLLER, ["tail", "-n1", f"/nodelogs/{node}/kern.log"], user="sattrib").stdout
        assert f" {node} kernel: {XID}\n" in central
        assert cluster.read_file(node, "/var/log/kern.log").endswith(central)
        by_ssh = cluster.run(CONTROLLER, ["ssh", "-oBatchMode=yes", node, "tail", "-n1", "/var/log/kern.log"], "sattrib")
        assert by_ssh.stdout == central


def test_the_hook_keeps_a_record_of_a_job_end(cluster: Cluster) -> None:
    cluster.install_hook()
    try:
        comment = 'a|b $(touch /tmp/evaluated) `id` "q" é'
        job = cluster.sbatch("alice", "true", "--comment", comment)
        cluster.wait_job(job)
        records = f"grep -l -z -x SLURM_JOB_ID={job} {RECORDS}/*.env"

        def written() -> str:
            return cluster.run(CONTROLLER, ["sh", "-c", records], check=False).stdout.strip()

        record = wait_until(written, 20, "a record")
        variables = cluster.read_file(CONTROLLER, record).split("\0")
        assert f"SLURM_JOB_COMMENT={comment}" in variables
        assert variables[-2:] == ["SATTRIB_END=1", ""]
        found = cluster.run(CONTROLLER, ["stat", "-c", "%U %G %a", record]).stdout
        assert found == "slurm sattrib 640\n"
    finally:
        cluster.set_conf("EpilogSlurmctld")


def test_the_hook_complains_once_about_a_lost_spool(cluster: Cluster) -> None:
    cluster.install_hook()
    cluster.run(CONTROLLER, ["mv", RECORDS, f"{RECORDS}.away"])
    try:
        job = cluster.sbatch("alice", "true")
        cluster.wait_job(job)

        def complaints() -> list[str]:
            lines = cluster.read_file(CONTROLLER, "/var/log/syslog").splitlines()
            return [line for line in lines if f"sattrib-hook: job {job}: not recorded" in line]

        assert len(wait_until(complaints, 20, "a line in syslog")) == 1
    finally:
        cluster.run(CONTROLLER, ["mv", f"{RECORDS}.away", RECORDS])
        cluster.set_conf("EpilogSlurmctld")


def test_a_killed_node_fails_its_job_which_runs_again(cluster: Cluster) -> None:
    job = cluster.sbatch("alice", "sleep $((SLURM_RESTART_COUNT ? 1 : 600))", "-w", "node-02", "--requeue")
    cluster.wait_state(job, ["RUNNING"])
    cluster.kill_node("node-02")
    try:
        cluster.wait_state(job, ["NODE_FAIL"], timeout=120)
    finally:
        cluster.start_node("node-02")
    cluster.wait_state(job, ["COMPLETED"], timeout=120)
    rows = cluster.wait_job(job)
    states = [row["State"] for row in rows if row["JobID"] == job]
    assert states == ["NODE_FAIL", "COMPLETED"]
    assert len({row["DBIndex"] for row in rows if row["JobID"] == job}) == 2


def test_a_job_lives_through_a_killed_controller(cluster: Cluster) -> None:
    job = cluster.sbatch("alice", "sleep 12")
    cluster.wait_state(job, ["RUNNING"])
    cluster.wait_saved()
    cluster.kill_node(CONTROLLER)
    cluster.start_node(CONTROLLER)
    rows = cluster.wait_job(job)
    assert [(found["JobID"], found["State"]) for found in rows] == [(job, "COMPLETED"), (f"{job}.batch", "COMPLETED")]


def test_a_job_over_its_limit_times_out(cluster: Cluster, job_over_time: str) -> None:
    rows = cluster.wait_job(job_over_time, timeout=180)
    assert row(rows, job_over_time)["State"] == "TIMEOUT"
