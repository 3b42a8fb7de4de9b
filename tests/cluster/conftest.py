"""One 24.11 cluster for all tests of a run; loud where docker can't run.

SATTRIB_CLUSTER_REQUIRED=1 makes "docker can't run" a failure, SATTRIB_CLUSTER_KEEP=1 leaves the
cluster up, SATTRIB_CLUSTER_LOGS is where logs go after a failure.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from harness import CannotRunHereError, Cluster, ClusterError

DEFAULT_VERSION = "24.11"


class Running:
    """The one cluster that is up: nodes of two versions would share the machine's cgroups."""

    def __init__(self) -> None:
        self.cluster: Cluster | None = None
        self.failed = False
        self.remarks: list[str] = []

    def switch_to(self, version: str) -> Cluster:
        if self.cluster is not None and self.cluster.version == version:
            return self.cluster
        self.stop()
        try:
            self.cluster = Cluster.up(version)
        except CannotRunHereError as error:
            self.remarks.append(f"CLUSTER TESTS DID NOT RUN: {error}")
            if os.environ.get("SATTRIB_CLUSTER_REQUIRED"):
                raise
            pytest.skip(str(error))
        except ClusterError:
            self.save_logs(Cluster(version))
            raise
        return self.cluster

    def stop(self) -> None:
        if self.cluster is None:
            return
        if self.failed:
            self.save_logs(self.cluster)
        if not os.environ.get("SATTRIB_CLUSTER_KEEP"):
            self.cluster.down()
        self.cluster = None
        self.failed = False

    def save_logs(self, cluster: Cluster) -> None:
        base = os.environ.get("SATTRIB_CLUSTER_LOGS") or tempfile.mkdtemp(prefix="sattrib-cluster-logs-")
        directory = Path(base) / cluster.version
        cluster.logs(directory)
        self.remarks.append(f"logs of the Slurm {cluster.version} cluster: {directory}")


RUNNING = Running()


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Running]:
    yield RUNNING
    RUNNING.stop()


@pytest.fixture
def cluster(running_cluster: Running) -> Cluster:
    """The 24.11 cluster, three idle nodes; started by the first test that asks."""
    return running_cluster.switch_to(DEFAULT_VERSION)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and item.get_closest_marker("cluster"):
        RUNNING.failed = True
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The other versions last, so that the cluster changes as seldom as possible."""
    items.sort(key=lambda item: item.get_closest_marker("versions") is not None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for remark in dict.fromkeys(RUNNING.remarks):
        terminalreporter.write_line(remark, red=True, bold=True)
