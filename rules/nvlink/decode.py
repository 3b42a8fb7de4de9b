"""The error words of XID 144 to 150 (NVLink 5), for both message versions.

A line reads `UNIT Fatal|Nonfatal XCn in Link NN (intrinfo errorstatus …)`. Before R575 the sub-code sits in bits 9 to 5
of the first word and the lowest five bits hold the XID less 143; from R575 on the lowest seven bits are the sub-code. In
both, bits 25 to 20 are the reason of a link that went down.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import re2

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule

_LINE = re2.compile(
    r"^(?P<unit>[A-Z][A-Za-z0-9_]{2,30}(?: Degraded)?)\s+(?P<severity>Fatal|Nonfatal)\s+XC ?(?P<xc>\d)\s+i ?(?P<injected>\d)\s+"
    r"Link\s+(?P<link>-?\d{1,2})(?:\s*[(\[](?P<words>0x[0-9a-fA-F]{1,8}(?:\s+0x[0-9a-fA-F]{1,8}){0,7}))?"
)
UNITS = {"nvl.saw": 144, "nvl.rlw": 145, "nvl.tlw": 146, "nvl.trex": 147, "nvl.nvlpw": 148, "nvl.netir": 149, "nvl.mse": 150}
NOTICE, CORRECTED, POISON, FATAL, ACCESS, VICTIM, DROPPED = (
    "notice",
    "corrected",
    "poison",
    "fatal",
    "access",
    "victim",
    "dropped",
)
SOFTWARE = 0x80000000

# What the bits of the second word amount to, by unit. Their names are not published; these are their stated effects.
BITS: dict[str, dict[int, str]] = {
    "SAW_MVB": {0x1: POISON, 0x2: FATAL, 0x4: CORRECTED, 0x8: POISON, 0x10: FATAL, 0x20: CORRECTED},
    "RLW_CTRL": {},
    "RLW_REMAP": {0x1: ACCESS, 0x2: ACCESS, 0x4: ACCESS, 0x8: ACCESS, 0x10: ACCESS, 0x20: ACCESS, 0x40: FATAL, 0x80: FATAL,
                  0x100: CORRECTED, 0x200: CORRECTED},
    "RLW_RSPCOL": {0x1: CORRECTED, 0x2: FATAL},
    "RLW_RXPIPE": {0x1: DROPPED, 0x2: DROPPED, 0x4: DROPPED, 0x8: NOTICE},
    "RLW_SRC_TRACK": {0x1: FATAL, 0x2: CORRECTED, 0x4: VICTIM, 0x8: VICTIM, 0x10: FATAL, 0x20: FATAL},
    "RLW_TAGSTATE": {0x1: CORRECTED, 0x2: FATAL, 0x10000: CORRECTED, 0x20000: FATAL, 0x100000: FATAL},
    "TLW_CTRL": {0x1: CORRECTED, 0x2: POISON, 0x4: FATAL},
    "TLW_RX": {0x1: CORRECTED, 0x2: POISON, 0x4: FATAL},
    "TLW_TX": {0x1: CORRECTED, 0x2: POISON, 0x4: FATAL},
    "TREX": {0x1: NOTICE},
    "NVLPW": {},
}  # fmt: skip
# One unit under several names.
SAME = {f"TLW_{way}_PIPE{n}": f"TLW_{way}" for way in ("RX", "TX") for n in (0, 1)} | {"NVLPW_CTRL": "NVLPW"}
WORST = (FATAL, POISON, VICTIM, ACCESS, DROPPED, CORRECTED, NOTICE)
MEANS = {
    FATAL: ("nvl.unit_fatal", "uncorrectable error inside this GPU's link logic"),
    POISON: ("nvl.poison", "data damaged and marked, traffic goes on"),
    VICTIM: ("nvl.victim", "packets were lost here: the fault is elsewhere"),
    ACCESS: ("nvl.remote_access", "a bad access was stopped and its process killed"),
    DROPPED: ("nvl.victim", "packets were dropped"),
    CORRECTED: ("nvl.unit_notice", "corrected or only counted"),
    NOTICE: ("nvl.unit_notice", "a notice without effect on traffic"),
}

# Why a link went down: one word of reason for each class.
SIGNAL, CABLE, PEER, THERMAL, COMMAND, HARMLESS, UNSAID = (
    "signal",
    "cable",
    "peer",
    "peer thermal",
    "command",
    "harmless",
    "unsaid",
)
REASONS: dict[int, tuple[str, str]] = {
    0: (UNSAID, "no indication"), 1: (UNSAID, "unknown"), 2: (SIGNAL, "high bit error rate"), 3: (SIGNAL, "block lock lost"),
    4: (SIGNAL, "alignment lost"), 5: (SIGNAL, "FEC sync lost"), 6: (SIGNAL, "PLL lock lost"), 7: (UNSAID, "FIFO overflow"),
    8: (UNSAID, "false skip condition"), 9: (SIGNAL, "minor errors over the threshold"), 10: (SIGNAL, "physical-layer retransmit timeout"),
    11: (UNSAID, "heartbeat errors"), 12: (UNSAID, "link-layer credit watchdog"), 13: (UNSAID, "link-layer integrity threshold"),
    14: (UNSAID, "link-layer buffer overrun"), 15: (COMMAND, "out-of-band command, link was healthy"),
    16: (SIGNAL, "out-of-band command after a high bit error rate"), 17: (COMMAND, "in-band command, link was healthy"),
    18: (SIGNAL, "in-band command after a high bit error rate"), 19: (UNSAID, "verification gateway"), 20: (PEER, "remote fault received"),
    21: (PEER, "the peer asked for it"), 22: (COMMAND, "management command"), 23: (CABLE, "cable unplugged"),
    24: (CABLE, "cable can't be read"), 25: (CABLE, "cable shut down for heat"), 26: (CABLE, "current problem"), 27: (CABLE, "over its power budget"),
    28: (SIGNAL, "fast recovery: raw bit error rate"), 29: (SIGNAL, "fast recovery: effective bit error rate"),
    30: (SIGNAL, "fast recovery: symbol error rate"), 31: (UNSAID, "fast recovery: credit watchdog"), 32: (PEER, "the peer went to sleep"),
    33: (PEER, "the peer disabled its port"), 34: (PEER, "the peer disabled and locked its port"), 35: (THERMAL, "the peer had a thermal event"),
    36: (PEER, "the peer forced it"), 37: (PEER, "the peer was reset"), 38: (HARMLESS, "reset without power cycle"),
    39: (UNSAID, "fast recovery: transmit side"), 40: (UNSAID, "forced by hardware"), 42: (SIGNAL, "exit from low power failed"),
    43: (SIGNAL, "too many link recoveries"), 44: (UNSAID, "contain mode"), 45: (SIGNAL, "bandwidth loss over the threshold"),
    46: (CABLE, "laser fault"), 47: (SIGNAL, "high symbol error rate"), 48: (COMMAND, "NMX command"), 49: (SIGNAL, "bit-error guard time over"),
    50: (UNSAID, "local fault received"), 51: (UNSAID, "link interruption received"), 52: (COMMAND, "manual debug mode"),
    53: (COMMAND, "recovery by command"), 58: (SIGNAL, "recovery bandwidth loss over the threshold"), 59: (PEER, "the peer is in contain mode"),
    60: (CABLE, "module reset or in low power"), 61: (UNSAID, "contain mode, receive"), 62: (UNSAID, "contain mode, transmit"),
}  # fmt: skip
LINK = {
    SIGNAL: "nvl.signal_integrity", CABLE: "nvl.cable", PEER: "nvl.peer_down", THERMAL: "nvl.peer_thermal",
    COMMAND: "nvl.commanded", HARMLESS: "nvl.unit_notice", UNSAID: "nvl.link_down",
}  # fmt: skip
FIRMWARE = {1: "configuration timeout", 3: "test", 4: "assertion", 5: "fatal cause", 7: "exception"}


class Decoded(NamedTuple):
    """What a line amounts to."""

    symptom: str
    means: str
    fields: dict[str, str]


def version_of(unit: str, word: int, xid: int) -> int:
    """1 before R575, 2 from then on: by the unit's name where only one version has it, else by the first word."""
    if unit in ("NETIR_LINK_EVT", "NETIR", "TLW_RX", "TLW_TX", "NVLPW_CTRL"):
        return 1
    if unit in ("NETIR_LINK_DOWN", "NETIR_INT", "NVLPW") or "_PIPE" in unit:
        return 2
    return 1 if word & 0x1F == (0 if xid == 150 else xid - 143) and word & 0x3E0 else 2


