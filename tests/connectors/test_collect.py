"""All connectors together on real files: from an attempt to a bundle that gives a verdict."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from attribution import connectors, pipeline
from attribution.bundle import Attempt, Bundle
from attribution.config import parse
from attribution.connectors import app, local
from attribution.engine.stamps import iso

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."


@pytest.fixture
def site(tmp_path, now, xid, rule_dir):
    """A site's files and configuration; the files are this process's own, so that no sattrib-open is needed."""
    (tmp_path / "nodes" / "n1").mkdir(parents=True)
    (tmp_path / "nodes" / "n1" / "kern.log").write_text(xid(-60))
    at = iso(now - 30)[:-1]
    (tmp_path / "slurmctld.log").write_text(f"[{at}.000] error: Nodes n1 not responding\n")
    (tmp_path / "out").write_text(f"step 1\n{XID}\n")
    for path in tmp_path.rglob("*"):
        os.utime(path, (now, now))
    (tmp_path / "bundle").mkdir()
    return tmp_path


def configure(site, more="", **changed):
    text = {
        "local": f'[local]\nslurmctld_log = "{site}/slurmctld.log"\n[local.nodes]\nkern = ["{site}/nodes/{{node}}/kern.log"]\n',
        "app": f'[app]\nopener = "{site}/no.sock"\n', "collect": "[collect]\ntimeout_seconds = 20\n",
        "rules": f'[rules]\ndirs = ["{site}/none"]\n', **changed,
    }  # fmt: skip
    return parse("".join(text.values()) + more)


def request_of(site, now, **changed):
    given = {"complete": True, "batch_host": "n1"}
    given |= {k: changed.pop(k) for k in list(changed) if k in ("complete", "batch_host", "work_dir", "name")}
    attempt = Attempt(**{
        "cluster": "c", "job_id": "7", "state": "FAILED", "exit_code": "1:0", "nodes": ("n1", "n2"), "start": iso(now - 3600),
        "end": iso(now), "uid": os.geteuid(), "stdout": f"{site}/out", "stderr": f"{site}/out", **changed,
    })  # fmt: skip
    return connectors.Request(attempt=attempt, window_start=now - 4500, window_end=now + 300, folder=site / "bundle", **given)


def collect(request, config):
    async def run():
        try:
            return await connectors.collect_all(request, config)
        finally:
            await connectors.close()

    return {source.path: source for source in asyncio.run(run())}


def states(sources):
    return {path: source.coverage.state for path, source in sources.items()}


def test_everything_that_is_configured_is_read(site, now):
    found = collect(request_of(site, now), configure(site))
    assert states(found) == {
        "app/out": "read", "slurmctld.log": "read", "nodes/n1/kern-kern.log": "read", "nodes/n2/kern-kern.log": "unreachable",
    }  # fmt: skip
    assert [found[p].node for p in found] == ["n1", "n1", "n2", None]
    assert f"{site}/nodes/n2/kern.log: no such file" == found["nodes/n2/kern-kern.log"].coverage.reason


def test_what_was_collected_is_a_bundle_with_a_verdict(site, now):
    request = request_of(site, now)
    found = collect(request, configure(site))
    bundle = Bundle(schema=1, attempt=request.attempt, sources=tuple(found.values()))
    (request.folder / "bundle.json").write_bytes(msgspec.json.encode(bundle))
    verdict = pipeline.analyze_bundle(request.folder).verdict
    assert (verdict.domain, verdict.responsible_nodes) == ("hardware", ("n1",))
    assert {c.source: c.state for c in verdict.coverage}["nodes/n2/kern-kern.log"] == "unreachable"


def test_files_of_the_bundle_are_private(site, now):
    request = request_of(site, now)
    collect(request, configure(site))
    for path in request.folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_attempt_of_which_nothing_is_wanted_costs_nothing(site, now):
    assert collect(request_of(site, now, complete=False), configure(site)) == {}
    assert list((site / "bundle").iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "state", "says"),
    [
        ({"stdout": "/dev/null", "stderr": "/dev/null"}, "empty", "/dev/null"),
        ({"stdout": None, "stderr": None}, "not_configured", "names no output file"),
        ({"uid": None}, "denied", "whose file"),
        ({"uid": os.geteuid() + 1}, "denied", "systemctl enable --now sattrib-open.socket"),
        ({"stdout": "/nowhere/x", "stderr": None}, "unreachable", "not on the controller"),
    ],
)
def test_output_that_can_not_be_read_is_said(site, now, changed, state, says):
    found = collect(request_of(site, now, **changed), configure(site))
    (source,) = [s for s in found.values() if s.kind == "app"]
    assert source.coverage.state == state
    assert says in source.coverage.reason


def test_links_and_fifos_as_output_are_denied(site, now):
    (site / "link").symlink_to("/etc/passwd")
    os.mkfifo(site / "fifo")
    found = collect(request_of(site, now, stdout=f"{site}/link", stderr=f"{site}/fifo"), configure(site))
    assert states(found)["app/link"] == states(found)["app/fifo"] == "denied"
    assert not list((site / "bundle" / "app").iterdir())


def test_strange_names_stay_inside_the_bundle(site, now):
    for name in ("a b\n*", "..hidden", "ü" * 60, "bundle/../out"):
        if "/" not in name:
            (site / name).write_text(XID + "\n")
            os.utime(site / name, (now, now))
        found = collect(request_of(site, now, stdout=f"{site}/{name}", stderr=None), configure(site))
        (source,) = [s for s in found.values() if s.kind == "app"]
        assert source.coverage.state == "read", name
        assert (site / "bundle" / source.path).resolve().is_relative_to(site / "bundle" / "app")
        for path in (site / "bundle").rglob("*"):
            if path.is_file():
                path.unlink()


def test_extra_patterns_name_a_file_for_each_node(site, now):
    for node in ("n1", "n2"):
        (site / f"rank-{node}-7.log").write_text(XID + "\n")
        os.utime(site / f"rank-{node}-7.log", (now, now))
    config = configure(site, app=f'[app]\nopener = "{site}/no.sock"\nextra = ["rank-%N-%j.log", "%x.err"]\n')
    found = collect(request_of(site, now, work_dir=str(site), name="train"), config)
    assert states(found)["app/rank-n1-7.log"] == states(found)["app/rank-n2-7.log"] == "read"
    assert found["app/rank-n2-7.log"].node == "n2"
    assert states(found)["app/train.err"] == "unreachable"


@pytest.mark.parametrize("node", ["../../etc", "..", ".", "a/b", "n1\n", "", "-x", "n1 n2"])
def test_a_node_name_never_leads_out_of_the_tree(site, now, node):
    found = collect(request_of(site, now, nodes=(node,)), configure(site))
    (source,) = [s for s in found.values() if s.kind == "kern"]
    assert source.coverage.state == "not_configured"
    assert "no name of a node" in source.coverage.reason


def test_another_place_than_the_controller_is_said_to_be_missing(site, now):
    config = configure(site, app='[app]\nvia = "node"\n')
    found = collect(request_of(site, now), config)
    assert found["app/stdout"].coverage.state == "not_configured"
    assert app.check(config)


def test_slurmctlds_log_is_named_by_slurm_itself(site, now, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sacct", "squeue", "sacctmgr", "scontrol"):
        (tools / name).write_text(
            f"#!/bin/sh\nprintf 'ClusterName = c\\nSLURM_VERSION = 24.11.5\\nSlurmctldLogFile = {site}/slurmctld.log\\n'\n"
        )
        (tools / name).chmod(0o755)
    more = f'[slurm]\nbin_dirs = ["{tools}"]\n'
    assert states(collect(request_of(site, now), configure(site, more, local="")))["slurmctld.log"] == "read"
    more = '[slurm]\nbin_dirs = ["/nowhere"]\n'
    found = collect(request_of(site, now), configure(site, more, local=""))
    assert found["slurmctld.log"].coverage.state == "not_configured"
    assert "scontrol" in found["slurmctld.log"].coverage.reason


def test_a_connector_that_crashes_or_hangs_is_coverage(site, now, monkeypatch):
    async def crash(request, config):
        raise KeyError("x")

    async def hang(request, config):
        await asyncio.sleep(60)

    monkeypatch.setattr(connectors, "GRACE", 0.1)
    monkeypatch.setattr(app, "collect", crash)
    monkeypatch.setattr(local, "collect", hang)
    began = time.monotonic()
    found = collect(request_of(site, now), configure(site, collect="[collect]\ntimeout_seconds = 1\n"))
    assert states(found) == {"connector app": "unreachable", "connector local": "timed_out"}
    assert time.monotonic() - began < 5


def test_an_opener_that_says_nothing_is_timed_out(site, now):
    import socket

    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{site}/open.sock")
        door.listen()
        config = configure(site, app=f'[app]\nopener = "{site}/open.sock"\n', collect="[collect]\ntimeout_seconds = 1\n")
        found = collect(request_of(site, now), config)
    assert states(found)["app/out"] == "timed_out"
    assert states(found)["slurmctld.log"] in ("read", "timed_out")


def test_a_job_of_ten_thousand_nodes_fits_into_a_message(site, now):
    regular = tuple(f"n{n:05d}" for n in range(10_000))
    odd = tuple(f"{n * 7919:x}-{n}-rack{n * 31 % 977}.example" for n in range(10_000))
    for nodes in (regular, odd):
        found = collect(
            request_of(site, now, nodes=nodes), configure(site, local=f'[local]\nslurmctld_log = "{site}/slurmctld.log"\n')
        )
        assert states(found) == {"app/out": "read", "slurmctld.log": "read"}


def test_a_second_try_overwrites_the_first(site, now):
    for _ in range(2):
        assert states(collect(request_of(site, now), configure(site)))["app/out"] == "read"


def test_a_busy_opener_is_asked_again(site, now):
    """An opener that says busy twice and then hands over a file."""
    import socket
    import threading

    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{site}/open.sock")
        door.listen()

        def answer():
            for number in range(3):
                line, _ = door.accept()
                with line:
                    if number < 2:
                        line.sendall(b'{"error": "busy", "reason": "not taken"}\n')
                    else:
                        fd = os.open(site / "out", os.O_RDONLY)
                        socket.send_fds(line, [b'{"ok": true}\n'], [fd])
                        os.close(fd)

        thread = threading.Thread(target=answer)
        thread.start()
        found = collect(request_of(site, now), configure(site, app=f'[app]\nopener = "{site}/open.sock"\n'))
        thread.join()
    assert states(found)["app/out"] == "read"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: app through sattrib-open is NOT tested")
def test_another_users_output_is_read_through_sattrib_open(site, now):
    import pwd

    owner = pwd.getpwnam("games")
    for parent in [site, *list(site.parents)[:3]]:
        if parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    os.chown(site / "out", owner.pw_uid, owner.pw_gid)
    (site / "out").chmod(0o600)
    os.utime(site / "out", (now, now))
    (site / "private").write_text(XID)
    (site / "private").chmod(0o600)
    door = site / "open.sock"
    opener = subprocess.Popen(
        [sys.executable, "-m", "attribution.opener", "--listen", str(door), "--peer", "0", "--least-uid", "1"]
    )
    try:
        while not door.exists():
            time.sleep(0.01)
        time.sleep(0.1)
        request = request_of(site, now, uid=owner.pw_uid, stderr=f"{site}/private")
        found = collect(request, configure(site, app=f'[app]\nopener = "{door}"\n'))
    finally:
        opener.kill()
        opener.wait()
    assert states(found)["app/out"] == "read"
    assert XID in (site / "bundle" / "app" / "out").read_text()
    assert (states(found)["app/private"], found["app/private"].coverage.reason) == (
        "denied",
        f"{site}/private: Permission denied",
    )


def test_the_check_names_what_is_wrong(site):
    assert local.check(configure(site)) == []
    config = configure(site, local='[local]\nslurmdbd_log = "/nowhere/x"\n[local.nodes]\nkern = ["/var/log/kern.log"]\n')
    assert len(connectors.check_all(config)) == 3


def test_sources_are_sorted_and_serialise(site, now):
    found = collect(request_of(site, now), configure(site))
    assert list(found) == sorted(found)
    assert json.loads(msgspec.json.encode(tuple(found.values())))
