"""The commands around a worker: on a spool, an archive and a status that a worker really made."""

from __future__ import annotations

import json
import multiprocessing
import os

import pytest
from controller import Site, wait_until

from attribution.cli.main import run
from attribution.worker.lock import lock


@pytest.fixture
def site(tmp_path, monkeypatch):
    found = Site(tmp_path)
    file = tmp_path / "sattrib.toml"
    file.write_text(
        f'[spool]\ndir = "{found.spool}"\n[archive]\nurl = "sqlite:///{found.archive_file}"\n[worker]\nstate_dir = "{found.state}"\n'
        f"[rules]\ndirs = []\n"
    )
    # Under /tmp, which others may write to; ownership has its own tests.
    monkeypatch.setattr("attribution.config.reading.trusts_only_root", lambda: False)
    monkeypatch.setattr("attribution.worker.explain.open_backend", lambda _config: found.slurm)
    found.file = str(file)
    return found


@pytest.fixture
def sattrib(site, capsys):
    def call(*words):
        with pytest.raises(SystemExit) as ended:
            run([*words, "--config", site.file])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


def test_a_job_out_of_the_sites_archive(site, sattrib):
    site.slurm.end(7, exit_code="3:0")
    site.once()
    code, out, err = sattrib("7", "--line")
    assert (code, err) == (0, "")
    assert out.startswith("7  unknown_failure  unknown/")


def test_a_job_that_has_no_verdict_needs_a_worker(site, sattrib):
    site.once()
    code, _, err = sattrib("7")
    assert code == 2
    assert err == "sattrib: no verdict of job 7 yet, and no worker is running: start it with: systemctl start sattrib\n"


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("8", "no verdict of job 8: the accounting has no such job"),
        ("9", "no verdict of job 9: it has not ended yet"),
    ],
)
def test_a_request_that_can_not_be_met(site, sattrib, job, says):
    site.slurm.end(9, "RUNNING")
    site.once()
    assert _asked(site, sattrib, job) == (2, says)
    assert site.left() == []


def test_a_request_is_met_by_the_worker(site, sattrib):
    site.once()
    site.slurm.end(7, ago=5 * 86400)
    code, said = _asked(site, sattrib, "7")
    assert code == 0, said
    assert site.archived("7")


def _asked(site, sattrib, job):
    """What the command says, while a worker takes up its request."""

    def work():
        wait_until(lambda: any(name.endswith(".ask") for name in site.left()))
        os.close(held)
        site.once()

    held = lock(site.state / "worker.lock")
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    os.close(held)
    code, out, err = sattrib(job, "--line")
    process.join(30)
    return code, (err or out).splitlines()[-1].removeprefix("sattrib: ")


def test_the_spool_and_trying_again(site, sattrib):
    (site.spool / "a.env").write_bytes(b"SLURM_JOB_ID=x\0SATTRIB_END=1\0")
    assert sattrib("spool", "list")[0] == 2
    site.once()
    code, out, _ = sattrib("spool", "list")
    assert code == 0
    assert out.startswith("failed   0 ")
    assert out.endswith(" a.env no-job-id\n")
    assert sattrib("spool", "retry", "b.env")[0] == 2
    assert sattrib("spool", "retry", "a.env")[0] == 0
    assert site.left() == ["a.env"]


def test_status_says_what_is_missing_and_what_to_do(site, sattrib, tmp_path):
    site.spool.rename(tmp_path / "elsewhere")
    code, out, err = sattrib("status")
    assert code == 2
    assert out.splitlines() == [
        "worker    NOT RUNNING, never seen here; start it with: systemctl start sattrib",
        f"spool     {site.spool} is missing: make it as docs/install-slurm.md says, or name another in [spool] dir",
        f"archive   {site.archive_file} is missing: the worker makes it",
    ]
    assert (
        err
        == f"sattrib: {site.state}/status.json: is missing: the worker has not run here; start it with: systemctl start sattrib\n"
    )
    site.state.rename(tmp_path / "state elsewhere")
    code, out, err = sattrib("status")
    assert code == 2
    assert f"state     {site.state} is missing: make it as docs/install-slurm.md says" in out
    assert err == f"sattrib: {site.state}: is missing: the worker has not run here\n"
    assert sattrib("status", "--json")[0] == 2


def test_status_of_places_that_are_something_else(site, sattrib):
    site.once()
    site.archive_file.unlink()
    site.archive_file.mkdir()
    (site.state / "worker.lock").unlink()
    code, out, err = sattrib("status")
    assert (code, err) == (2, "")
    assert "NOT RUNNING, last seen" in out
    assert out.endswith(f"archive   {site.archive_file} is no regular file: name another in [archive] url\n")
    (site.state / "worker.lock").symlink_to("/etc/passwd")
    assert sattrib("status") == (
        2,
        "",
        f"sattrib: {site.state}/worker.lock: can't be read: Too many levels of symbolic links\n",
    )


def test_status_of_a_worker_that_just_began(site, sattrib):
    site.once()
    (site.state / "status.json").unlink()
    held = lock(site.state / "worker.lock")
    assert "running, and has not yet written" in sattrib("status")[1]
    os.close(held)


def test_status_without_and_with_a_worker(site, sattrib):
    code, _, err = sattrib("status")
    assert code == 2
    assert "the worker has not run here" in err
    site.slurm.end(7)
    site.once()
    code, out, _ = sattrib("status")
    assert code == 2
    assert "NOT RUNNING, last seen" in out
    assert "archived  1 since the start" in out
    with site.opened():
        assert "running, pid" in sattrib("status")[1]
        code, out, _ = sattrib("status", "--json")
    assert (code, json.loads(out)["archived"]) == (0, 1)


def test_what_would_be_written_and_why_not(site, sattrib):
    site.slurm.end(7)
    site.slurm.end(8)
    site.slurm.set_comment("1008", admin="JS1:abc\x1b[2J")
    site.once()
    assert "stands in AdminComment: it stands there already" in sattrib("comment", "7")[1]
    site.slurm.set_comment("1007", admin="")
    before = len(site.slurm.wrote)
    assert "would be written to AdminComment of 7: the field is empty" in sattrib("comment", "7")[1]
    assert len(site.slurm.wrote) == before
    out = sattrib("comment", "8")[1]
    assert "AdminComment now: JS1:abc\\x1b[2J" in out
    assert sattrib("comment", "9")[0] == 2


def test_only_root_and_the_workers_user_may_look(site, sattrib, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    code, out, err = sattrib("7")
    assert (code, out) == (2, "")
    assert err == "sattrib: only root and user sattrib can use this site's worker and archive; ask an admin\n"


def test_config_check_and_show(site, sattrib):
    code, out, _ = sattrib("config", "show")
    assert code == 0
    assert f'state_dir = "{site.state}"' in out
    site.spool.rmdir()
    code, out, _ = sattrib("config", "check")
    assert code == 2
    assert f"problem: spool.dir: {site.spool} is no directory" in out
