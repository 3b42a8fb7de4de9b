"""The seven register words of XID 74, as NVIDIA's advice for Hopper reads them."""

from __future__ import annotations

from collections.abc import Iterable

import re2

from attribution.rule import Change, Example, Retag, View, event, filter_rule

_LINE = re2.compile(r"link (\d{1,2}) ?\((0x[0-9a-fA-F]{1,8}(?:, ?0x[0-9a-fA-F]{1,8}){4,7})\)")


def _mask(*bits: int) -> int:
    return sum(1 << b for b in bits)


# By register: bits of a weak signal, bits of this end (connection or parity), bits that only echo the other end.
SIGNAL = {0: _mask(21, 22)}
OWN = {0: _mask(4, 5, 8, 9, 12, 16, 17, 24, 27, 28, 29), 2: _mask(0, 1, 2, 6, 13, 16, 17, 18, 19), 4: _mask(*range(18, 30))}
ECHO = {0: _mask(1, 20), 3: _mask(16, 17, 18)}


def _any(words: list[int], masks: dict[int, int]) -> bool:
    return any(len(words) > at and words[at] & mask for at, mask in masks.items())


def _event(msg: str, **more: object) -> object:
    return event("nvl.xid74", "n1", gpu="0000:3b:00", xid="74", msg=msg, time=5.0, **more)


@filter_rule(
    name="decode-xid-74-registers",
    stage="EARLY",
    example=Example(
        given=(_event("NVLink: fatal error detected on link 14(0x200000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"),
               _event("NVLink: fatal error detected on link 2(0x100000, 0x0, 0x0, 0x20000, 0x0, 0x0, 0x0)", line=2)),
        expect=("retag nvl.xid74 nvl.signal_integrity", "retag nvl.xid74 nvl.peer_down"),
        quiet=(_event("NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"),
               _event("NVLink: failed to train link 3 to remote PCI:0000:86:00", line=2)),
    ),
)  # fmt: skip
def decode_xid_74_registers(view: View) -> Iterable[Change]:
    """A weak signal, an error of this end, or only the echo of the other end: the words say it, as far as is known."""
    for e in view.of("nvl.xid74"):
        m = _LINE.search(e.fields.get("msg", ""))
        if m is None:
            continue
        words = [int(w.strip(), 16) for w in m.group(2).split(",")]
        fields = {"link": m.group(1)}
        if _any(words, SIGNAL):
            yield Retag(
                event=e.id,
                symptom="nvl.signal_integrity",
                reason=f"link {m.group(1)}: the registers name a weak signal",
                fields=fields,
            )
        elif not _any(words, OWN) and _any(words, ECHO):
            yield Retag(
                event=e.id,
                symptom="nvl.peer_down",
                reason=f"link {m.group(1)}: the registers only echo the other end",
                fields=fields,
            )
