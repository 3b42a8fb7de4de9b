from __future__ import annotations

import sqlite3
import stat
import threading
import zlib
from pathlib import Path

import msgspec
import pytest
import sample_verdicts as samples
from msgspec.structs import replace
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from attribution.archive import schema
from attribution.archive.open import Archive, open_archive
from attribution.archive.write import Finished
from attribution.model import Verdict


@pytest.fixture
def archive(tmp_path: Path):
    with open_archive(tmp_path / "verdicts.db") as opened:
        yield opened


def keep(archive: Archive, verdict: Verdict, input_hash: str = "a", now: float = 100.0, **more):
    return archive.store(verdict, more.pop("stored_input", b"{}"), input_hash, now, **more)


@pytest.mark.parametrize("make", [samples.attributed, samples.ambiguous, samples.insufficient, samples.no_failure])
def test_what_is_stored_comes_back_whole(archive: Archive, make) -> None:
    verdict = make()
    stored = keep(archive, verdict)
    (found,) = archive.latest("4242")
    assert found.verdict == verdict
    assert (found.version, found.latest, found.stored) == (1, 1, 100.0)
    assert (stored.version, stored.new, stored.input_kept) == (1, True, True)


def test_same_input_rules_and_engine_make_no_version(archive: Archive) -> None:
    first, again = keep(archive, samples.attributed()), keep(archive, samples.attributed(), now=200.0)
    assert (again.version, again.new, first.new) == (1, False, True)
    assert keep(archive, samples.attributed(), "b").version == 2
    assert keep(archive, samples.attributed(engine="0.2.0")).version == 3
    assert keep(archive, samples.attributed(rules={"version": "1", "hash": "other"})).version == 4
    back = keep(archive, samples.attributed())
    assert (back.version, back.new, back.latest) == (1, False, 4)
    assert [row.version for row in archive.versions("alpha/991")] == [1, 2, 3, 4]


def test_older_version_stays_as_it_was(archive: Archive) -> None:
    keep(archive, samples.insufficient(), "a")
    keep(archive, samples.attributed(), "b")
    old = archive.version("alpha/991", 1)
    assert old
    assert old.verdict == samples.insufficient()
    assert archive.latest("4242")[0].verdict == samples.attributed()
    assert archive.version("alpha/991", 3) is None
    assert archive.version("alpha/none", 1) is None


@pytest.mark.parametrize(
    ("job", "keys"),
    [
        ("7", ["a"]), ("123", ["b", "c", "d"]), ("123_4", ["b"]), ("123_5", ["c"]), ("123+1", ["d"]), ("sDB5M8KMHWVF00", ["a"]),
        ("d", ["d"]), ("123_9", []), ("123+999999999999", []), ("8", []), ("", []), ("1 or 1=1", []),
    ],
)  # fmt: skip
def test_a_job_is_found_by_each_of_its_names(archive: Archive, job: str, keys: list[str]) -> None:
    views = (
        samples.attempt(key="a", job_id="7", sluid="sDB5M8KMHWVF00"),
        samples.attempt(key="b", job_id="123_4", array_job_id="123", array_task_id="4"),
        samples.attempt(key="c", job_id="130", array_job_id="123", array_task_id="5"),
        samples.attempt(key="d", job_id="123+1", het_job_id="123", het_offset=1),
    )
    for number, view in enumerate(views):
        keep(archive, samples.attributed(attempt=view), now=float(number))
    assert [found.attempt for found in archive.latest(job)] == keys


def test_requeued_job_has_an_attempt_for_each_run(archive: Archive) -> None:
    keep(archive, samples.attributed(attempt=samples.attempt(key="alpha/2", submit="2026-10-02T23:00:00Z")))
    keep(archive, samples.attributed(attempt=samples.attempt(key="alpha/1", submit="2026-10-02T22:00:00Z")))
    assert [found.attempt for found in archive.latest("4242")] == ["alpha/1", "alpha/2"]


def test_rewritten_row_keeps_one_history(archive: Archive) -> None:
    old, new = (samples.attributed(attempt=samples.attempt(key=key)) for key in ("alpha/1", "alpha/2"))
    keep(archive, old, "a")
    keep(archive, new, "b")
    stored = keep(archive, new, "c", aliases=("alpha/1", "alpha/0"))
    assert stored.version == 3
    assert [(row.version, row.input_hash) for row in archive.versions("alpha/1")] == [(1, "a"), (2, "b"), (3, "c")]
    assert [found.attempt for found in archive.latest("alpha/0")] == ["alpha/2"]
    assert keep(archive, old, "a").attempt == "alpha/2"
    assert keep(archive, new, "d", aliases=("alpha/1",)).version == 4


def test_batch_is_all_or_nothing(archive: Archive) -> None:
    good = Finished(verdict=samples.attributed(), input_hash="a")
    bad = Finished(verdict=samples.attributed(engine=None), input_hash="b")
    with pytest.raises(Exception, match="NOT NULL"):
        archive.store_all((good, bad), 1.0)
    assert archive.latest("4242") == ()
    assert [s.version for s in archive.store_all((good, Finished(verdict=samples.attributed(), input_hash="b")), 1.0)] == [1, 2]


def test_since_lists_the_newest_version_of_each_attempt(archive: Archive) -> None:
    keep(archive, samples.attributed(), "a", 100.0)
    keep(archive, samples.attributed(), "b", 200.0)
    keep(archive, replace(samples.no_failure(), attempt=samples.attempt(key="x")), "c", 150.0)
    assert [(row.attempt, row.version) for row in archive.since(0.0)] == [("x", 1), ("alpha/991", 2)]
    assert [row.attempt for row in archive.since(151.0)] == ["alpha/991"]
    assert [row.attempt for row in archive.since(0.0, 200.0)] == ["x"]
    row = archive.since(151.0)[0]
    assert (row.responsible_nodes, row.root_symptom, row.user) == (("node-02",), "nvlink.signal_integrity", "ada")


