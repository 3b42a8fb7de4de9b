from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.bundle import Attempt
from attribution.errors import SlurmError
from attribution.slurm.comment import Decision, check_line, command, decide, is_ours, is_written
from attribution.slurm.values import Accounted, CommentRow

LINE = "sattrib:1 hardware_failure hardware/nvlink_signal_integrity xid-149 node-02 high"
OLD = "SATTRIB:1 unknown_failure unknown/unknown low"
SLUID = "s0SNM8KW12RY00"
NEW, OLDER = (26, 5), (24, 11)


def accounted(job="10_3"):
    return Accounted(
        attempt=Attempt(cluster="c", job_id="12", state="FAILED", nodes=("n1",), dbindex="7"), job=job, raw_id="12"
    )


def row(admin="", system="", newest=True, state="FAILED", sluid=SLUID):
    return CommentRow(raw_id="12", dbindex="7", sluid=sluid, state=state, admin=admin, system=system, newest=newest)


@pytest.mark.parametrize(
    ("at", "version", "more", "expected"),
    [
        (None, OLDER, {}, ("wait", "AdminComment", "")),
        (row(state="RUNNING"), OLDER, {}, ("wait", "AdminComment", "")),
        (row(), OLDER, {}, ("write", "AdminComment", "10_3")),
        (row(), NEW, {}, ("write", "AdminComment", SLUID)),
        (row(state="CANCELLED by 5"), OLDER, {}, ("write", "AdminComment", "10_3")),
        (row(LINE), OLDER, {}, ("keep", "AdminComment", "10_3")),
        (row(LINE.upper() + " "), OLDER, {}, ("keep", "AdminComment", "10_3")),
        (row(OLD), OLDER, {}, ("write", "AdminComment", "10_3")),
        (row(), OLDER, {"in_memory": True}, ("wait", "AdminComment", "")),
        # an older attempt
        (row(newest=False), OLDER, {}, ("archive", "AdminComment", "")),
        (row(newest=False), NEW, {}, ("write", "AdminComment", SLUID)),
        (row(newest=False, sluid=""), NEW, {}, ("archive", "AdminComment", "")),
        # somebody else's
        (row("please look at this"), OLDER, {}, ("archive", "AdminComment", "")),
        (row("please look at this"), OLDER, {"jobstats_seen": True}, ("write", "SystemComment", "10_3")),
        (row("JS1:H4sIAAAA"), OLDER, {}, ("write", "SystemComment", "10_3")),
        (row("js1:h4siaaaa"), (22, 5), {}, ("write", "SystemComment", "10_3")),
        (row("JS1:H4sIAAAA", LINE), OLDER, {}, ("keep", "SystemComment", "10_3")),
        (row("JS1:H4sIAAAA", OLD), OLDER, {}, ("write", "SystemComment", "10_3")),
        (row("JS1:H4sIAAAA", "burst buffer"), OLDER, {}, ("archive", "AdminComment", "")),
        (row("JS1:H4sIAAAA"), OLDER, {"fallback": "archive"}, ("archive", "AdminComment", "")),
        (row("note"), OLDER, {"fallback": "system"}, ("write", "SystemComment", "10_3")),
        (row("x sattrib:1 not at its begin"), OLDER, {}, ("archive", "AdminComment", "")),
    ],
)
def test_what_is_done(at, version, more, expected):
    decision = decide(LINE, accounted(), at, version, **more)
    assert (decision.action, decision.field, decision.selector) == expected
    assert decision.why


@given(
    st.text(), st.text(), st.booleans(), st.sampled_from([NEW, OLDER, (22, 5)]), st.sampled_from(["auto", "system", "archive"])
)
def test_nothing_but_ours_is_ever_overwritten(admin, system, newest, version, fallback):
    decision = decide(LINE, accounted(), row(admin, system, newest), version, fallback=fallback, jobstats_seen=True)
    if decision.action == "write":
        value = admin if decision.field == "AdminComment" else system
        assert not value.strip() or value.strip().lower().startswith("sattrib:")
        assert is_ours(value)
        assert newest or decision.selector == SLUID


@pytest.mark.parametrize(
    "line",
    [
        "", "hello", "sattrib: x", "sattrib:1", "sattrib:1 Xid", "sattrib:1 it's", 'sattrib:1 "q"', "sattrib:1 a|b", "sattrib:1 a\nb",
        "sattrib:1 é", "sattrib:1 `x`", "sattrib:1 " + "x" * 200, "sattrib:1 x ", "sattrib:1 a\\b",
    ],
)  # fmt: skip
def test_a_line_that_sacctmgr_would_change_is_refused(line):
    with pytest.raises(SlurmError):
        check_line(line)


def test_the_command():
    argv = command("/usr/bin/sacctmgr", "test", Decision(action="write", why="", selector="11+1"), LINE)
    assert argv == [
        "/usr/bin/sacctmgr", "-i", "modify", "job", "where", "jobid=11+1", "cluster=test", "set", f"AdminComment={LINE}",
    ]  # fmt: skip
    assert (
        command("/s", "c", Decision(action="write", why="", selector=SLUID, field="SystemComment"), LINE)[-1]
        == f"SystemComment={LINE}"
    )
    for selector, cluster in [("", "c"), ("1,2", "c"), ("1", "a,b"), ("1", "")]:
        with pytest.raises(SlurmError):
            command("/s", cluster, Decision(action="write", why="", selector=selector), LINE)


def test_what_was_read_back_is_compared_without_case():
    assert is_written(LINE, row(LINE.upper()), "AdminComment")
    assert not is_written(LINE, row(OLD), "AdminComment")
    assert not is_written(LINE, row(LINE), "SystemComment")
    assert not is_written(LINE, None, "AdminComment")
