from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.bundle import Attempt
from attribution.slurm.hook import HookEnd, read_end
from attribution.slurm.match import match
from attribution.slurm.values import Accounted
from attribution.spool import Record

A, B = "s0SNM8KW12RY00", "s0SNM8KW12S600"


def one(dbindex, start, end, sluids=(), *, raw_id="4", cluster="test", starts=None):
    attempt = Attempt(cluster=cluster, job_id=raw_id, state="FAILED", nodes=("n1",), dbindex=dbindex)
    starts = starts or ((start,) if start else ())
    return Accounted(attempt=attempt, job=raw_id, raw_id=raw_id, start=start, end=end, starts=starts, sluids=sluids)


def ended(**more):
    return HookEnd(**{"raw_id": "4", "job": "4", "cluster": "test", "time": 1000.0, **more})


def dbindex(end, *candidates):
    found = match(end, candidates)
    assert found.why
    return found.found and found.found.attempt.dbindex


def test_a_sluid_decides():
    two = [one("1", 900, 950, (A,)), one("2", 900, 1000, (B,))]
    assert dbindex(ended(sluid=A), *two) == "1"
    assert dbindex(ended(sluid=B), *two) == "2"
    assert dbindex(ended(sluid="s0SNM8KW12ZZ00", start=900), *two) is None


def test_a_resized_attempt_is_found_by_any_of_its_rows():
    assert dbindex(ended(sluid=A), one("2", 900, 1000, (A, B))) == "2"
    assert dbindex(ended(start=950), one("2", 900, 1000, starts=(900, 950))) == "2"


def test_the_start_time_decides_where_sacct_has_no_sluid():
    two = [one("1", 900, 950), one("2", 960, 1000)]
    assert dbindex(ended(sluid=A, start=960), *two) == "2"
    assert dbindex(ended(start=900), *two) == "1"
    assert dbindex(ended(start=901), *two) is None


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(900, 1000)], "0"),
        ([(900, 941)], "0"),
        ([(900, 939)], None),
        ([(1061, 1100)], None),
        ([(1060, 1100)], "0"),
        ([(900, None)], "0"),
        ([(None, 1000)], None),
        ([(100, 200), (900, 1000)], "1"),
        ([(900, 990), (995, None)], None),
        ([], None),
    ],
)
def test_on_22_05_the_one_span_that_holds_the_time(spans, expected):
    assert dbindex(ended(), *(one(str(n), *span) for n, span in enumerate(spans))) == expected


def test_other_jobs_and_clusters_never_match():
    assert dbindex(ended(start=900), one("1", 900, 1000, raw_id="5"), one("2", 900, 1000, cluster="other")) is None


def record(**values):
    return Record(name="x.env", kind="end", values=values, complete=True, time=1000.0)


def test_the_hooks_record_is_read():
    end = read_end(record(
        SLURM_JOB_ID="45", SLURM_ARRAY_JOB_ID="39", SLURM_ARRAY_TASK_ID="3", SLURM_CLUSTER_NAME="test", SLURM_JOB_SLUID=A,
        SLURM_JOB_START_TIME="1795963124", SLURM_JOB_STDOUT="/x/%A_%a", SLURM_JOB_WORK_DIR="/x",
    ))  # fmt: skip
    assert end == HookEnd(
        raw_id="45", job="39_3", cluster="test", time=1000.0, sluid=A, start=1795963124, stdout="/x/%A_%a", work_dir="/x"
    )
    assert read_end(record(SLURM_JOB_ID="12", SLURM_HET_JOB_ID="11", SLURM_HET_JOB_OFFSET="1")).job == "11+1"
    assert read_end(record(SLURM_JOBID="7")).job == "7"


def test_a_cut_record_can_still_tell_the_job():
    assert read_end(record(SLURM_JOB_NAME="x")) is None
    assert read_end(record(SLURM_JOB_ID="1; rm")) is None
    assert read_end(record(SLURM_JOB_ID="7", SLURM_ARRAY_JOB_ID="6")).job == "7"


@given(
    st.dictionaries(
        st.sampled_from(["SLURM_JOB_ID", "SLURM_JOB_SLUID", "SLURM_JOB_START_TIME", "SLURM_ARRAY_JOB_ID"]), st.text()
    )
)
def test_any_values_are_read(values):
    read_end(record(**values))
