"""Real job ends of every kind: what the archive says of each, and what sacct shows. All jobs run side by side."""

from __future__ import annotations

import functools
import json

import pytest
from harness import CONTROLLER, NODES, wait_until
from live import Live, coverage, place

pytestmark = pytest.mark.cluster

TRACEBACK = """cat > t.py <<E
def train(step):
    raise KeyError("optimizer")

train(1)
E
python3 t.py || exit 3
"""
DEAF = """cat > deaf.py <<E
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("step 1", flush=True)
for second in range(600):
    time.sleep(1)
    print("still here", second, flush=True)
E
exec python3 deaf.py
"""
OOM = """srun sh -c '[ $SLURM_PROCID = 0 ] && sleep 20 || python3 -c "print(len(bytearray(400 << 20)))"' """
HET = """srun --het-group=0,1 sh -c '[ $SLURM_PROCID = 0 ] || exit 5'"""
DENIED = """out=$PWD/slurm-$SLURM_JOB_ID.out; rm "$out"; ln -s /etc/shadow "$out"; exit 4"""
MIXED = "case $SLURM_ARRAY_TASK_ID in *[02468]) exit 0;; *5) kill -SEGV $$;; *) exit 6;; esac"
NASTY = "a'b\"c $(touch /tmp/evaluated) `touch /tmp/evaluated`\n|;&<> x "


@pytest.fixture(scope="module")
def jobs(live: Live) -> dict[str, str]:
    """Every ordinary end, submitted at once: by the time that one is looked at, the next ones are over."""
    cluster = live.cluster
    plans: dict[str, tuple[str, str, tuple[str, ...]]] = {
        "hang": ("alice", "echo step 1; sleep 600", ("-t", "1")),
        "cancelled by user": ("alice", "sleep 600", ()),
        "cancelled by root": ("alice", "sleep 600", ()),
        "deaf": ("alice", DEAF, ()),
        "jobstats": ("bob", "sleep 5; exit 8", ()),
        "completed": ("alice", "echo fine", ()),
        "traceback": ("alice", TRACEBACK, ()),
        "oom": ("alice", OOM, ("-N2", "--mem=100")),
        "array": ("bob", MIXED, ("--array=1-20",)),
        "step": ("alice", "srun python3 -c 'import torchh' || exit 0", ()),
        "missing program": ("alice", "srun /no/such/program", ()),
        "missing directory": ("alice", "echo here", ("-D", "/shared/alice/nowhere", "-o", "/shared/alice/nowhere.out")),
        "denied": ("alice", DENIED, ()),
    }
    found = {name: cluster.sbatch(user, script, "--mem=60", *more) for name, (user, script, more) in plans.items()}
    het = ["sbatch", "--parsable", "-N1", "--mem=60", ":", "-N1", "--mem=60"]
    found["het"] = cluster.run(CONTROLLER, het, user="alice", text=f"#!/bin/sh\n{HET}\n").stdout.strip()
    cluster.wait_state(found["jobstats"], ["RUNNING"])
    cluster.run(CONTROLLER, ["scontrol", "update", f"JobId={found['jobstats']}", "AdminComment=JS1:H4sIAAAA"])
    for name, user in (("cancelled by user", "alice"), ("cancelled by root", "root"), ("deaf", "alice")):
        cluster.wait_state(found[name], ["RUNNING"])
        if name == "deaf":
            said = f"grep -q 'still here' /shared/alice/slurm-{found['deaf']}.out && echo yes"
            wait_until(functools.partial(live.root, said, check=False), 20, "output")
        cluster.run(CONTROLLER, ["scancel", found[name]], user=user)
    return found


def test_a_completed_job(live: Live, jobs: dict[str, str]) -> None:
    found = live.verdict(jobs["completed"])
    assert (found["verdict"], place(found)) == ("no_failure", "completed none/success")
    assert live.admin_comment(jobs["completed"]) == ""


