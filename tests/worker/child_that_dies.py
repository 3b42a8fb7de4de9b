"""A child that does what the job's account says before it judges."""

from __future__ import annotations

import os
import signal
import sys
import time

from attribution import pipeline
from attribution.connectors.bundle import read_bundle
from attribution.worker import child


def busy(until):
    while time.process_time() < until:
        pass


judge = pipeline.analyze_bundle
DEEDS = {
    "segv": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(9),
    "hang": lambda: time.sleep(600),
    "spin": lambda: [None for _ in iter(int, 1)],
    "eat": lambda: bytearray(8 << 30),
    "raise": lambda: {}["no such key"],
    "busy": lambda: busy(time.process_time() + 0.5),
    "babble": lambda: os.write(int(sys.argv[1]), b"\0\0\0\4nope"),
}


def analyze_bundle(folder, *arguments, step, **more):
    deed = read_bundle(folder).attempt.account or ""
    if deed == "once" and not os.path.exists(f"{folder}/../../died"):
        open(f"{folder}/../../died", "w").close()
        deed = "segv"
    step("read app")
    DEEDS.get(deed, lambda: None)()
    return judge(folder, *arguments, step=step, **more)


pipeline.analyze_bundle = analyze_bundle
sys.exit(child.main(sys.argv[1:]))
