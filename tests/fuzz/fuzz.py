"""Coverage-guided fuzzing of everything that reads hostile bytes: fuzz.py TARGET [-max_total_time=SECONDS …].

Targets: lines, session, bundle, rules. Needs atheris; `make fuzz` runs each for a while. It starts from the rules' samples
and the cases, since no fuzzer guesses JSON, TOML or a traceback. A finding is a crash with the input that caused it; it
becomes a test.
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

ROOT = Path(__file__).parents[2]
MOST_SEEDS, SEED_SIZE = 400, 4096


def seeds(target: str) -> list[bytes]:
    """Inputs as they occur: the fuzzer changes them."""
    samples = [line.encode() for rule in RULES.extractors if rule.metric is None for line in rule.match]
    cases = sorted((ROOT / "tests/cases").iterdir())
    if target == "lines":
        return samples
    if target == "session":
        logs = [path.read_bytes()[:SEED_SIZE] for case in cases for path in sorted(case.glob("*.log"))]
        return [bytes([number % len(KINDS)]) + text for number, text in enumerate(logs)]
    if target == "bundle":
        return [(case / "bundle.json").read_bytes() for case in cases if (case / "bundle.json").exists()]
    texts = [path.read_bytes().replace(b"schema = 1", b"") for path in sorted((ROOT / "rules").glob("*/*.toml"))]
    return [text[:SEED_SIZE].rpartition(b"\n[[")[0] for text in texts]


def seeded(target: str) -> str:
    """A directory with a few hundred seeds."""
    folder, found = FOLDER / "seeds", seeds(target)
    folder.mkdir()
    for number, seed in enumerate(found[:: 1 + len(found) // MOST_SEEDS]):
        (folder / str(number)).write_bytes(seed)
    return str(folder)


if __name__ == "__main__":
    folders = [a for a in sys.argv[2:] if not a.startswith("-")]
    if not any(Path(f).is_file() for f in folders):
        # libFuzzer keeps what it finds in the first directory, and only reads the others. A file is run again, alone.
        (FOLDER / "found").mkdir()
        folders = [*(folders or [str(FOLDER / "found")]), seeded(sys.argv[1])]
    options = [a for a in sys.argv[2:] if a.startswith("-")]
    atheris.Setup([sys.argv[0], *options, *folders], TARGETS[sys.argv[1]])
    atheris.Fuzz()
