"""What is wrong with a bundle is said in one line; what is wrong with a source is coverage."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from attribution import pipeline, ruleset
from attribution.connectors.bundle import read_bundle
from attribution.errors import ConfigError

ATTEMPT = {
    "cluster": "c",
    "job_id": "1",
    "state": "FAILED",
    "exit_code": "1:0",
    "nodes": ["n1"],
    "start": "2026-01-01T00:00:00Z",
    "end": "2026-01-01T01:00:00Z",
}


@pytest.fixture(scope="module")
def rules():
    return ruleset.load()


def bundle(tmp_path: Path, attempt=None, sources=(), **more) -> Path:
    text = json.dumps({"schema": 1, "attempt": {**ATTEMPT, **(attempt or {})}, "sources": list(sources), **more})
    (tmp_path / "bundle.json").write_text(text)
    return tmp_path


def complaint(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_bundle(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert "bundle.json" in message or "directory" in message
    return message


def test_missing(tmp_path):
    assert "is missing" in complaint(tmp_path)
    assert "no directory" in complaint(tmp_path / "nowhere")


def test_not_json(tmp_path):
    (tmp_path / "bundle.json").write_text("{")
    assert "not valid JSON" in complaint(tmp_path)
    (tmp_path / "bundle.json").write_bytes(b"\xff\xfe")
    complaint(tmp_path)
    (tmp_path / "bundle.json").write_text("[" * 100_000)
    complaint(tmp_path)


@pytest.mark.parametrize(
    ("attempt", "key", "says"),
    [
        ({"state": "FAILD"}, "attempt.state", "no state of Slurm's"),
        ({"nodes": []}, "attempt.nodes", "is empty although the attempt started"),
        ({"start": "2026-01-02T00:00:00Z"}, "attempt.start", "is after end"),
        ({"start": "yesterday"}, "attempt.start", "ISO 8601"),
        ({"log_timezone": "Mars/Base"}, "attempt.log_timezone", "no time zone"),
        ({"job_id": 7}, "attempt.job_id", "Expected `str`"),
        ({"nodse": ["n1"]}, "attempt", "nodse"),
        ({"steps": [{"step_id": "0", "state": "FAILED", "end": "?"}]}, "attempt.steps[0].end", "ISO 8601"),
        ({"execution_cancellation": {"record_id": "2", "by": "x", "time": "2026-01-01T00:00:00Z"}}, "execution_cancellation", "is not this record's id"),
        ({"execution_cancellation": {"record_id": "1", "by": " ", "time": "2026-01-01T00:00:00Z"}}, "execution_cancellation.by", "by whom"),
        ({"execution_cancellation": {"record_id": "1", "by": "x", "time": "2026-01-01T00:00:00"}}, "execution_cancellation.time", "no time zone"),
    ],
)  # fmt: skip
def test_a_wrong_attempt_names_the_key(tmp_path, attempt, key, says):
    message = complaint(bundle(tmp_path, attempt))
    assert key in message
    assert says in message


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"path": "../x", "kind": "app"}, "leaves the bundle"),
        ({"path": "/etc/passwd", "kind": "app"}, "leaves the bundle"),
        ({"path": "a/../../x", "kind": "app"}, "leaves the bundle"),
        ({"path": "", "kind": "app"}, "leaves the bundle"),
        ({"path": "x", "kind": "apps"}, "'apps' (known: app, dmesg, fabricmanager, journal, kern, metric, slurmctld, "),
        ({"path": "x", "kind": "record"}, "comes from `attempt`"),
        ({"path": "x"}, "kind"),
        ({"path": "x", "kind": "app", "rnak": 1}, "rnak"),
    ],
)
def test_a_wrong_source_names_the_key(tmp_path, source, says):
    message = complaint(bundle(tmp_path, sources=[source]))
    assert "sources[0]" in message
    assert says in message


def test_unknown_key_and_schema(tmp_path):
    assert "nodez" in complaint(bundle(tmp_path, nodez=[]))
    (tmp_path / "bundle.json").write_text(json.dumps({"schema": 2, "attempt": ATTEMPT, "sources": []}))
    assert "schema" in complaint(tmp_path)


def states(folder: Path, rules) -> dict[str, str]:
    verdict = pipeline.analyze_bundle(folder, rules=rules).verdict
    return {c.source: c.state for c in verdict.coverage}


def test_what_is_wrong_with_a_source_is_coverage(tmp_path, rules):
    (tmp_path / "empty").write_text("")
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "loop").symlink_to("loop")
    names = ["empty", "dir", "fifo", "binary", "link", "loop", "gone"]
    folder = bundle(tmp_path, sources=[{"path": n, "kind": "app", "node": "n1"} for n in names])
    found = states(folder, rules)
    assert {n: found[n] for n in names} == {
        "empty": "empty", "dir": "unreachable", "fifo": "unreachable", "binary": "read", "link": "denied", "loop": "unreachable",
        "gone": "unreachable",
    }  # fmt: skip


def test_a_fifo_with_a_silent_writer_does_not_hang(tmp_path, rules):
    os.mkfifo(tmp_path / "fifo")
    keep = threading.Event()
    writer = threading.Thread(target=lambda: (os.open(tmp_path / "fifo", os.O_RDWR), keep.wait(5)), daemon=True)
    writer.start()
    assert states(bundle(tmp_path, sources=[{"path": "fifo", "kind": "app"}]), rules)["fifo"] == "unreachable"
    keep.set()


def test_a_collectors_own_word_on_a_source_stands(tmp_path, rules):
    (tmp_path / "a").write_text("x\n")
    sources = [{"path": "a", "kind": "app", "coverage": {"state": "partial", "reason": "cap", "cut": ["nvrm"]}},
               {"path": "b", "kind": "kern", "node": "n1", "coverage": {"state": "denied", "reason": "sshd refused"}}]  # fmt: skip
    verdict = pipeline.analyze_bundle(bundle(tmp_path, sources=sources), rules=rules).verdict
    found = {c.source: c for c in verdict.coverage}
    assert found["a"].state == "partial"
    assert found["a"].cut == ("nvrm",)
    assert found["b"].state == "denied"


def test_the_same_bundle_gives_the_same_bytes(tmp_path, rules):
    import msgspec

    (tmp_path / "a").write_text("RuntimeError: x\n")
    (tmp_path / "k").write_text("Jan  1 00:30:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    one = [{"path": "a", "kind": "app", "node": "n1"}, {"path": "k", "kind": "kern", "node": "n1"}]
    first = pipeline.analyze_bundle(bundle(tmp_path, sources=one), rules=rules, explain=True)
    again = pipeline.analyze_bundle(bundle(tmp_path, sources=one), rules=rules, explain=True)
    turned = pipeline.analyze_bundle(bundle(tmp_path, sources=one[::-1]), rules=rules, explain=True)
    assert first.verdict.domain == "hardware"
    assert msgspec.json.encode(first) == msgspec.json.encode(again)
    assert msgspec.json.encode(first.verdict) == msgspec.json.encode(turned.verdict)


def test_inherited_node_failure_is_not_charged(tmp_path, rules):
    attempt = {
        "state": "NODE_FAIL", "exit_code": "0:1",
        "allocation_failure": {"allocation_id": "9", "state": "NODE_FAIL", "failed_node": "elsewhere", "source": "slurmctld"},
        "execution_cancellation": {"record_id": "1", "by": "controller", "time": "2026-01-01T00:59:00Z"},
    }  # fmt: skip
    verdict = pipeline.analyze_bundle(bundle(tmp_path, attempt), rules=rules).verdict
    assert verdict.responsible_nodes == ()
    assert verdict.terminal_state == "cancelled"
