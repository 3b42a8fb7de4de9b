"""Exit codes in words Slurm does not use, and the step that failed first."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from attribution.bundle import Step
from attribution.model import Frozen
from attribution.slurm.values import base_state

# Slurm's own signal number for the kernel's out-of-memory kill: SIG_OOM 253, of which an exit status keeps 7 bits.
SIG_OOM = 125
# Up to this release sacct takes 128 off exit codes from 128 up: 137 becomes "9:0".
LAST_SHIFTED = (25, 5)


class ExitCode(Frozen, frozen=True):
    """`code` as the program returned it, the signal that ended it, whether that was the out-of-memory kill.

    `maybe` is the other code that sacct could have meant; None where it is certain.
    """

    code: int
    signal: int
    out_of_memory: bool = False
    maybe: int | None = None


def decode(text: str, version: tuple[int, int]) -> ExitCode | None:
    """What sacct's `code:signal` of this Slurm release (major, minor) means; None where it is empty or no exit code."""
    match = re.fullmatch(r"([0-9]{1,3}):([0-9]{1,3})", text, re.ASCII)
    if not match:
        return None
    code, signal = int(match[1]), int(match[2])
    shifted = version <= LAST_SHIFTED and 0 < code < 128 and signal == 0
    return ExitCode(
        code=code,
        signal=0 if signal == SIG_OOM else signal,
        out_of_memory=signal == SIG_OOM,
        maybe=code + 128 if shifted else None,
    )


def unshift(shown: str, true: str) -> str:
    """`shown` by sacct, or `true` (slurmctld's own) where it only differs by the 128 that sacct takes off."""
    match = re.fullmatch(r"([0-9]{1,3}):0", shown, re.ASCII)
    return true if match and true == f"{int(match[1]) + 128}:0" else shown


def unshift_steps(steps: Iterable[Step], derived: str) -> tuple[Step, ...]:
    """The steps, with the exit code of the one that DerivedExitCode proves to have been shifted.

    DerivedExitCode is the highest of the numbered steps' and is not shifted. If only one step can be the one meant, and
    none shows a code of 128 or more (such a sacct does not shift), it is that one.
    """
    listed = tuple(steps)
    meant = [step for step in listed if _place(step.step_id)[0] == 0 and unshift(step.exit_code, derived) != step.exit_code]
    if len(meant) != 1 or any(re.match(r"(12[89]|1[3-9][0-9]|2[0-9][0-9]):", step.exit_code) for step in listed):
        return listed
    return tuple(msgspec.structs.replace(step, exit_code=derived) if step is meant[0] else step for step in listed)


def failed(step: Step) -> bool:
    """It ended badly. RESIZING is the row of a step that went on in another size of the job."""
    return base_state(step.state) not in {"COMPLETED", "RUNNING", "PENDING", "RESIZING", "SUSPENDED"}


def first_failed(steps: Iterable[Step]) -> Step | None:
    """The step that failed first: by end, then those with a cause of their own before those that were only cancelled.

    In the same second a numbered step comes before the batch script, which ends because of it, and `extern` is last.
    """
    bad = [step for step in steps if failed(step)]
    own = [step for step in bad if base_state(step.state) != "CANCELLED"] or bad
    return min(own, key=lambda step: (step.end or "9", *_place(step.step_id)), default=None)


def _place(step_id: str) -> tuple[int, int, str]:
    if re.fullmatch(r"[0-9]{1,9}(\+[0-9]+)?", step_id, re.ASCII):
        return 0, int(step_id.partition("+")[0]), step_id
    return (2 if step_id == "extern" else 1), 0, step_id
