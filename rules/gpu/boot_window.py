"""Links that are down while a node comes up are no fault."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Demote, Event, Example, View, event, filter_rule

COMING_UP = 600.0
LINKS = (
    "nvl.sw_defined",
    "nvl.train_fail",
    "nvl.peer_down",
    "ib.port_down",
    "ib.port_state",
    "eth.link_down",
    "fm.fabric_state",
    "pcie.link_down",
)


def _after(view: View, e: Event) -> Event | None:
    """The boot, driver load or GPU reset of the same node up to ten minutes before the event."""
    for start in view.of("krn.boot", "gpu.driver_loaded", "gpu.reset_done", live=False):
        same = start.node == e.node and start.clock == e.clock and start.time is not None and e.time is not None
        if same and -e.grain <= (e.time or 0.0) - (start.last_time or start.time or 0.0) <= COMING_UP:
            return start
    return None


@filter_rule(
    name="links-come-up-after-a-boot",
    stage="EARLY",
    example=Example(
        given=(event("krn.boot", "n1", time=100.0), event("nvl.sw_defined", "n1", gpu="0009:01:00", time=160.0)),
        expect=("demote nvl.sw_defined",),
        quiet=(
            event("krn.boot", "n1", time=100.0),
            event("nvl.sw_defined", "n1", time=900.0),
            event("nvl.sw_defined", "n2", time=160.0),
        ),
    ),
)
def links_come_up_after_a_boot(view: View) -> Iterable[Change]:
    """Within ten minutes of a boot, driver load or reset of the node these lines only show that it is starting."""
    for e in view.of(*LINKS):
        start = _after(view, e)
        if start is not None:
            yield Demote(event=e.id, reason="the node was starting: the link was still coming up")
