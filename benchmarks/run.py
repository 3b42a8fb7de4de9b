"""The engine's numbers, as ratios side by side in one run. Usage: run.py [NAME…] [--size MB]

The yardstick is `LC_ALL=C grep -c -i -F -f needles` on the same file with the same needles, writing to a pipe.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from attribution import ruleset
from attribution.bundle import Attempt, Bundle, Source
from attribution.engine.match import Prefilter
from attribution.engine.rules import RuleSet
from attribution.engine.select import needle_lists
from attribution.engine.session import Session
from attribution.ruleset.corpus import healthy_lines

WORK = Path(".bench")
BLOCK = 4 << 20
# The peak is the program's own: getrusage would give the parent's, if that was larger.
ANALYZE = """
import sys, time
from pathlib import Path
from attribution import pipeline
pipeline.analyze_bundle(Path(sys.argv[1]))
print(time.process_time(), Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


def best(run: Callable[[], object], times: int = 3) -> float:
    """The fastest of a few runs: what the work costs when the machine is not disturbed."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def bundle(*sources: Source, nodes: tuple[str, ...] = ("n1",)) -> Bundle:
    attempt = Attempt(
        cluster="c",
        job_id="1",
        state="FAILED",
        exit_code="1:0",
        nodes=nodes,
        start="2026-03-02T04:00:00Z",
        end="2026-03-02T05:00:00Z",
    )
    return Bundle(schema=1, attempt=attempt, sources=sources)


def grow(path: Path, size: int, line: Callable[[int], str]) -> Path:
    """A file of at least `size` bytes, made once."""
    if path.exists() and path.stat().st_size >= size:
        return path
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as out:
        number = 0
        while out.tell() < size:
            out.write("".join(line(number + i) + "\n" for i in range(10_000)))
            number += 10_000
    return path


def session_on(rules: RuleSet, path: Path, kind: str, *, fast: bool) -> Session:
    session = Session(rules, bundle(Source(path="x", kind=kind, node="n1")), fast=fast)  # type: ignore[arg-type]
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            session.ingest("x", block)
    session.ingest("x", b"", last=True)
    return session


def grep(rules: RuleSet, path: Path, kind: str) -> float:
    plain, context = needle_lists(rules, (kind,))
    needles = WORK / f"needles-{kind}"
    needles.write_text("\n".join(sorted({*plain, *context})) + "\n")
    command = ["grep", "-c", "-i", "-F", "-f", str(needles), str(path)]
    return best(
        lambda: subprocess.run(command, stdout=subprocess.PIPE, env={"LC_ALL": "C", "PATH": os.environ["PATH"]}, check=False), 2
    )


def both(name: str, rules: RuleSet, path: Path, kind: str, reach: str) -> None:
    size = path.stat().st_size / 1e6
    yard = grep(rules, path, kind)
    for fast in (True, False):
        took = best(lambda fast=fast: session_on(rules, path, kind, fast=fast), 2)
        print(
            f"{name:34} {'hyperscan' if fast else 'ahocorasick':12} {size / took:8.0f} MB/s   grep {size / yard:6.0f} MB/s   ratio {yard / took:6.2f}   ({reach})"
        )


def quiet_lines(rules: RuleSet | None = None, kind: str = "kern") -> list[str]:
    """Healthy lines; with `rules`, only those that hold no needle: what almost all lines of a real log are."""
    lines = [line for line in healthy_lines() if "NVRM" not in line]
    if rules is None:
        return lines
    block = "\n".join(lines).encode() + b"\n"
    hits = {c.start for c in Prefilter(rules.needles(kind), fast=False).candidates(block)}
    kept, at = [], 0
    for line in lines:
        if at not in hits:
            kept.append(line)
        at += len(line.encode()) + 1
    return kept


def clean(rules: RuleSet, size: int) -> None:
    lines = quiet_lines(rules)
    fault = "Mar  2 04:18:56 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    path = grow(WORK / f"clean-{size}.log", size << 20, lambda i: fault if i % 20_000 == 7 else lines[i % len(lines)])
    both("clean log, < 0.01 % hits", rules, path, "kern", "3 with fast, 0.2 without")


def noisy(rules: RuleSet, size: int) -> None:
    lines = quiet_lines(rules, "app")
    hit = "[rank{0}]:[E302 04:18:{1:02d}.183009389 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={2}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600026 milliseconds before timing out."
    path = grow(
        WORK / f"noisy-{size}.log",
        (size << 20) // 4,
        lambda i: hit.format(i % 64, i % 60, i) if i % 100 == 7 else f"{i % 64}: {lines[i % len(lines)]}",
    )
    both("noisy log, 1 % hits, 64 ranks", rules, path, "app", "published only")


def flood(rules: RuleSet, size: int) -> None:
    del size
    WORK.mkdir(exist_ok=True)

    def xid(i: int, detail: str) -> str:
        return f"Mar  2 04:{i // 60000 % 60:02d}:{i // 1000 % 60:02d} n1 kernel: NVRM: Xid (PCI:0000:3b:00): 95, pid=77, name=python3, {detail}"

    one = WORK / "flood-one.log"
    one.write_text("".join(xid(i, "Uncontained: LTC TAG. RST: Yes, D-RST: No") + "\n" for i in range(800_000)))
    mixed = WORK / "flood-mixed.log"
    mixed.write_text("".join(xid(i, f"Uncontained: LTC TAG (0x{i % 29:x},0x1). RST: Yes") + "\n" for i in range(800_000)))
    distinct = WORK / "flood-distinct.log"
    distinct.write_text("".join(xid(i, f"Uncontained: physAddr: 0x{i * 64:x}. RST: Yes") + "\n" for i in range(800_000)))
    for name, path, reach in (
        ("800,000 times one line", one, 10),
        ("800,000 times 29 lines", mixed, 10),
        ("800,000 distinct lines", distinct, 40),
    ):
        yard = grep(rules, path, "kern")
        for fast in (True, False):
            took = best(lambda fast=fast, path=path: session_on(rules, path, "kern", fast=fast), 2)
            print(
                f"{name:34} {'hyperscan' if fast else 'ahocorasick':12} {took:8.2f} s      grep {yard:6.2f} s      times grep {took / yard:6.1f}   (at most {reach})"
            )


def hostile(rules: RuleSet, size: int) -> None:
    """What a user can print to cost the most: a million different errors, of one rank, of as many ranks, of every rule."""
    del size
    samples = sorted({s for r in rules.extractors if r.metric is None and "app" in r.reads for s in r.match if "\n" not in s})
    shapes: dict[str, Callable[[int], str]] = {
        "1,000,000 errors of one rank": lambda i: f"RuntimeError: failure number {i} of {i * 7919 % 10007}",
        "1,000,000 errors of as many ranks": lambda i: f"[rank{i}]: RuntimeError: failure number {i}",
        "1,000,000 lines of every app rule": lambda i: f"[rank{i % 512}]: {samples[i % len(samples)]} {i}",
    }
    for name, line in shapes.items():
        folder = WORK / "hostile"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "x").open("w") as out:
            out.writelines(line(i) + "\n" for i in range(1_000_000))
        (folder / "bundle.json").write_bytes(
            msgspec.json.encode(bundle(Source(path="x", kind="app", node="n1"), nodes=("n1", "n2")))
        )
        done = subprocess.run([sys.executable, "-c", ANALYZE, str(folder)], capture_output=True, text=True, check=True)
        seconds, peak = done.stdout.split()
        print(f"{name:34} {'':12} {float(seconds):6.1f} s of CPU   {int(peak) / 1024:4.0f} MB peak   (under 300 MB)")


def memory(rules: RuleSet, size: int) -> None:
    """Peak memory of a child that reads ten times `size` MB from a generator."""
    del rules
    for fast in ("1", ""):
        done = subprocess.run(
            [sys.executable, __file__, "--child", str(size * 10)],
            env={**os.environ, "FAST": fast, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        )
        print(
            f"{'memory while reading ' + str(size * 10) + ' MB':34} {'hyperscan' if fast else 'ahocorasick':12} {done.stdout.strip()}   (under 300 MB)"
        )


def child(size: int) -> None:
    rules = ruleset.load(samples=False)
    session = Session(rules, bundle(Source(path="x", kind="app", node="n1")), fast=bool(os.environ.get("FAST")))
    for block in generated(size << 20):
        session.ingest("x", block)
    session.ingest("x", b"", last=True)
    session.attribute()
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f} MB peak")


def generated(size: int) -> Iterator[bytes]:
    lines = quiet_lines()
    block = "\n".join(f"[rank{i % 8}]: {line}" for i, line in enumerate(lines)).encode() + b"\n"
    for number in range(size // len(block) + 1):
        yield block + f"[rank{number % 8}]: RuntimeError: distinct failure number {number}\n".encode()


def collected(nodes: int) -> tuple[Bundle, dict[str, bytes]]:
    """Evidence as it comes from nodes: 30 folded kernel events and 8 ranks with 5 NCCL lines each, per node."""
    names = tuple(f"n{i:04d}" for i in range(nodes))
    texts, app = {}, []
    for number, name in enumerate(names):
        kern = [
            f"Mar  2 04:{k:02d}:{number % 60:02d} {name} kernel: NVRM: Xid (PCI:0000:{k:02x}:00): {('31', '43', '45', '63', '94')[k % 5]}, pid={k}, name=python3, Ch 0000000{k % 8}"
            for k in range(29)
        ]
        if number == nodes // 2:
            kern.append(f"Mar  2 04:00:01 {name} kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
        texts[f"{name}.kern"] = "\n".join(kern).encode()
        for rank in range(8):
            g = number * 8 + rank
            app += [
                f"[rank{g}]:[E302 04:58:00.1 ProcessGroupNCCL.cpp:607] [Rank {g}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88{k}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600026 milliseconds before timing out."
                for k in range(4)
            ]
            app.append(
                f"{g}: {name}:77:88 [{rank}] transport/net_ib.cc:1689 NCCL WARN NET/IB: Got completion from peer 10.0.0.1<40812> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
            )
    texts["app"] = "\n".join(app).encode()
    sources = [Source(path=f"{n}.kern", kind="kern", node=n) for n in names]
    return bundle(*sources, Source(path="app", kind="app", node=names[0]), nodes=names), texts


def evidence(rules: RuleSet, size: int) -> None:
    del size
    for nodes, reach in ((64, 1.0), (1000, 5.0)):
        case, texts = collected(nodes)

        def run(case: Bundle = case, texts: dict[str, bytes] = texts) -> Session:
            session = Session(rules, case)
            for path, text in texts.items():
                session.ingest(path, text, last=True)
            return session

        session = run()
        read, decide = best(run, 1), best(session.attribute, 2)
        verdict = session.attribute()
        print(
            f"{'collected evidence, ' + str(nodes) + ' nodes':34} {'':12} read {read:5.2f} s   attribute {decide:5.2f} s   {verdict.domain} {' '.join(verdict.responsible_nodes)}   (under {reach:.0f} s)"
        )


def startup(rules: RuleSet, size: int) -> None:
    del rules, size
    python = best(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 5)
    command = [str(Path(sys.executable).parent / "sattrib"), "analyze", "examples/nvlink/bundle", "--json"]
    took = best(lambda: subprocess.run(command, check=True, stdout=subprocess.PIPE), 3)
    load = best(lambda: ruleset.load(samples=False), 3)
    checked = best(lambda: ruleset.load(samples=True), 2)
    print(
        f"{'start-up of analyze':34} {'':12} {took:5.2f} s   python -c pass {python:5.3f} s   rules load {load:5.3f} s, with samples {checked:5.3f} s   (rules under 0.3 s)"
    )


BENCHES = {
    "clean": clean,
    "noisy": noisy,
    "flood": flood,
    "memory": memory,
    "hostile": hostile,
    "evidence": evidence,
    "startup": startup,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--size", type=int, default=1024, help="MB of the clean log")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child)
        return
    rules = ruleset.load(samples=False)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {len(rules.extractors)} extractors, grep {shutil.which('grep')}"
    )
    for name in args.names or BENCHES:
        BENCHES[name](rules, args.size)


if __name__ == "__main__":
    main()
