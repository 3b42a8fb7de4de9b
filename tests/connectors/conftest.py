from __future__ import annotations

from datetime import UTC, datetime

import pytest

from attribution import ruleset
from attribution.connectors.order import Order
from attribution.connectors.reader import carry_out

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC).timestamp()


RULES = """
schema = 1
[[symptom]]
id = "gpu.lost"
says = "a GPU was lost"
domain = "hardware"
sub_domain = "gpu_pcie"
role = "root"
rank = 10
advice = "rerun_without"
owner = "hw"
[[extractor]]
name = "gpu-lost"
match_re = "NVRM: Xid .*: 79,"
emit = { type = "bad_node", symptom = "gpu.lost" }
reads = ["any"]
match = ["NVRM: Xid (PCI:0000:3b:00): 79, x"]
no_match = ["NVRM: Xid (PCI:0000:3b:00): 7, x"]
"""


@pytest.fixture(scope="session")
def rule_dir(tmp_path_factory):
    """One rule that reads every kind of log: these tests are about which lines are read, not about what they mean."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "gpu.toml").write_text(RULES)
    return folder


@pytest.fixture(scope="session")
def rules(rule_dir):
    return ruleset.load(bundled=rule_dir, samples=False)


@pytest.fixture
def now():
    """The end of the attempt in these tests; it began an hour before."""
    return NOW


@pytest.fixture
def xid():
    """A kernel line at an offset from `now`: syslog, as a central rsyslog writes it."""
    return lambda at, more="": datetime.fromtimestamp(NOW + at, UTC).strftime("%b %e %H:%M:%S n1 kernel: ") + XID + more + "\n"


@pytest.fixture
def quiet():
    """A line that no rule wants."""
    return lambda at: datetime.fromtimestamp(NOW + at, UTC).strftime("%b %e %H:%M:%S n1 systemd[1]: all is well\n")


@pytest.fixture
def read(tmp_path, rules):
    """Carries out an order here and gives (answer, the text that was kept)."""

    def run(fd=None, **order):
        out = tmp_path / f"kept-{len(list(tmp_path.iterdir()))}"
        given = {"kind": "kern", "start": NOW - 4500, "end": NOW + 300, "began": NOW - 3600, "ended": NOW, "limit": 64 << 20}
        answer = carry_out(Order(out=str(out), **{**given, **order}), fd, rules)
        return answer, out.read_text(errors="replace") if out.exists() else None

    return run
