"""Which attempt a hook record is of. A wrong match would blame the wrong nodes, so two possible ones are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attribution.model import Frozen
from attribution.slurm.hook import HookEnd
from attribution.slurm.values import Accounted

NEAR = 60


class Match(Frozen, frozen=True):
    """The attempt, or None and why it is undecided: then the record waits, and polling decides."""

    found: Accounted | None
    why: str


def match(end: HookEnd, candidates: Iterable[Accounted]) -> Match:
    """By SLUID (25.11+), else start time (23.02+), else the one attempt of that job id whose span holds the hook's time.

    `candidates` are attempts of any job ids. An attempt that is not terminal yet can be the match.
    """
    own = [
        one for one in candidates
        if one.raw_id == end.raw_id and (not end.cluster or one.attempt.cluster == end.cluster)
    ]  # fmt: skip
    if not own:
        return Match(found=None, why=f"the accounting has no row of job {end.raw_id} yet")
    # An older sacct has no SLUID column although the hook's environment has it: then start time decides.
    if end.sluid and any(one.sluids for one in own):
        return _one(own, lambda one: end.sluid in one.sluids, f"SLUID {end.sluid}")
    if end.start is not None:
        return _one(own, lambda one: end.start in one.starts, f"start time {end.start}")
    return _one(own, lambda one: _holds(one, end.time), f"a span around {end.time:.0f}")


def _one(own: list[Accounted], test: Callable[[Accounted], bool], by: str) -> Match:
    found = [one for one in own if test(one)]
    if len(found) == 1:
        return Match(found=found[0], why=f"by {by}")
    return Match(found=None, why=f"{len(found)} of {len(own)} attempts of job {own[0].raw_id} have {by}")


def _holds(one: Accounted, time: float) -> bool:
    if one.start is None:
        return False
    return one.start - NEAR <= time and (one.end is None or time <= one.end + NEAR)
