from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from attribution.config import parse
from attribution.proc import Finished
from attribution.slurm.cli import Cli

RECORDED = sorted((Path(__file__).parent / "recorded").glob("slurm-*.json"))
CONFIG = parse("[slurm]\n" + "".join(f'{name} = "/usr/bin/{name}"\n' for name in ("sacct", "scontrol", "squeue", "sacctmgr")))


@pytest.fixture(autouse=True)
def _no_slurm_of_the_caller(monkeypatch):
    for name in os.environ:
        if name.startswith(("SLURM_", "SATTRIB_")):
            monkeypatch.delenv(name)


class FakeSlurm:
    """Stands where processes are started: gives what a real Slurm answered, and refuses what was not recorded."""

    def __init__(self, path):
        self.content = json.loads(path.read_text())
        self.answers = {tuple(answer["argv"]): answer for answer in self.content["answers"]}
        self.version = path.stem.removeprefix("slurm-")
        self.asked = []
        self.slurm = Cli(CONFIG, self.run, lambda: "<>")

    async def run(self, argv, *, check=True, error=Exception, env=None, **more):
        assert env["SLURM_TIME_FORMAT"] == "%s"
        self.asked.append(list(argv))
        answer = self.answers.get(tuple(argv))
        assert answer is not None, f"not recorded: {argv}"
        if check and answer["returncode"]:
            raise error(answer["stderr"])
        out, err = answer["stdout"].encode(), answer["stderr"].encode()
        return Finished(argv=tuple(argv), returncode=answer["returncode"], stdout=out, stderr=err, seconds=0.0)

    def attempts(self):
        """All attempts by job name: several where a job was requeued, or has tasks or components."""
        found = {}
        for one in asyncio.run(self.slurm.attempts(self.content["jobs"])):
            found.setdefault(one.name, []).append(one)
        return found


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem, scope="session")
def recorded(request):
    return FakeSlurm(request.param)
