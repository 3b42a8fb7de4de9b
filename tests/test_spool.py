from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.errors import ConfigError
from attribution.spool import TRIES, Spool, dump, parse, update_stop
from attribution.spool import store as store_module

MARKER = b"SATTRIB_END=1\0"


@pytest.fixture
def spool(tmp_path):
    made = Spool(tmp_path / "spool")
    made.directory.mkdir()
    made.prepare()
    return made


def put(spool, name="a", content=None, age=0):
    path = spool.directory / f"{name}.env"
    path.write_bytes(dump({"SLURM_JOB_ID": name}) if content is None else content)
    os.utime(path, (1000 - age, 1000 - age))
    return path.name


def failed(spool):
    return sorted(os.listdir(spool.failed))


# ---- the bytes of a record ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "values", "complete"),
    [
        (b"A=1\0B=x=y\nz\0" + MARKER, {"A": "1", "B": "x=y\nz"}, True),
        (b"A=1\0B=cut he", {"A": "1"}, False),
        (b"A=1\0", {"A": "1"}, False),
        (b"A=1\0SATTRIB_END=1", {"A": "1"}, False),
        (b"", {}, False),
        (b"0", {}, False),
        (MARKER, {}, True),
        (b"SATTRIB_END=1\0A=1\0", {"A": "1"}, False),
        (b"B=SATTRIB_END=1\0", {"B": "SATTRIB_END=1"}, False),
        (b"noequals\0=novalue\0A=\0" + MARKER, {"A": ""}, True),
        (b"A=1\0A=2\0" + MARKER, {"A": "1"}, True),
        (b"A=\xff\xfe\0" + MARKER, {"A": "\ufffd\ufffd"}, True),
    ],
)
def test_parse(content, values, complete):
    assert parse(content) == (values, complete)


@given(st.binary())
def test_any_bytes_are_a_record(content):
    values, _ = parse(content)
    assert all("\0" not in text for item in values.items() for text in item)


keys = st.text(st.characters(exclude_characters="=\0", codec="utf-8"), min_size=1).filter(lambda key: key != "SATTRIB_END")
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@given(st.dictionaries(keys, texts), st.data())
def test_a_cut_record_keeps_its_complete_variables(values, data):
    content = dump(values)
    assert parse(content) == (values, True)
    cut = data.draw(st.integers(0, len(content) - 1))
    kept, complete = parse(content[:cut])
    assert not complete
    assert kept == dict(list(values.items())[: len(kept)])
    assert len(kept) == content[:cut].count(b"\0")


@pytest.mark.parametrize("values", [{"": "x"}, {"A=B": "x"}, {"A": "x\0"}, {"SATTRIB_END": "1"}])
def test_dump_refuses_what_would_read_back_differently(values):
    with pytest.raises(ConfigError):
        dump(values)


# ---- the queue ------------------------------------------------------------------------------------------------------


def test_a_record_goes_through(spool):
    put(spool, "young")
    put(spool, "old", age=50)
    assert spool.waiting() == ["old.env", "young.env"]
    assert spool.waiting(limit=1) == ["old.env"]
    claim = spool.claim("old.env")
    assert (claim.record.kind, claim.record.values, claim.record.time, claim.tries) == (
        "end",
        {"SLURM_JOB_ID": "old"},
        950.0,
        0,
    )
    claim = spool.begin(claim)
    assert os.listdir(spool.claimed) == ["old.env.1"]
    spool.remove(claim)
    assert spool.waiting() == ["young.env"]
    assert spool.claim("old.env") is None


def test_a_request_goes_through(spool):
    name = spool.request({"ASK": "attribute", "JOB": "12_3"})
    assert spool.waiting() == [name]
    claim = spool.claim(name)
    assert (claim.record.kind, claim.record.values, claim.record.complete) == (
        "request",
        {"ASK": "attribute", "JOB": "12_3"},
        True,
    )


def test_only_begun_work_counts_as_a_try(spool):
    put(spool)
    claim = spool.claim("a.env")
    for _ in range(5):
        (claim,) = spool.recover()
        assert claim.tries == 0
    claim = spool.release(spool.begin(claim))
    assert claim.tries == 0
    assert os.listdir(spool.claimed) == ["a.env.0"]


def test_after_three_tries_it_fails_and_says_how(spool):
    put(spool)
    claim = spool.claim("a.env")
    for _ in range(TRIES):
        claim = spool.crashed(spool.begin(claim), "SIGSEGV", "extract")
    assert claim is None
    assert failed(spool) == ["a.env.sigsegv-in-extract"]
    assert os.listdir(spool.claimed) == []


