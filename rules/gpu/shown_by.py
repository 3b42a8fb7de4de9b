"""A kernel line that decides nothing alone, and the program's own word for the same fault, which names no node."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule, until

# What the program says -> (kernel lines that fit it, what they then mean, roots that would already say so).
PAIRS = {
    "gpu.ecc_runtime_api": (("gpu.row_remap_event", "gpu.channel_retire"), "gpu.ecc_dbe", ("gpu.ecc_*", "gpu.dram_uncorr",
                            "gpu.sram_uncorr", "gpu.row_remap_fail", "gpu.mem_subsystem")),
    "nvl.runtime_api": (("nvl.sw_defined", "nvl.ber", "nvl.unit_notice"), "nvl.xid74", ("nvl.*", "nvsw.*", "gpu.off_bus*")),
}  # fmt: skip
NEAR = 600.0


def _near(view: View, word: Event, line: Event) -> bool:
    """Close to the program's line, or, where that has no time, to the end."""
    if line.time is None or line.clock != "wall":
        return False
    at = word.time if word.own_time and word.clock == "wall" and word.time is not None else view.state.end
    last = until(line)
    return at is not None and abs(at - last) <= NEAR


@filter_rule(
    name="kernel-line-that-the-program-explains",
    stage="STANDARD",
    example=Example(
        given=(event("gpu.row_remap_event", "n1", time=100.0), event("gpu.ecc_runtime_api", None, time=101.0, kind="app")),
        expect=("retag gpu.row_remap_event gpu.ecc_dbe",),
        quiet=(
            event("gpu.row_remap_event", "n1", time=100.0),
            event("gpu.row_remap_event", "n2", time=100.0),
            event("gpu.ecc_runtime_api", None, time=101.0, kind="app"),
        ),
    ),
)
def kernel_line_that_the_program_explains(view: View) -> Iterable[Change]:
    """One node's kernel notes a repair or a lost link while the program dies of just that: it is that node's fault."""
    for symptom, (notes, means, known) in PAIRS.items():
        words = view.of(symptom)
        if not words or any(view.role(e) == "root" and e.kind != "app" for e in view.of(*known)):
            continue
        lines = [n for n in view.of(*notes) if any(_near(view, w, n) for w in words)]
        if len({n.node for n in lines}) == 1 and lines[0].node is not None:
            for n in lines:
                yield Retag(
                    event=n.id, symptom=means, reason="the program died of it, and no other node shows anything like it"
                )
