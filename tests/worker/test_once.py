"""From a record, or none, to the archive and the line in sacct."""

from __future__ import annotations

import pytest
from slurm_in_memory import remembers


def test_a_record_becomes_a_verdict_and_a_line(site):
    one = site.slurm.end(7, exit_code="3:0")
    site.slurm.memory["7"] = remembers(one, "NonZeroExitCode")
    site.hook(one)
    site.once()
    (stored,) = site.archived("7")
    assert (stored.attempt, stored.verdict.attempt.reason) == ("test/1007", "NonZeroExitCode")
    assert site.left() == []
    assert site.slurm.comment_rows["1007"].admin.startswith("sattrib:1 ")
    assert not list((site.state / "work").iterdir())


def test_an_end_that_no_record_tells_of_is_found(site):
    site.slurm.end(8, ago=4000)
    site.once()
    assert set(site.archived()) == {"test/1008"}


def test_an_end_is_judged_once_though_hook_and_polling_tell_of_it_and_the_hook_twice(site):
    one = site.slurm.end(7)
    site.hook(one)
    site.hook(one)
    site.once()
    site.hook(one)
    site.once()
    assert [row.version for row in site.archived().values()] == [1]
    assert site.left() == []
    assert len(site.slurm.wrote) == 1


def test_a_requeued_job_has_two_verdicts_and_its_older_row_gets_no_line(site):
    lost = site.slurm.end(9, "NODE_FAIL", "1:0", ago=500, dbindex=1)
    site.slurm.set_comment("1", newest=False)
    site.slurm.end(9, "COMPLETED", "0:0", ago=100, dbindex=2)
    site.hook(lost)
    site.once()
    assert {key: row.state for key, row in site.archived().items()} == {"test/1": "NODE_FAIL", "test/2": "COMPLETED"}
    assert site.slurm.wrote == []


@pytest.mark.parametrize("held", ["JS1:H4sIAAAA", "js1:none", "something else"])
def test_a_foreign_comment_is_never_touched(site, held):
    one = site.slurm.end(7)
    site.slurm.set_comment("1007", admin=held)
    site.hook(one)
    site.once()
    assert site.slurm.comment_rows["1007"].admin == held
    assert all(field == "SystemComment" for _, field, _ in site.slurm.wrote)
    assert bool(site.slurm.wrote) == held.lower().startswith("js1:")


def test_a_line_that_did_not_stand_there_is_written_again(site):
    site.slurm.end(7)
    site.slurm.swallow = 1
    site.once()
    assert site.slurm.comment_rows["1007"].admin == ""
    with site.opened() as shared:
        assert shared.state.behind()[0] == 1
        (owed,) = shared.state.due(2e10, 9)
        assert owed.tries == 1
        shared.state.owe([owed])
    site.once()
    assert site.slurm.comment_rows["1007"].admin.startswith("sattrib:1 ")


def test_completed_jobs_cost_no_look_at_nodes_and_get_no_line(site):
    site.slurm.end(7, "COMPLETED", "0:0")
    site.once()
    assert site.archived()["test/1007"].verdict == "no_failure"
    words = {asked[0] for asked in site.slurm.asked}
    assert not words & {"nodes", "neighbours", "in_memory", "write", "comments"}


def test_a_job_cancelled_in_the_queue_is_judged_without_any_source(site):
    site.slurm.end(7, "CANCELLED by 0", "0:0", nodes=())
    site.once()
    (stored,) = site.archived("7")
    assert stored.verdict.terminal_state == "cancelled"
    assert not {asked[0] for asked in site.slurm.asked} & {"nodes", "neighbours", "completing"}


def test_records_that_say_nothing_go_to_failed(site):
    (site.spool / "a.env").write_bytes(b"SLURM_JOB_ID=\xff\0SATTRIB_END=1\0")
    (site.spool / "b.ask").write_bytes(b"ASK=drop\0JOB=1\0SATTRIB_END=1\0")
    site.once()
    assert site.left() == ["failed/a.env.no-job-id", "failed/b.ask.unknown-request"]


def test_one_unreadable_row_does_not_hold_up_the_others(site):
    records = [site.slurm.end(number) for number in range(1, 9)]
    for one in records:
        site.hook(one)
    site.slurm.broken_jobs = {"5"}
    site.once()
    assert len(site.archived()) == 7
    assert site.left() == ["claimed/end-5.env.0"]


def test_two_hundred_ends_at_once(site):
    for number in range(200):
        one = site.slurm.end(1, dbindex=5000 + number, job=f"1_{number}", array_job_id="1", array_task_id=str(number))
        site.slurm.rows[one.attempt.dbindex] = one
    for number in range(200):
        key = str(5000 + number)
        site.slurm.rows[key] = type(one)(**{
            **{f: getattr(site.slurm.rows[key], f) for f in one.__struct_fields__}, "raw_id": str(100 + number),
        })  # fmt: skip
        site.slurm.set_comment(key, raw_id=str(100 + number))
        site.hook(site.slurm.rows[key], SLURM_ARRAY_JOB_ID="1", SLURM_ARRAY_TASK_ID=str(number))
    site.once(120)
    assert len(site.archived()) == 200
    assert site.left() == []
    assert len(site.slurm.wrote) == 200
