"""Which cluster is up during a run of the tests, and what the summary has to say about it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from harness import CannotRunHereError, Cluster, ClusterError


class Running:
    """The one cluster that is up: nodes of two versions would share the machine's cgroups."""

    def __init__(self) -> None:
        self.cluster: Cluster | None = None
        self.failed = False
        self.refused: ClusterError | None = None
        self.remarks: list[str] = []

    def switch_to(self, version: str) -> Cluster:
        if self.cluster is not None and self.cluster.version == version:
            return self.cluster
        self.stop()
        try:
            self.cluster = self._up(version)
        except CannotRunHereError as error:
            self.remarks.append(f"CLUSTER TESTS DID NOT RUN: {error}")
            if os.environ.get("SATTRIB_CLUSTER_REQUIRED"):
                raise
            pytest.skip(str(error))
        return self.cluster

    def _up(self, version: str) -> Cluster:
        # What failed once is not tried again by every test: each try can take minutes.
        if self.refused is not None:
            raise self.refused
        try:
            return Cluster.up(version)
        except CannotRunHereError as error:
            self.refused = error
            raise
        except ClusterError as error:
            self.refused = error
            self.save_logs(Cluster(version))
            raise

    def stop(self) -> None:
        """Takes the cluster down, and keeps its logs if a test failed on it."""
        if self.cluster is None:
            return
        if self.failed:
            self.save_logs(self.cluster)
        self.cluster.down()
        self.cluster = None
        self.failed = False

    def end_of_run(self) -> None:
        if self.cluster is None or not os.environ.get("SATTRIB_CLUSTER_KEEP"):
            self.stop()
        elif self.failed:
            self.save_logs(self.cluster)

    def save_logs(self, cluster: Cluster) -> None:
        base = os.environ.get("SATTRIB_CLUSTER_LOGS") or tempfile.mkdtemp(prefix="sattrib-cluster-logs-")
        directory = Path(base) / cluster.version
        cluster.logs(directory)
        self.remarks.append(f"logs of the Slurm {cluster.version} cluster: {directory}")


RUNNING = Running()
