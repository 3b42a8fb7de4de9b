"""ssh that was refused to a launcher, and a crash right after the network could not be set up."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Add, Change, Demote, Example, Retag, View, event, filter_rule, second

NEAR = 40


@filter_rule(
    name="ssh-that-a-launcher-needed",
    stage="EARLY",
    example=Example(
        given=(event("ssh.tried", "n1", kind="app", line=3), event("mpi.lost_daemon", "n1", kind="app", line=5)),
        expect=("retag ssh.tried ssh.login",),
        quiet=(event("ssh.tried", "n1", kind="app", line=3), event("mpi.lost_daemon", "n1", kind="app", line=500)),
    ),
)
def ssh_that_a_launcher_needed(view: View) -> Iterable[Change]:
    """Ssh is refused, and right after it the launcher says that a daemon could not be started."""
    lost = view.of("mpi.lost_daemon")
    for e in view.of("ssh.tried"):
        if any(d.source == e.source and 0 <= d.line - max(e.line, e.last_line) <= NEAR for d in lost):
            yield Retag(event=e.id, symptom="ssh.login", reason="the launcher could not start its daemon after it")


@filter_rule(
    name="two-readings-of-a-refused-login",
    stage="LATE",
    example=Example(
        given=(event("ssh.login", "n1", kind="app", line=1),),
        expect=("add ssh.keys",),
        quiet=(event("ssh.tried", "n1", kind="app", line=1),),
    ),
)
def two_readings_of_a_refused_login(view: View) -> Iterable[Change]:
    """A site that keeps ssh shut, or a user without keys: the text is the same."""
    for first in view.of("ssh.login")[:1]:
        yield Add(
            event=second(first, "ssh.keys", id=f"{first.id}+keys", rule="two-readings-of-a-refused-login", fields={}, count=1, peers=(), gpu=None),
            reason="keys or hosts that are not set up print the same",
        )  # fmt: skip


@filter_rule(
    name="crash-right-after-a-failed-set-up",
    stage="STANDARD",
    example=Example(
        given=(event("mpi.no_fabric", "n1", kind="app", line=3), event("nat.segv", "n1", kind="app", line=5)),
        expect=("demote nat.segv",),
        quiet=(event("mpi.no_fabric", "n1", kind="app", line=3), event("nat.segv", "n1", kind="app", line=90)),
    ),
)
def crash_right_after_a_failed_set_up(view: View) -> Iterable[Change]:
    """A communication library that found no network is used all the same: it crashes within a few lines."""
    failed = view.of("mpi.no_fabric", "rdma.setup")
    for e in view.of("nat.segv", "nat.abort"):
        by = [f for f in failed if f.source == e.source and 0 < e.line - f.line <= 10]
        if by:
            yield Demote(event=e.id, reason=f"the network could not be set up just before (line {by[-1].line})", by=by[-1].id)
