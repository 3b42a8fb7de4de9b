"""Record what a real Slurm answers: python tests/slurm/record.py CONTAINER > tests/slurm/recorded/slurm-VERSION.json

CONTAINER is the controller of the test cluster, which is otherwise idle. Runs scenario.sh there and then every command
that the backend runs, and keeps argv, output and status. The random column delimiter becomes the word <>.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from attribution import proc
from attribution.config import parse
from attribution.slurm.cli import Cli

HERE = Path(__file__).parent
PROGRAMS = ("sacct", "scontrol", "squeue", "sacctmgr")
CONFIG = parse("[slurm]\n" + "".join(f'{name} = "/usr/bin/{name}"\n' for name in PROGRAMS))
DOCKER = {"HOME": "/root", **{name: value for name, value in os.environ.items() if name == "DOCKER_HOST"}}
HOSTLISTS = (HERE / "recorded" / "hostlists.txt").read_text().split("\n")


async def main(container):
    answers = []

    async def inside(argv, *, env=None, **more):
        words = [word for key, value in (env or {}).items() for word in ("-e", f"{key}={value}")]
        argv_there = ["/usr/bin/docker", "exec", *words, container, *argv]
        done = await proc.arun(argv_there, **{**more, "env": DOCKER, "check": False, "timeout": 400})
        answers.append({"argv": list(argv), "stdout": done.text, "stderr": done.stderr.decode(), "returncode": done.returncode})
        return done

    await proc.arun(["/usr/bin/docker", "cp", str(HERE / "scenario.sh"), f"{container}:/tmp/scenario.sh"], env=DOCKER)
    jobs = (await inside(["/bin/bash", "/tmp/scenario.sh"])).text.strip().split("\n")[-1]
    answers.clear()
    slurm = Cli(CONFIG, inside, lambda: "<>")
    await slurm.cluster()
    known = await slurm.attempts(jobs.split(","))
    ends = [one.end for one in known if one.end]
    await slurm.ends(min(ends), max(ends))
    await slurm.in_memory(None)
    await slurm.in_memory(["999999"])
    await slurm.completing()
    nodes = sorted({name for one in known for name in one.attempt.nodes})
    await slurm.nodes(nodes)
    await slurm.comments(jobs.split(","))
    two = next(one for one in known if one.name == "two")
    await slurm.neighbours(two, two.start - 900, two.end + 300)
    await slurm.has_comment(two.raw_id)
    await slurm.has_comment("999999")
    hostlists = {}
    for text in filter(None, HOSTLISTS):
        done = await inside(["/usr/bin/scontrol", "show", "hostnames", text])
        answers.pop()
        hostlists[text] = done.text.split("\n")[:-1] if not done.stderr else None
    files = (await inside(["/bin/ls", "/shared/alice"])).text.split("\n")
    drained = (await inside(["/bin/cat", "/tmp/drained"])).text
    del answers[-2:]
    kept = {
        "jobs": jobs.split(","),
        "nodes": nodes,
        "answers": answers,
        "hostlists": hostlists,
        "files": files,
        "drained": drained,
    }
    json.dump(kept, sys.stdout, indent=1)


asyncio.run(main(sys.argv[1]))
