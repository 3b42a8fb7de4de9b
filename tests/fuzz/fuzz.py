"""Coverage-guided fuzzing of everything that reads hostile bytes: fuzz.py TARGET [-max_total_time=SECONDS …].

Targets: lines, session, bundle, rules. Needs atheris; `make fuzz` runs each for a while. A finding is a crash with the
input that caused it; it becomes a test.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["attribution"]):
    import msgspec

    from attribution import ruleset
    from attribution.bundle import Attempt, Bundle, Source
    from attribution.connectors.bundle import read_bundle
    from attribution.engine import lines
    from attribution.engine.session import Session
    from attribution.engine.stamps import Zone
    from attribution.errors import SattribError

RULES = ruleset.load(samples=False)
ZONE = Zone("America/New_York", 1_772_425_000.0)
FOLDER = Path(tempfile.mkdtemp(prefix="sattrib-fuzz-"))
KINDS = ("app", "kern", "journal", "fabricmanager", "slurmctld")


def fuzz_lines(data: bytes) -> None:
    found = lines.parse(data.decode("utf-8", "replace"))
    if found.stamp is not None:
        ZONE.wall(found.stamp)


def fuzz_session(data: bytes) -> None:
    attempt = Attempt(
        cluster="c", job_id="1", state="FAILED", nodes=("n1", "n2"), start="2026-03-02T00:00:00Z", end="2026-03-02T01:00:00Z"
    )
    kind = KINDS[data[0] % len(KINDS)] if data else "app"
    bundle = Bundle(schema=1, attempt=attempt, sources=(Source(path="x", kind=kind, node="n1"),))  # type: ignore[arg-type]
    session = Session(RULES, bundle, fast=False)
    half = len(data) // 2
    session.ingest("x", data[1:half])
    session.ingest("x", data[half:], last=True)
    verdict = session.attribute(explain=True)
    msgspec.json.encode(verdict)
    assert not any("KeyError" in d.what or "TypeError" in d.what for d in verdict.diagnostics), verdict.diagnostics


def fuzz_bundle(data: bytes) -> None:
    (FOLDER / "bundle.json").write_bytes(data)
    with contextlib.suppress(SattribError):
        read_bundle(FOLDER)


def fuzz_rules(data: bytes) -> None:
    folder = FOLDER / "rules"
    folder.mkdir(exist_ok=True)
    (folder / "x.toml").write_bytes(b"schema = 1\n" + data)
    with contextlib.suppress(SattribError):
        ruleset.load((), bundled=folder)


TARGETS = {"lines": fuzz_lines, "session": fuzz_session, "bundle": fuzz_bundle, "rules": fuzz_rules}

if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()