def test_nothing_secret_reaches_the_file(archive: Archive, tmp_path: Path) -> None:
    line = "Xid 79 WANDB_API_KEY=0123456789abcdef password=hunter2"
    verdict = samples.attributed(facts={"env": {"note": "token=abcdef123456"}}, missing=("https://ada:hunter2@host/x",))
    verdict = replace(verdict, symptoms=(replace(verdict.symptoms[0], evidence=(samples.evidence(line),)),))
    content = msgspec.json.encode({"lines": [line], "password": "tr0ub4dor", "node": "node-02"})
    keep(archive, verdict, stored_input=content)
    (found,) = archive.latest("4242")
    kept = archive.stored_input("alpha/991")
    assert kept
    texts = msgspec.json.encode(found.verdict).decode() + kept.content.decode()
    texts += "".join(_everything(tmp_path / "verdicts.db"))
    for secret in ("hunter2", "0123456789abcdef", "abcdef123456", "tr0ub4dor"):
        assert secret not in texts
    assert found.verdict.symptoms[0].evidence[0].text == "Xid 79 WANDB_API_KEY=[masked] password=[masked]"
    assert msgspec.json.decode(kept.content)["node"] == "node-02"


def _everything(file: Path):
    with sqlite3.connect(file) as db:
        for (table,) in db.execute("select name from sqlite_master where type='table'").fetchall():
            for row in db.execute(f"select * from {table}"):
                yield from (zlib.decompress(v).decode() if isinstance(v, bytes) else str(v) for v in row)


def test_excerpts_can_go_while_the_verdict_stays(archive: Archive, tmp_path: Path) -> None:
    keep(archive, samples.attributed())
    with sqlite3.connect(tmp_path / "verdicts.db") as db:
        assert db.execute("select count(*) from evidence").fetchone() == (4,)
        db.execute("delete from evidence")
    found = archive.latest("4242")[0].verdict
    assert found.root_cause
    assert found.root_cause.evidence[0] == samples.evidence(text="")
    assert samples.XID not in "".join(_everything(tmp_path / "verdicts.db"))


def test_rows_beside_the_document(archive: Archive, tmp_path: Path) -> None:
    keep(archive, samples.attributed())
    with sqlite3.connect(tmp_path / "verdicts.db") as db:
        assert db.execute("select place, symptom, count from symptoms order by number").fetchall() == [
            ("counts", "nvlink.signal_integrity", 12), ("demoted", "nccl.remote_error", 8), ("demoted", "nccl.remote_error", 8),
            ("demoted", "nccl.remote_error", 8), ("interesting", "gpu.recovery_action", 12),
        ]  # fmt: skip
        assert db.execute("select node from symptom_nodes join symptoms using (verdict_id, number) where place='demoted'").fetchall() == [
            ("node-01",), ("node-03",), ("node-04",)
        ]  # fmt: skip
        assert db.execute("select source, state from coverage").fetchall() == [
            ("node-02.kern", "read"),
            ("node-03.kern", "unreachable"),
        ]
        assert db.execute("select node from responsible_nodes").fetchall() == [("node-02",)]
        db.execute("pragma foreign_keys=on")
        db.execute("delete from attempts")
        for table in ("verdicts", "symptoms", "symptom_nodes", "evidence", "coverage", "stored_inputs", "responsible_nodes"):
            assert db.execute(f"select count(*) from {table}").fetchone() == (0,), table


def test_input_above_the_cap_is_not_kept_and_the_verdict_is(archive: Archive) -> None:
    import random

    noise = random.Random(1).randbytes(2 << 20)
    stored = keep(archive, samples.attributed(), stored_input=noise)
    assert (stored.new, stored.input_kept) == (True, False)
    assert archive.stored_input("alpha/991") is None
    assert keep(archive, samples.attributed(), "b", stored_input=b"x" * (2 << 20)).input_kept
    assert keep(archive, samples.attributed(), "c", stored_input=None).input_kept is False
    kept = archive.stored_input("alpha/991")
    assert kept
    assert (kept.input_hash, len(kept.content)) == ("b", 2 << 20)


def test_hostile_text_is_stored(archive: Archive) -> None:
    text = "a\0b \ud800 \x1b[31m \u202e'); drop table verdicts;--"
    verdict = samples.attributed(missing=(text,))
    keep(archive, verdict)
    assert archive.latest("4242")[0].verdict.missing == ("a\u2400b \ufffd \x1b[31m \u202e'); drop table verdicts;--",)


def test_file_is_for_owner_and_group_and_in_wal_mode(archive: Archive, tmp_path: Path) -> None:
    file = tmp_path / "verdicts.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    with archive._engine.connect() as connection:
        pragmas = [
            connection.exec_driver_sql(f"pragma {name}").scalar() for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert pragmas == ["wal", 2, 1]


def test_two_writers_share_the_archive(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.db"
    open_archive(file).close()
    errors = []

    def work(name: str) -> None:
        try:
            with open_archive(file) as opened:
                for i in range(20):
                    keep(opened, samples.attributed(), f"{name}{i}")
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_archive(file, create=False) as opened:
        assert [row.version for row in opened.versions("alpha/991")] == list(range(1, 41))


def test_every_table_is_also_postgresql() -> None:
    for table in schema.tables.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=postgresql.dialect()))
