"""The oldest and the newest Slurm: they come up and run jobs. Selected by `-m versions`."""

from __future__ import annotations

import pytest
from harness import CONTROLLER, NODES
from running import Running

pytestmark = [pytest.mark.cluster, pytest.mark.versions]


@pytest.mark.parametrize("version", ["22.05", "26.05"])
def test_another_version_comes_up_and_runs_jobs(running_cluster: Running, version: str) -> None:
    cluster = running_cluster.switch_to(version)
    assert cluster.run(CONTROLLER, ["sinfo", "-V"]).stdout.startswith(f"slurm-wlm {version}")
    done = cluster.run(CONTROLLER, ["srun", "-N3", "hostname"], user="alice")
    assert sorted(done.stdout.split()) == list(NODES)
    cluster.install_hook()
    job = cluster.sbatch("alice", "srun python3 -c 'bytearray(400 << 20)'", "--mem=100")
    states = {row["JobID"]: row["State"] for row in cluster.wait_job(job)}
    assert states == {job: "FAILED", f"{job}.batch": "FAILED", f"{job}.0": "OUT_OF_MEMORY"}
    records = cluster.run(CONTROLLER, ["sh", "-c", "cat /var/spool/sattrib/*.env"]).stdout
    assert f"SLURM_JOB_ID={job}\0" in records