def test_a_python_traceback(live: Live, jobs: dict[str, str]) -> None:
    found = live.verdict(jobs["traceback"])
    assert found["attempt"]["reason"] == "NonZeroExitCode"
    assert found["attempt"]["exit_code"] == "3:0"
    assert (found["verdict"], found["terminal_state"], found["domain"]) == ("attributed", "application_failure", "application")
    assert any("KeyError" in one["text"] for one in found["root_cause"]["evidence"])
    assert live.comment(jobs["traceback"]).startswith("sattrib:1 application_failure application/")


def test_one_rank_of_two_nodes_ran_out_of_memory(live: Live, jobs: dict[str, str]) -> None:
    found = live.verdict(jobs["oom"])
    assert place(found) == "out_of_memory application/host_memory"
    assert found["drain_suggestions"] == []
    assert live.comment(jobs["oom"]).startswith("sattrib:1 out_of_memory application/host_memory ")


@pytest.mark.parametrize(("name", "sub_domain"), [("cancelled by user", "user_cancel"), ("cancelled by root", "admin_cancel")])
def test_who_cancelled(live: Live, jobs: dict[str, str], name: str, sub_domain: str) -> None:
    found = live.verdict(jobs[name])
    assert place(found) == f"cancelled scheduler/{sub_domain}"
    assert live.comment(jobs[name]).startswith(f"sattrib:1 cancelled scheduler/{sub_domain} ")


def test_what_a_deaf_task_said_last_is_in_the_verdict(live: Live, jobs: dict[str, str]) -> None:
    """It ignores SIGTERM and prints for KillWait more, long after its row was terminal."""
    found = live.verdict(jobs["deaf"])
    assert found["terminal_state"] == "cancelled"
    printed = live.root(f"cat /shared/alice/slurm-{jobs['deaf']}.out").splitlines()
    assert sum("still here" in line for line in printed) >= 8
    (app,) = [one for one in found["coverage"] if one["kind"] == "app"]
    assert (app["state"], app["lines"]) == ("read", len(printed))


def test_an_array_with_mixed_outcomes(live: Live, jobs: dict[str, str]) -> None:
    wait_until(lambda: len(live.verdicts(jobs["array"])) == 20, 60, "20 verdicts")
    for found in live.verdicts(jobs["array"]):
        task = int(found["attempt"]["array_task_id"])
        if task % 2 == 0:
            assert found["verdict"] == "no_failure"
            continue
        expected = ("0:11", "RaisedSignal:11") if task % 10 == 5 else ("6:0", "NonZeroExitCode")
        assert found["attempt"]["exit_code"] == expected[0]
        assert found["attempt"]["reason"].startswith(expected[1])
    assert live.comment(f"{jobs['array']}_5").startswith("sattrib:1 ")
    assert live.comment(f"{jobs['array']}_7").startswith("sattrib:1 ")
    assert live.admin_comment(f"{jobs['array']}_2") == ""


def test_each_component_of_a_het_job(live: Live, jobs: dict[str, str]) -> None:
    wait_until(lambda: len(live.verdicts(jobs["het"])) == 2, 60, "two verdicts")
    offsets = [found["attempt"]["het_offset"] for found in live.verdicts(jobs["het"])]
    assert sorted(offsets) == [0, 1]
    assert live.comment(f"{jobs['het']}+0").startswith("sattrib:1 ")


def test_a_failed_step_under_a_script_that_succeeded(live: Live, jobs: dict[str, str]) -> None:
    found = live.verdict(jobs["step"])
    assert place(found) == "completed application/import_error"
    assert found["facts"]["first_failed_step"]["step"] == "0"
    assert found["drain_suggestions"] == []
    assert live.comment(jobs["step"]).startswith("sattrib:1 completed application/import_error ")


