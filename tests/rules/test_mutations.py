"""A sample that is changed so that it no longer means what its rule says must not give the rule's symptom."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from firing import fired, rules, sampled
from mutations import mutations

from attribution.engine.rules import Extractor
from attribution.model import Mutation

# What blames nobody may be told from fewer signs.
ALWAYS = ("number", "zero")
FILES = sorted({r.file for r, _ in sampled()})


@cache
def faults() -> dict[tuple[str, str, str], list[str]]:
    """(file, rule that fires, kind) -> the changed lines on which it still gives the symptom of the unchanged one."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for rule, sample in sampled():
        own = {symptom for r, symptom in fired(sample) if r.name == rule.name}
        blaming = any(rules().symptoms[s].role in ("root", "cascade") for s in own)
        for kind, line in mutations(rule, sample):
            if blaming or kind in ALWAYS:
                for other, symptom in fired(line):
                    if symptom in own and set(other.reads) & set(rule.reads):
                        found[other.file, other.name, kind].append(line)
    return found


@pytest.mark.parametrize("file", FILES, ids=[f"{Path(f).parent.name}/{Path(f).stem}" for f in FILES])
def test_a_near_miss_does_not_fire(file):
    allowed = {(r.name, kind) for r in rules().extractors for kind in r.also}
    lines = [
        f"{name}: fires although {kind}: {changed[0][:180]}"
        for (where, name, kind), changed in sorted(faults().items())
        if where == file and (name, kind) not in allowed
    ]
    assert not lines, "\n" + "\n".join(lines)


def test_every_exception_has_a_reason_and_is_needed():
    needed = {(name, kind) for _, name, kind in faults()}
    declared = {(r.name, kind): reason for r in rules().extractors for kind, reason in r.also.items()}
    assert [key for key, reason in declared.items() if key not in needed or len(reason.split()) < 3] == []


def rule(pattern: str, *reads: str, rows=None) -> Extractor:
    return Extractor(
        name="r", pattern=pattern, emit="bad_node", symptom="s", reads=reads or ("app",), needles=(), file="", rows=rows
    )


@pytest.mark.parametrize(
    ("made", "sample", "kind", "changed"),
    [
        (rule("Xid", "kern", rows={}), "NVRM: Xid (PCI:0000:3b:00): 79, off", "number", "NVRM: Xid (PCI:0000:3b:00): 790, off"),
        (rule("Xid", "kern", rows={}), "NVRM: Xid (PCI:0000:3b:00): 79, off", "tag", "ixgbevf: Xid (PCI:0000:3b:00): 79, off"),
        (rule("status=12", "app"), "wc status=12 on qp", "number", "wc status=127 on qp"),
        (rule("x", "app"), "ended by signal 9", "number", "ended by signal 15"),
        (rule("x", "app"), "3 uncorrectable errors on GPU 4", "zero", "0 uncorrectable errors on GPU 4"),
        (rule("x", "app"), "task ended, exit code 7", "zero", "task ended, exit code 0"),
        (rule("x", "app"), "the link was lost", "not", "the link was not lost"),
        (rule("x", "app"), "ECC error on GPU 3", "not", "no ECC error on GPU 3"),
        (rule("x", "syslog"), "Mar  2 04:18:56 n1 nfsd[4]: gone", "tag", "Mar  2 04:18:56 n1 backup-agent[4]: gone"),
        (rule("x", "app"), "[rank3]: NCCL error", "quoted", "# NCCL error"),
        (rule("x", "record"), "attempt State=FAILED ExitCode=9:0 Nodes=1", "state",
         "attempt State=COMPLETED ExitCode=0:0 Nodes=1"),
    ],
)  # fmt: skip
def test_what_a_near_miss_is(made, sample, kind, changed):
    assert (kind, changed) in list(mutations(made, sample))


@pytest.mark.parametrize(
    "sample",
    ["signal 9 (SIGKILL)", "prolog failed: exit code 7", "QID 2 timeout", "it was the fault", "[Errno 28] No space left"],
)
def test_what_stays_as_it_is(sample):
    assert [m for m in mutations(rule("x", "app"), sample) if m[0] != "quoted"] == []


def test_the_kinds_are_those_that_also_may_name():
    samples = ["NVRM: Xid (PCI:0000:3b:00): 79, 3 errors, it was lost", "attempt State=FAILED ExitCode=9:0 Nodes=1"]
    made = [rule("x", "kern", "app"), rule("x", "record")]
    assert {kind for r in made for s in samples for kind, _ in mutations(r, s)} == set(get_args(Mutation))
