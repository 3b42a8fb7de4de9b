"""One 24.11 cluster for all tests of a run; loud where docker can't run.

SATTRIB_CLUSTER_REQUIRED=1 makes "docker can't run here" a failure, SATTRIB_CLUSTER_KEEP=1 leaves the
cluster up, SATTRIB_CLUSTER_LOGS is where logs go after a failure.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from harness import Cluster
from live import Live
from running import RUNNING, Running

DEFAULT_VERSION = "24.11"


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Running]:
    yield RUNNING
    RUNNING.end_of_run()


@pytest.fixture
def cluster(running_cluster: Running) -> Cluster:
    """The 24.11 cluster, three idle nodes; started by the first test that asks."""
    return running_cluster.switch_to(DEFAULT_VERSION)


@pytest.fixture(scope="module")
def live(running_cluster: Running) -> Iterator[Live]:
    """Sattrib at work on the 24.11 cluster, and gone again before tests that want the cluster bare."""
    found = Live(running_cluster.switch_to(DEFAULT_VERSION))
    found.start()
    yield found
    found.stop()


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