def test_a_worker_that_dies_three_times_gives_up(spool):
    put(spool)
    claim = spool.claim("a.env")
    for _ in range(TRIES):
        assert spool.begin(claim) is not None
        (claim,) = spool.recover()
    assert claim.tries == TRIES
    assert spool.begin(claim) is None
    assert failed(spool) == ["a.env.worker-died"]


def test_list_and_retry(spool):
    for name in ("w", "c", "f"):
        put(spool, name)
    spool.begin(spool.claim("c.env"))
    spool.fail(spool.claim("f.env"), "No job id")
    assert [(e.state, e.name, e.tries, e.why) for e in spool.entries()] == [
        ("waiting", "w.env", 0, ""), ("claimed", "c.env", 1, ""), ("failed", "f.env", 0, "no-job-id"),
    ]  # fmt: skip
    spool.retry("f.env")
    assert spool.waiting() == ["f.env", "w.env"]
    with pytest.raises(ConfigError, match="no such failed record"):
        spool.retry("f.env")
    with pytest.raises(ConfigError):
        spool.retry("../w.env")


def test_failed_records_never_overwrite_each_other(spool):
    for _ in range(3):
        put(spool)
        spool.fail(spool.claim("a.env"), "same")
    assert failed(spool) == ["a.env.same", "a.env.same-2", "a.env.same-3"]


def test_without_a_directory_there_is_one_clear_line(tmp_path):
    with pytest.raises(ConfigError, match=r"spool\.dir: the spool is not a directory"):
        Spool(tmp_path / "none").prepare()


# ---- what must never be trusted -------------------------------------------------------------------------------------


def test_links_directories_fifos_sockets_and_giants_are_refused(spool, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(dump({"A": "secret"}))
    (spool.directory / "link.env").symlink_to(secret)
    os.link(secret, spool.directory / "hard.env")
    (spool.directory / "dir.env").mkdir()
    os.mkfifo(spool.directory / "fifo.env")
    put(spool, "big", b"A=" + b"x" * (1 << 20))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(spool.directory / "sock.env"))
    assert [spool.claim(name) for name in spool.waiting()] == [None] * 6
    assert failed(spool) == [
        "big.env.too-large", "dir.env.no-regular-file", "fifo.env.no-regular-file", "hard.env.hard-link", "link.env.link",
        "sock.env.unreadable-no-such-device-or-address",
    ]  # fmt: skip
    assert secret.exists()
    assert os.listdir(spool.claimed) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_foreign_owners_are_refused_and_slurmuser_is_not(spool):
    os.chown(spool.directory, 64030, -1)
    os.chown(spool.directory / put(spool, "slurm"), 64030, -1)
    os.chown(spool.directory / put(spool, "other"), 4321, -1)
    assert [name for name in spool.waiting() if spool.claim(name)] == ["slurm.env"]
    assert failed(spool) == ["other.env.foreign-owner"]


def test_other_names_go_to_failed(spool):
    for name in (b"README", b"new\nline.env", b"\xff\xfe.env", b"a.env.1", b"..env"):
        (spool.directory / os.fsdecode(name)).write_bytes(b"")
    (spool.claimed / "odd").write_bytes(b"")
    assert spool.waiting() == []
    assert spool.recover() == []
    assert len(failed(spool)) == 6
    assert all(name.isascii() and name.isprintable() and name.endswith(".unknown-name") for name in failed(spool))


@given(st.binary(min_size=1, max_size=60).filter(lambda name: not set(name) & set(b"\0/") and name not in (b".", b"..")))
def test_any_file_name_is_taken_or_put_aside(name):
    with tempfile.TemporaryDirectory() as directory:
        spool = Spool(directory)
        spool.prepare()
        path = os.path.join(os.fsencode(directory), name)
        if not os.path.lexists(path):
            Path(os.fsdecode(path)).write_bytes(MARKER)
        for waiting in spool.waiting():
            assert spool.claim(waiting)


# ---- upkeep ---------------------------------------------------------------------------------------------------------


def test_what_was_being_written_an_hour_ago_is_dealt_with(spool):
    now = 10_000.0
    for name, content, age in [
        (".tmp.1.aa", b"SLURM_JOB_ID=1\0SLURM_JO", 3601),
        (".tmp.2.bb", b"0", 3601),
        (".tmp.3.cc", b"SLURM_JOB_ID=3\0", 3000),
        (".ask.dd", b"ASK=attr", 3601),
    ]:
        (spool.directory / name).write_bytes(content)
        os.utime(spool.directory / name, (now - age, now - age))
    assert spool.clean(now) == 3
    (name,) = spool.waiting()
    record = spool.claim(name).record
    assert (record.values, record.complete, record.time) == ({"SLURM_JOB_ID": "1"}, False, now - 3601)
    assert [f for f in os.listdir(spool.directory) if f.startswith(".")] == [".tmp.3.cc"]


