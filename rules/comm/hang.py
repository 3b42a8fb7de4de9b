"""Hangs that the lines around them explain: rank 0 alone at work, or a process group that is taken down."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule

NEAR_LINES = 60
ENOUGH = 0.8


def _seconds(elapsed: str) -> float:
    """mm:ss or h:mm:ss as a bar prints it."""
    total = 0.0
    for part in elapsed.split(":"):
        total = total * 60 + (float(part) if part.isdigit() else 0.0)
    return total


def _rank(e: Event) -> int | None:
    said = e.fields.get("pgrank", "")
    return e.rank if e.rank is not None else int(said) if said.isdigit() else None


def _other_cause(view: View) -> bool:
    """Whether something else that can be a cause is in evidence; Slurm's own rows only repeat that the job failed."""
    own = ("nccl.", "slurm.")
    return any(view.role(e) == "root" and e.emit != "info" and not e.symptom.startswith(own) for e in view.live())


def _waiters(view: View) -> list[Event]:
    """Watchdog reports, if every one names the same operation and none is rank 0's."""
    found = view.of("nccl.watchdog")
    heard = {_rank(e) for e in view.of("nccl.watchdog", "nccl.work_failed", "nccl.heartbeat", live=False)}
    places = {(e.fields.get("seq"), e.fields.get("op"), e.fields.get("numel")) for e in found}
    return found if found and not heard & {0, None} and len(places) == 1 else []


def _before(work: Event, first: Event) -> bool:
    return work.source == first.source and work.line < first.line and work.rank in (None, 0)


def _own_work(view: View, waiters: list[Event]) -> tuple[Event, str] | None:
    """What rank 0 did meanwhile, and whether its length is known."""
    first = min(waiters, key=lambda e: (e.source, e.line))
    timeout = min((float(e.fields.get("timeout_ms", "0")) / 1000 for e in waiters), default=0.0)
    for bar in view.of("comm.long_bar", live=False):
        # A bar that still runs when the others have given up shows the same.
        if (
            bar.source == first.source
            and bar.rank in (None, 0)
            and timeout
            and _seconds(bar.fields.get("elapsed", "")) >= ENOUGH * timeout
        ):
            return bar, "sure"
    for work in view.of("comm.rank0_step", live=False):
        if _before(work, first) and first.line - work.line <= NEAR_LINES:
            return work, "weak"
    return None


@filter_rule(
    name="rank-0-at-work-alone",
    stage="STANDARD",
    example=Example(
        given=(
            event("comm.long_bar", None, kind="app", line=1, emit="info", elapsed="41:12", percent="100"),
            event("nccl.watchdog", None, rank=1, kind="app", line=2, seq="8", op="ALLREDUCE", timeout_ms="600000"),
            event("nccl.watchdog", None, rank=2, kind="app", line=3, seq="8", op="ALLREDUCE", timeout_ms="600000"),
        ),
        expect=("retag nccl.watchdog nccl.rank0_work",),
        quiet=(
            event("comm.long_bar", None, kind="app", line=1, emit="info", elapsed="00:12", percent="100"),
            event("nccl.watchdog", None, rank=1, kind="app", line=2, seq="8", op="ALLREDUCE", timeout_ms="600000"),
        ),
    ),
)
def rank_0_at_work_alone(view: View) -> Iterable[Change]:
    """All but rank 0 wait in one collective, and rank 0 had work of its own: a silent rank 0 alone proves nothing."""
    waiters = _waiters(view)
    found = _own_work(view, waiters) if waiters and not _other_cause(view) else None
    if found is not None:
        work, kind = found
        what = work.fields.get("bar") or "its own work"
        first = min(waiters, key=lambda e: (e.source, e.line))
        yield Retag(
            event=first.id,
            symptom="nccl.rank0_work",
            reason=f"rank 0 reports no timeout and was at {what} (line {work.line})",
            fields={"evidence_is": kind},
        )


@filter_rule(
    name="hang-while-taken-down",
    stage="STANDARD",
    example=Example(
        given=(
            event("comm.work_done", None, kind="app", line=1, emit="info"),
            event("nccl.abort_timeout", None, rank=0, kind="app", line=2),
            event("nccl.heartbeat", None, rank=0, kind="app", line=3, works="0"),
        ),
        expect=("retag nccl.abort_timeout nccl.teardown_hang",),
        quiet=(
            event("nccl.watchdog", None, rank=1, kind="app", line=1, seq="8", op="ALLREDUCE"),
            event("nccl.abort_timeout", None, rank=0, kind="app", line=2),
            event("nccl.heartbeat", None, rank=0, kind="app", line=3, works="0"),
        ),
    ),
)
def hang_while_taken_down(view: View) -> Iterable[Change]:
    """No collective was outstanding and the group was being aborted, or the work had ended: the end hung, not the work."""
    if view.of("nccl.watchdog", "nccl.work_failed", "nccl.desync", "nccl.watchdog_died", live=False) or _other_cause(view):
        return
    beats = view.of("nccl.heartbeat")
    counts = {e.fields["works"] for e in beats if "works" in e.fields}
    aborts = view.of("nccl.abort_timeout")
    done = view.of("comm.work_done", "app.checkpoint_saved", live=False)
    over = [d for d in done if not view.steps_after(d) and any(b.source == d.source and b.line > d.line for b in beats)]
    if counts - {"0"} or not (aborts or (counts and done) or over):
        return
    if not counts and not done:
        return
    first = (aborts or beats)[0]
    yield Retag(
        event=first.id, symptom="nccl.teardown_hang", reason="no collective was outstanding when the group was taken down"
    )