def _unit_class(unit: str, status: int, *, fatal: bool) -> str | None:
    """The worst of what the status bits say; None where none of them is known."""
    known = BITS.get(SAME.get(unit, unit))
    if known is None:
        return None
    classes = [c for bit, c in known.items() if status & bit] + ([NOTICE] if status & SOFTWARE else [])
    if not classes:
        return None
    worst = min(classes, key=WORST.index)
    return FATAL if fatal and worst == DROPPED else worst


def decode(xid: int, msg: str) -> Decoded | None:
    """What the text after the XID means, or None where it is not of this form."""
    m = _LINE.match(msg)
    if m is None:
        return None
    unit, fatal = m.group("unit"), m.group("severity") == "Fatal"
    words = [int(w, 16) for w in (m.group("words") or "").split()]
    info, status = [*words, 0, 0][:2]
    fields = {"unit": unit, "severity": m.group("severity"), "link": m.group("link")}
    if m.group("injected") == "1":
        fields["injected"] = "yes"
    if not words:
        return Decoded("", "no error words", fields) if fatal else Decoded("nvl.unit_notice", "not fatal", fields)
    fields["version"] = str(version_of(unit, info, xid))
    if xid == 149:
        return _netir(unit, info, status, fields, fatal=fatal)
    kind = _unit_class(unit, status, fatal=fatal)
    if kind is None:
        return Decoded("" if fatal else "nvl.unit_notice", "fatal" if fatal else "not fatal", fields)
    symptom, means = MEANS[kind]
    return Decoded(symptom, means, fields)


