"""A link that comes back is a flap."""

from collections.abc import Iterable

from attribution.rule import Change, Example, Retag, View, event, filter_rule

BACK = 600.0


@filter_rule(
    name="link-that-came-back",
    stage="EARLY",
    example=Example(
        given=(
            event("ib.port_down", "n1", time=10.0, device="0000:41:00.0"),
            event("ib.port_up", "n1", time=14.0, device="0000:41:00.0", emit="info"),
            event("ib.port_down", "n2", time=10.0, device="0000:41:00.0"),
        ),
        expect=("retag ib.port_down ib.flap",),
        quiet=(event("ib.port_up", "n1", time=4.0, emit="info"), event("ib.port_down", "n1", time=10.0)),
    ),
)
def link_that_came_back(view: View) -> Iterable[Change]:
    """Down and up of one port within ten minutes: the link flapped."""
    ups = view.of("ib.port_up", live=False)
    for down in view.of("ib.port_down"):
        for up in ups:
            same = up.node == down.node and up.fields.get("device") == down.fields.get("device") and up.clock == down.clock
            if same and up.time is not None and down.time is not None and 0 <= up.time - down.time <= BACK:
                yield Retag(event=down.id, symptom="ib.flap", reason=f"the port was up again {up.time - down.time:.0f} s later")
                break
