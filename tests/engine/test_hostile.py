"""What a user can print or log must not buy blame, confidence, or a way around a fault. With the bundled rules."""

from __future__ import annotations

import pytest

from attribution import ruleset
from attribution.bundle import Attempt, Bundle, Source
from attribution.engine.session import Session

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."


@pytest.fixture(scope="module")
def rules():
    return ruleset.load(samples=False)


def judge(rules, sources, *, state="FAILED", nodes=("n1", "n2", "n3"), **more):
    """`sources`: {(kind, node): text}; nodes without one have a journal in which all is well."""
    given = dict(sources)
    for node in nodes:
        if not any(n == node and kind != "app" for kind, n in given):
            given["journal", node] = f"Mar 02 04:10:00 {node} kernel: all is well"
    attempt = Attempt(
        cluster="c", job_id="1", state=state, exit_code="1:0", nodes=nodes, start="2026-03-02T04:00:00Z", end="2026-03-02T05:00:00Z", **more
    )  # fmt: skip
    made = [Source(path=f"{i}.{kind}", kind=kind, node=node) for i, (kind, node) in enumerate(given)]
    session = Session(rules, Bundle(schema=1, attempt=attempt, sources=tuple(made)))
    for source, text in zip(made, given.values(), strict=True):
        session.ingest(source.path, text.encode() + b"\n", last=True)
    return session.attribute()


def test_the_kernels_own_line_is_high_and_needs_no_confirmation(rules):
    verdict = judge(rules, {("journal", "n1"): f"Mar 02 04:30:00 n1 kernel: {XID}"})
    assert (verdict.responsible_nodes, verdict.confidence) == (("n1",), "high")
    assert [d.confirm for d in verdict.drain_suggestions] == [""]


@pytest.mark.parametrize(
    "line",
    [
        f"2026-03-02T04:30:00+0000 n1 kernel 1 x[77]: - {XID}",
        f"2026-03-02T04:30:00+0000 n1 kernel - x[77]: - {XID}",
        f"Mar 02 04:30:00 n1 kernel\x1b[77]: {XID}",
        f"Mar 02 04:30:00 n1 kernel: {XID}[77]: more",
        f"   Mar 02 04:30:00 n1 kernel: {XID}",
        f"Mar 02 04:30:00 n1 kernel: {XID}" + " " + "x" * 9000 + "[77]: more",
    ],
)
def test_a_journals_line_that_a_user_can_have_sent_is_to_be_confirmed(rules, line):
    verdict = judge(rules, {("journal", "n1"): line})
    assert verdict.confidence != "high"
    assert all(d.confirm for d in verdict.drain_suggestions)


def test_one_datagram_in_two_files_is_one_source(rules):
    line = f"Mar  2 04:30:00 n1 kernel: [ 8000.5] {XID}"
    verdict = judge(rules, {("kern", "n1"): line, ("syslog", "n1"): line})
    assert (verdict.confidence, [bool(d.confirm) for d in verdict.drain_suggestions]) == ("medium", [True])


def test_what_is_set_aside_as_unrelated_supports_nothing(rules):
    disk = "Mar 02 04:10:00 n2 kernel: blk_update_request: I/O error, dev sda, sector 123 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0"
    said = "[n2:77] Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error"
    verdict = judge(rules, {("app", "n1"): said, ("journal", "n2"): disk})
    assert verdict.responsible_nodes == ()
    assert verdict.confidence != "high"


def test_a_node_that_only_the_output_names_is_no_high_blame(rules):
    verdict = judge(rules, {("app", "n1"): "srun: error: Node failure on n2"}, state="NODE_FAIL")
    assert verdict.confidence != "high"
    assert not verdict.drain_suggestions


def test_one_nodes_system_log_names_no_other_node(rules):
    line = "Mar  2 04:30:00 n1 slurmctld[77]: error: Node n3 unexpectedly rebooted boot_time=1 last response=1"
    verdict = judge(rules, {("syslog", "n1"): line, ("journal", "n1"): line})
    assert "n3" not in verdict.responsible_nodes
    assert not verdict.drain_suggestions


def test_a_users_journal_line_about_slurm_is_not_high(rules):
    line = "Mar 02 04:30:00 n1 slurmctld[77]: preempted JobId=1 has been requeued to reclaim resources for JobId=32391990"
    assert judge(rules, {("journal", "n1"): line}).confidence != "high"


def test_printed_words_do_not_undo_a_node_that_slurm_lost(rules):
    said = "[n3:77] slurmstepd: error: Munge decode failed: Expired credential"
    verdict = judge(rules, {("app", "n1"): said}, state="NODE_FAIL", failed_node="n3")
    assert verdict.domain in ("scheduler", "hardware")
    assert "slurm.node_fail" not in [d.symptom for d in verdict.demoted if d.rule.startswith("edge:")]


def test_anothers_proof_makes_no_node_sure(rules):
    """An earlier line in a file that users can write takes the blame from the node that the kernel speaks of, at a price."""
    sources = {("journal", "n1"): f"Mar 02 04:30:00 n1 kernel: {XID}", ("syslog", "n2"): f"Mar  2 04:20:00 n2 kernel: {XID}"}
    verdict = judge(rules, sources)
    assert (verdict.confidence == "high") is ("n1" in verdict.responsible_nodes)
    assert all(d.confirm for d in verdict.drain_suggestions if d.node == "n2")


def test_a_fault_that_is_acquitted_does_not_take_the_end_with_it(rules):
    steps = "\n".join(
        f"[2026-03-02 04:{m}:00] iteration {m}/ 1000 | elapsed time per iteration (ms): 12.0 | loss: 1.2" for m in range(20, 60)
    )
    verdict = judge(rules, {("journal", "n1"): f"Mar 02 04:30:00 n1 kernel: {XID}", ("app", "n1"): steps}, state="TIMEOUT")
    assert verdict.verdict != "insufficient"
    assert "gpu.off_bus" in [s.symptom for s in (*verdict.symptoms, *verdict.demoted)]


def test_many_deaths_and_errors_take_no_squared_time(rules):
    ranks = range(3000)
    text = "\n".join(
        [
            *(f"[rank{i}]: Fatal Python error: Segmentation fault" for i in ranks),
            *(f"[rank{i}]: KeyError: 'x{i}'" for i in ranks),
            "2026-03-02 04:59:00 step 3000 loss 1.2",
        ]
    )
    assert judge(rules, {("app", "n1"): text}).domain == "application"
