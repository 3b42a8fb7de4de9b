"""NVSwitch errors: the word in the line decides, and the further records of one error count with it."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule

# Driver and guide disagree on these numbers: the table's reading stands, whatever the word says.
CONFLICT = frozenset({"19049", "19055", "19057", "19059", "19061", "19064", "19067"})
STALL = frozenset({"11004", "12028"})


def _meaning(e: Event) -> str:
    """The symptom that a record stands for."""
    number, word, msg = e.fields.get("sxid", ""), e.fields.get("severity", ""), e.fields.get("msg", "")
    if msg.startswith("Data {"):
        return "nvsw.sxid_any"
    if number in CONFLICT or (number in STALL and word != "Fatal"):
        return "nvsw.sxid_any" if msg.startswith("Severity ") else e.symptom
    if msg.startswith("Severity "):
        return "nvsw.sxid_fatal" if msg.startswith("Severity 1") else "nvsw.sxid_any"
    if word == "Fatal":
        return "nvsw.sxid_fatal"
    if word:
        return "nvsw.sxid_nonfatal"
    return e.symptom


@filter_rule(
    name="sxid-word-decides",
    stage="EARLY",
    example=Example(
        given=(
            event("nvsw.sxid_fatal", "n1", sxid="11013", severity="Non-fatal", msg="ingress header DBE", time=1.0),
            event("nvsw.sxid_nonfatal", "n1", sxid="12021", severity="Fatal", msg="egress", time=2.0),
            event("nvsw.sxid_fatal", "n1", sxid="20034", msg="Data {0x50600001, 0x10100020}", time=3.0),
        ),
        expect=(
            "retag nvsw.sxid_fatal nvsw.sxid_any",
            "retag nvsw.sxid_fatal nvsw.sxid_nonfatal",
            "retag nvsw.sxid_nonfatal nvsw.sxid_fatal",
        ),
        quiet=(
            event("nvsw.sxid_nonfatal", "n1", sxid="19049", severity="Fatal", msg="TLC single-bit limit", time=1.0),
            event("nvsw.sxid_stall", "n1", sxid="12028", severity="Non-fatal", msg="egress non-posted PRIV error", time=2.0),
            event("nvsw.sxid_fatal", "n1", sxid="26006", msg="SOE halted", time=3.0),
        ),
    ),
)
def sxid_word_decides(view: View) -> Iterable[Change]:
    """Whether a port contains an error is a setting: the driver's word is right where it prints one."""
    for e in view.of("nvsw.*"):
        symptom = _meaning(e)
        if e.fields.get("sxid") and e.kind != "fabricmanager" and symptom != e.symptom:
            yield Retag(event=e.id, symptom=symptom, reason="the severity in the line, not the number, decides")