def test_a_missing_program(live: Live, jobs: dict[str, str]) -> None:
    found = live.verdict(jobs["missing program"])
    assert place(found) == "application_failure application/launch_config"
    assert live.comment(jobs["missing program"]).startswith("sattrib:1 application_failure application/launch_config ")


def test_an_output_file_that_became_a_link_is_denied(live: Live, jobs: dict[str, str]) -> None:
    found = live.verdict(jobs["denied"])
    (app,) = coverage(found, "app")
    assert app[0] == "denied"
    assert "root:" not in json.dumps(found)


def test_a_comment_of_jobstats_is_untouched(live: Live, jobs: dict[str, str]) -> None:
    live.verdict(jobs["jobstats"])
    wait_until(lambda: live.admin_comment(jobs["jobstats"], "SystemComment").startswith("sattrib:1 "), 30, "SystemComment")
    assert live.admin_comment(jobs["jobstats"]) == "JS1:H4sIAAAA"


def test_a_hostile_name_comment_and_path(live: Live) -> None:
    """Nothing in them is run, and nothing is lost: neither the verdict nor the output at the end of the path."""
    cluster = live.cluster
    fill = (NASTY * 40)[:1024]
    directory = "/shared/alice" + "".join(f"/{number:02}{NASTY.replace('/', '-')}{'d' * 150}" for number in range(16))
    cluster.run(CONTROLLER, ["mkdir", "-p", directory], user="alice")
    output = f"{directory}/{'o' * 200}"
    assert 3500 < len(output) < 4096
    job = cluster.sbatch("alice", TRACEBACK, "--mem=60", "-J", fill, "--comment", fill, "-o", output)
    found = live.verdict(job)
    assert coverage(found, "app")[0][0] == "read"
    assert found["domain"] == "application"
    assert live.comment(job).startswith("sattrib:1 application_failure ")
    for node in (CONTROLLER, *NODES):
        assert cluster.run(node, ["test", "-e", "/tmp/evaluated"], check=False).returncode == 1
    assert live.root("find /var/spool/sattrib -name '*.env*'") == ""


def test_a_request_and_who_may_ask(live: Live, jobs: dict[str, str]) -> None:
    job = jobs["traceback"]
    assert live.sattrib(job, "--line").stdout.startswith(f"{job}  application_failure  application/")
    refused = live.sattrib(job, user="alice", check=False)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    unknown = live.sattrib("99999", check=False)
    last = unknown.stderr.splitlines()[-1]
    assert (unknown.returncode, last) == (2, "sattrib: no verdict of job 99999: the accounting has no such job")
    assert "stands in AdminComment: it stands there already" in live.sattrib("comment", job).stdout
    assert "running, pid" in live.sattrib("status").stdout


def test_a_missing_working_directory_is_shown(live: Live, jobs: dict[str, str]) -> None:
    """Slurm calls it completed; read in full (`[collect] policy`), the verdict shows where it really ran. Also: `--once`."""
    assert live.verdict(jobs["missing directory"])["terminal_state"] == "completed"
    live.root("install -d -o sattrib -g sattrib -m 700 /tmp/second /tmp/second-spool")
    live.configure("/etc/sattrib/second.toml", "/tmp/second", "all", 'on = "off"', '[spool]\ndir = "/tmp/second-spool"\n')
    live.sattrib("worker", "--once", "--config", "/etc/sattrib/second.toml", user="sattrib")
    (found,) = live.verdicts(jobs["missing directory"], "/tmp/second/archive.db")
    assert found["terminal_state"] == "completed"
    assert "couldn't chdir to `/shared/alice/nowhere'" in json.dumps(found)


def test_a_job_that_hung_into_its_limit(live: Live, jobs: dict[str, str]) -> None:
    found = live.verdict(jobs["hang"], timeout=150)
    assert place(found) == "time_limit scheduler/time_limit"
    assert live.comment(jobs["hang"]).startswith("sattrib:1 time_limit scheduler/time_limit ")
