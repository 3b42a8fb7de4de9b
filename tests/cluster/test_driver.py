"""Where docker can't run, that is said aloud, once, and nothing passes silently."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import CANNOT_RUN, DRIVER

HERE = Path(__file__).parent
TOOLS = ("bash", "readlink", "dirname", "sed", "cat", "head", "mkdir", "flock")


@pytest.fixture
def no_docker(tmp_path: Path) -> dict[str, str]:
    """An environment in which there is no docker, and nothing to install it with."""
    for tool in TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool) or f"/missing/{tool}")
    return {"PATH": str(tmp_path), "HOME": str(tmp_path), "SATTRIB_CLUSTER_DIR": str(tmp_path / "state")}


def test_the_doctor_says_in_one_line_why_not(no_docker: dict[str, str]) -> None:
    for verb in ("doctor", "up"):
        done = subprocess.run([str(DRIVER), verb], env=no_docker, capture_output=True, text=True, check=False)
        assert done.returncode == CANNOT_RUN
        assert done.stdout == ""
        assert done.stderr.startswith("cluster: docker can't run here: ")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("required", [False, True])
def test_the_cluster_tests_are_skipped_aloud(no_docker: dict[str, str], required: bool) -> None:
    env = {**no_docker, "SATTRIB_CLUSTER_REQUIRED": "1"} if required else no_docker
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(HERE / "test_cluster.py")]
    done = subprocess.run(argv, env={**env, "LANG": os.environ.get("LANG", "C")}, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if required else 0)
    assert "CLUSTER TESTS DID NOT RUN: cluster: docker can't run here: " in done.stdout


def test_an_unknown_version_is_refused() -> None:
    done = subprocess.run([str(DRIVER), "up", "SLURM=21.08"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "22.05, 24.11 or 26.05" in done.stderr