def test_the_stop_file_comes_and_goes(spool):
    stop = spool.directory / "stop"
    assert update_stop(spool.directory, 89, 90, 80) is False
    assert update_stop(spool.directory, 90, 90, 80) is True
    assert update_stop(spool.directory, 85, 90, 80) is True
    assert update_stop(spool.directory, 80, 90, 80) is False
    assert not stop.exists()
    assert spool.waiting() == []


def test_a_stop_file_that_a_person_made_stays(spool):
    (spool.directory / "stop").write_text("maintenance\n")
    assert update_stop(spool.directory, 10, 90, 80) is True
    assert (spool.directory / "stop").read_text() == "maintenance\n"


# ---- a kill at any step ---------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


class Stopping:
    """`os`, with a kill after its n-th call that changes anything."""

    def __init__(self, after):
        self.left = after

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in {"rename", "unlink", "mkdir", "open", "write", "read", "close", "listdir", "scandir", "fstat"}:
            return real

        def call(*args, **more):
            result = real(*args, **more)
            self.left -= 1
            if self.left == 0:
                raise Killed
            return result

        return call


def work(spool, archive, crash_on):
    """A worker's life: what was claimed first, then what waits; `crash_on` crashes in every try."""
    spool.prepare()
    for claim in [*spool.recover(), *(c for n in spool.waiting() if (c := spool.claim(n)))]:
        begun = spool.begin(claim)
        while begun is not None and begun.record.values["SLURM_JOB_ID"] == crash_on:
            begun = spool.crashed(begun, "SIGKILL", "match")
            begun = begun and spool.begin(begun)
        if begun is not None:
            archive.append(begun.record.values["SLURM_JOB_ID"])
            spool.remove(begun)


def places(spool):
    found = [os.path.join(d, f) for d, _, files in os.walk(spool.directory) for f in files if f.startswith("job")]
    return sorted(os.path.basename(f).split(".")[0] for f in found)


@pytest.mark.parametrize("every", range(1, 60))
def test_a_kill_at_any_step_loses_and_doubles_nothing(every, tmp_path, monkeypatch):
    spool = Spool(tmp_path)
    names = [f"job{n}" for n in range(3)]
    for name in names:
        put(spool, name)
    archive = []
    for kill_after in (every, every, 0):
        monkeypatch.setattr(store_module, "os", Stopping(kill_after))
        with contextlib.suppress(Killed):
            work(spool, archive, crash_on="job1")
        monkeypatch.setattr(store_module, "os", os)
        left = places(spool)
        assert len(left) == len(set(left)), "a record has two names"
        assert set(left) | set(archive) == set(names), "a record is lost"
    assert places(spool) == ["job1"]
    assert failed(spool)[0].startswith("job1.env.")
    assert set(archive) == {"job0", "job2"}
    # A kill between the archive's commit and the removal gives the same record again: the archive's key makes it one.
    assert len(archive) <= 2 + 2


@pytest.mark.parametrize("every", range(1, 12))
def test_a_request_is_whole_or_not_there(every, tmp_path, monkeypatch):
    spool = Spool(tmp_path)
    spool.prepare()
    monkeypatch.setattr(store_module, "os", Stopping(every))
    with contextlib.suppress(Killed):
        spool.request({"ASK": "attribute", "JOB": "1"})
    monkeypatch.setattr(store_module, "os", os)
    claims = [spool.claim(name) for name in spool.waiting()]
    assert all(claim.record.values == {"ASK": "attribute", "JOB": "1"} and claim.record.complete for claim in claims)


def test_the_hook_and_the_spool_agree(spool, tmp_path):
    """The hook of this tree, where it is present, writes what is read here."""
    hook = Path(__file__).parent.parent / "slurm" / "epilog.d" / "sattrib"
    if not hook.exists():
        pytest.skip("no hook in this tree")
    from attribution.proc import run

    env = {"SLURM_SCRIPT_CONTEXT": "epilog_slurmctld", "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "a\nb=c"}
    run([shutil.which("sh"), str(hook), str(spool.directory)], env=env)
    (name,) = spool.waiting()
    record = spool.claim(name).record
    assert record.complete
    assert record.values["SLURM_JOB_NAME"] == "a\nb=c"
