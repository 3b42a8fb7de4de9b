from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.bundle import Attempt, Step
from attribution.slurm.patterns import expand, output_files
from attribution.slurm.values import Accounted

BATCH = Step(step_id="batch", state="COMPLETED")


def accounted(**more):
    attempt = {
        "cluster": "c",
        "job_id": "38",
        "state": "FAILED",
        "nodes": ("node-01.site", "node-02"),
        "user": "alice",
        "steps": (BATCH,),
    }
    attempt.update({key: more.pop(key) for key in list(more) if key in Attempt.__struct_fields__})
    return Accounted(attempt=Attempt(**attempt), job="38", raw_id="38", **{"name": "wrap", "work_dir": "/home/a", **more})


# File names that slurmstepd of 24.11.5 made, in /shared/alice.
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("o-%j-%J-%s-%N-%n-%t-%u-%x-%b-%A-%a", "o-38-38-batch-node-01-0-0-alice-wrap-4-38-4294967294"),
        ("o-%%-%5j-%5N-%3t-%15x.log", "o-%-00038-node-01-000-wrap.log"),
        ("w-%0j-%11j-%10j-%2x-%.log", "w-38-0000000038-0000000038-wrap-%.log"),
        ("p-%q-%5%.log", "p-%q-%5%.log"),
        ("bs\\\\-%j-\\-%j.log", "bs\\-%j--%j.log"),
        ("plain\\\\%j", "plain\\%j"),
        ("/abs/%u.log", "/abs/alice.log"),
        ("", "slurm-38.out"),
    ],
)
def test_a_pattern_names_the_file_that_slurm_made(pattern, path):
    out, err = output_files(accounted(work_dir="/shared/alice"), pattern, "")
    assert out == (path if path.startswith("/") else f"/shared/alice/{path}")
    assert err == out


def test_an_array_task():
    task = accounted(job_id="45", array_job_id="39", array_task_id="13")
    assert output_files(task, "", "")[0] == "/home/a/slurm-39_13.out"
    assert output_files(task, "%A_%a_%4a_%b_%j_%3A", "%x.err") == ("/home/a/39_13_0013_3_45_039", "/home/a/wrap.err")


def test_srun_alone_prints_to_a_terminal():
    alone = accounted(steps=(Step(step_id="0", state="FAILED"),))
    assert output_files(alone, "", "") == (None, None)
    assert output_files(alone, "/o/%j", "") == ("/o/38", "/o/38")


def test_unknown_things_stay_unknown():
    assert output_files(accounted(work_dir=""), "", "") == (None, None)
    nameless = accounted(name="", user=None, nodes=())
    assert output_files(nameless, "%x-%u-%N", "")[0] == "/home/a/%x-%u-%N"


@given(st.text(), st.text(), st.text())
def test_any_text_is_a_path_or_none(pattern, name, work_dir):
    named = msgspec.structs.replace(accounted(), name=name, work_dir=work_dir)
    for path in output_files(named, pattern, pattern):
        assert path is None or (path.startswith("/") and "\0" not in path)


@given(st.text(st.characters(exclude_characters="%\\\0"), min_size=1))
def test_without_symbols_a_pattern_is_the_file(pattern):
    assert expand("/d/" + pattern, {}, "") == "/d/" + pattern