def _netir(unit: str, info: int, status: int, fields: dict[str, str], *, fatal: bool) -> Decoded:
    """XID 149: a port's event; a link that went down says why."""
    if unit == "NETIR_BER_EVENT":
        return Decoded("nvl.ber", "bit errors counted", fields)
    if unit == "NETIR_MFDE_EVENT":
        what = FIRMWARE.get(status, "event")
        harmless = status == 3 or not fatal
        return Decoded("nvl.unit_notice" if harmless else "nvl.unit_fatal", f"port firmware: {what}", fields)
    if unit not in ("NETIR_LINK_EVT", "NETIR_LINK_DOWN"):
        return Decoded("" if fatal else "nvl.unit_notice", "port event", fields)
    number = (info >> 20) & 0x3F
    kind, means = REASONS.get(number, (UNSAID, "unknown"))
    fields = {**fields, "reason": str(number), "why": means}
    if not fatal and kind not in (SIGNAL, CABLE):
        return Decoded("nvl.unit_notice", means, fields)
    return Decoded(LINK[kind], f"link down: {means}", fields)


def _event(xid: int, symptom: str, msg: str, **more: object) -> Event:
    return event(symptom, "n1", gpu="0009:01:00", xid=str(xid), msg=msg, time=5.0, **more)


@filter_rule(
    name="decode-nvlink5-words",
    stage="EARLY",
    example=Example(
        given=(
            _event(149, "nvl.netir", "NETIR_LINK_DOWN Fatal XC0 i0 Link 03 (0x00400011 0x00000000 0x00000000)"),
            _event(149, "nvl.netir", "NETIR_LINK_EVT  Fatal   XC0 i0 Link 07 (0x0210e5c6 0x00000000 0x00000000)", line=2),
            _event(145, "nvl.rlw", "RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x000188e2 0x00000004 0x00000000)", line=3),
            _event(144, "nvl.saw", "SAW_MVB Fatal XC0 i0 Link -1 (0x00000001 0x00000002 0x00000000)", line=4),
        ),
        expect=(
            "retag nvl.netir nvl.peer_down",
            "retag nvl.netir nvl.signal_integrity",
            "retag nvl.rlw nvl.victim",
            "retag nvl.saw nvl.unit_fatal",
        ),
        quiet=(_event(149, "nvl.netir", "a text of some later driver"),),
    ),
)
def decode_nvlink5_words(view: View) -> Iterable[Change]:
    """Read the error words, so that a link's own fault, its echo at the peers and mere notices are told apart."""
    for e in view.of(*UNITS):
        found = decode(UNITS[e.symptom], e.fields.get("msg", ""))
        if found is None:
            continue
        where = f"{found.fields['unit']}, link {found.fields['link']}"
        symptom = found.symptom or e.symptom
        yield Retag(event=e.id, symptom=symptom, reason=f"{where}: {found.means}", fields=found.fields)
