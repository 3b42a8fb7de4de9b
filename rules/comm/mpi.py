"""Exit codes that MPI libraries make up themselves, and codes that end themselves through MPI_Abort."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Demote, Example, Retag, View, event, filter_rule

_ABORT = re2.compile(r"\bAbort\((\d{1,10})\)")


@filter_rule(
    name="exit-code-of-mpich",
    stage="STANDARD",
    example=Example(
        attempt={"state": "FAILED", "exit_code": "143:0"},
        given=(
            event(
                "mpi.init",
                "n1",
                kind="app",
                line=2,
                text="Abort(1090447) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init",
            ),
            event("slurm.sigterm15", None, kind="record"),
        ),
        expect=("demote slurm.sigterm15",),
        quiet=(
            event("mpi.init", "n1", kind="app", line=2, text="Abort(1) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init"),
            event("slurm.sigterm15", None, kind="record"),
        ),
    ),
)
def exit_code_of_mpich(view: View) -> Iterable[Change]:
    """MPICH and its kin leave with the low byte of their error code: 143 or 137 is then no signal."""
    status = view.attempt.exit_code.partition(":")[0]
    if not status.isdigit():
        return
    for said in view.of("mpi.init", "mpi.fatal", "mpi.transport", "mpi.unreachable", "mpi.mismatch", live=False):
        code = _ABORT.search(said.text)
        if code is not None and int(code.group(1)) % 256 == int(status) != 0:
            for e in view.of("slurm.sigterm15", "slurm.sigkill9"):
                yield Demote(event=e.id, reason=f"{status} is the low byte of the library's error code", by=said.id)
            return


@filter_rule(
    name="gave-up-through-mpi-abort",
    stage="STANDARD",
    example=Example(
        given=(event("solver.fatal", kind="app", source="a", line=4), event("mpi.abort", kind="app", source="a", line=9)),
        expect=("retag solver.fatal solver.abort",),
        quiet=(event("solver.fatal", kind="app", source="a", line=4),),
    ),
)
def gave_up_through_mpi_abort(view: View) -> Iterable[Change]:
    """The code stopped all its ranks itself; its own words say why."""
    aborts = view.of("mpi.abort")
    for e in view.of("solver.fatal") if aborts else ():
        yield Retag(
            event=e.id, symptom="solver.abort", reason="a rank called MPI_Abort", fields={"abort_line": str(aborts[0].line)}
        )
