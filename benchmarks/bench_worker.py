"""How many small verdicts a second the worker brings from the spool into the archive.

Slurm's commands are fakes at the edge of the process: they answer with rows that a real 24.11 printed, under new ids. All
else is real: the hook's records, the worker, its children, SQLite with synchronous=FULL, AdminComment off.

python benchmarks/bench_worker.py [--jobs 1000] [--failed 0.5] [--slots 2]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from attribution.config import parse
from attribution.proc import Finished
from attribution.slurm.cli import Cli
from attribution.spool import dump
from attribution.worker.loop import Worker, _opened

RECORDED = Path(__file__).parents[1] / "tests" / "slurm" / "recorded" / "slurm-24.11.5.json"
FIRST_ID = 100_000
TEMPLATES = {True: "31", False: "30"}  # recorded: exit 9, and a success


class Slurm:
    """sacct, squeue and scontrol, as far as the worker asks them; anything else is refused."""

    def __init__(self, jobs: int, failed: float) -> None:
        answers = json.loads(RECORDED.read_text())["answers"]
        self.jobs = {str(FIRST_ID + number): number < jobs * failed for number in range(jobs)}
        self.fixed = {tuple(answer["argv"]): answer["stdout"] for answer in answers if "-j" not in answer["argv"]}
        self.rows: dict[str, list[str]] = {}
        for answer in answers:
            argv = answer["argv"]
            if argv[0].endswith("sacct") and "-j" in argv and "JobID," in argv[6] + "," + argv[5]:
                fields = argv[argv.index("-o") + 1]
                self.rows.setdefault(fields, answer["stdout"].splitlines())
        self.end = int(time.time()) - 100

    async def run(self, argv, **_more) -> Finished:
        return Finished(argv=tuple(argv), returncode=0, stdout=self._answer(list(argv)).encode(), stderr=b"", seconds=0.0)

    def _answer(self, argv: list[str]) -> str:
        if argv[0].endswith("sacct") and "-j" in argv:
            return self._sacct(argv)
        if argv[0].endswith("sacct") and "-S" in argv:
            return ""
        if argv[0].endswith("squeue"):
            return ""
        if "show" in argv and "node" in argv:
            return ""
        found = self.fixed.get(tuple(argv))
        assert found is not None, f"not known: {argv}"
        return found

    def _sacct(self, argv: list[str]) -> str:
        fields = argv[argv.index("-o") + 1].split(",")
        delimiter = next(word for word in argv if word.startswith("--delimiter=")).removeprefix("--delimiter=")
        lines = []
        for job in argv[argv.index("-j") + 1].split(","):
            for step in ("", ".batch"):
                lines.append(delimiter.join(self._cell(name, job, step) for name in fields))
        return "".join(f"{line}\n" for line in lines)

    def _cell(self, name: str, job: str, step: str) -> str:
        failed = self.jobs[job]
        values = {
            "JobID": job + step, "JobIDRaw": job + step, "Cluster": "test", "DBIndex": job + "77", "SLUID": "",
            "State": "FAILED" if failed else "COMPLETED", "ExitCode": "9:0" if failed else "0:0",
            "DerivedExitCode": "" if step else "0:0", "Submit": str(self.end - 60), "Start": str(self.end - 60),
            "End": str(self.end), "NodeList": "node-11", "User": "alice", "UID": "2001", "Account": "research",
            "Partition": "main", "TimelimitRaw": "UNLIMITED", "Restarts": "0", "JobName": "exit9", "WorkDir": "/tmp",
            "StdOut": "", "StdErr": "",
        }  # fmt: skip
        return values.get(name, "")


def measure(jobs: int, failed: float, slots: int, root: Path) -> tuple[float, int]:
    """Seconds from the first record claimed to the last record removed, and how many verdicts there are."""
    (root / "spool").mkdir()
    (root / "state").mkdir()
    names = "".join(f'{name} = "/usr/bin/{name}"\n' for name in ("sacct", "scontrol", "squeue", "sacctmgr"))
    config = parse(
        f'[slurm]\n{names}[spool]\ndir = "{root}/spool"\nstop_percent = 100\n[archive]\nurl = "sqlite:///{root}/state/a.db"\n'
        f'[collect]\nsources = []\n[comment]\non = "off"\n[rules]\ndirs = []\n[worker]\nstate_dir = "{root}/state"\nslots = {slots}\n'
    )
    slurm = Slurm(jobs, failed)
    for number in range(jobs):
        values = {"SLURM_JOB_ID": str(FIRST_ID + number), "SLURM_CLUSTER_NAME": "test"}
        values["SLURM_JOB_START_TIME"] = str(slurm.end - 60)
        (root / "spool" / f"r{number}.env").write_bytes(dump(values))
    began = time.monotonic()
    with _opened(config, Cli(config, slurm.run)) as shared:
        asyncio.run(Worker(shared).run(once=True))
        took = time.monotonic() - began
        return took, len(shared.archive.since(0.0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--failed", type=float, default=0.5, help="share of jobs that failed")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--dir", default="/var/tmp", help="where spool, work and archive are")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        took, verdicts = measure(options.jobs, options.failed, options.slots, Path(folder))
    print(f"{verdicts} verdicts in {took:.1f} s: {verdicts / took:.0f} a second, start-up and last look included")
    return 0 if verdicts == options.jobs else 1


if __name__ == "__main__":
    raise SystemExit(main())
