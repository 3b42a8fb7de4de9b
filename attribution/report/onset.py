"""What each node showed first: the order in which things began is the heart of the matter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from attribution.model import Demoted, Frozen, RootCause, Seen, Verdict
from attribution.report.escape import clip, columns
from attribution.report.spans import Line, Style, heading, more, row
from attribution.report.times import day_of, order, show


class Onset(Frozen, frozen=True, kw_only=True):
    """The first time that a symptom was seen on a node; `mark` says what became of it."""

    node: str
    time: str | None
    symptom: str
    says: str
    mark: str


def onsets(verdict: Verdict) -> list[Onset]:
    """One for each node and symptom, in time; what has no time comes last."""
    earliest: dict[tuple[str, str], Onset] = {}
    for onset in _all(verdict):
        known = earliest.get((onset.node, onset.symptom))
        if known is None or order(onset.time)[:2] < order(known.time)[:2]:
            earliest[onset.node, onset.symptom] = onset
    return sorted(earliest.values(), key=lambda o: (order(o.time)[:2], o.mark == "demoted", o.node, o.symptom))


def _all(verdict: Verdict) -> Iterator[Onset]:
    cause = verdict.root_cause
    causes = {cause.symptom} if cause else {candidate.symptom for candidate in verdict.candidates}
    word = "cause" if cause and verdict.verdict == "attributed" else "candidate"
    items: list[tuple[RootCause | Seen | Demoted, str]] = [(cause, word)] if cause else []
    items += [(item, word if item.symptom in causes else "") for item in verdict.symptoms]
    items += [(item, "demoted") for item in verdict.demoted]
    for item, mark in items:
        for evidence in item.evidence:
            if evidence.node:
                yield Onset(node=evidence.node, time=evidence.time, symptom=item.symptom, says=item.says, mark=mark)
        if len(item.nodes) == 1:
            yield Onset(node=item.nodes[0], time=item.first_seen, symptom=item.symptom, says=item.says, mark=mark)


def first_events(verdict: Verdict, width: int, most: int) -> list[Line]:
    """Nodes in the order of their first event, of each at most two; a quiet node is not named."""
    found = onsets(verdict)
    if not found:
        return []
    by_node: dict[str, list[Onset]] = {}
    for onset in found:
        by_node.setdefault(onset.node, []).append(onset)
    shown = [onset for node in list(by_node)[:most] for onset in by_node[node][: 2 if most > 2 else 1]]
    lines = [heading("FIRST EVENTS, PER NODE"), *_table(shown, day_of(verdict.attempt.end, verdict.attempt.start), width)]
    if len(by_node) > most:
        lines.append(more(len(by_node) - most, "nodes"))
    return lines


def _table(shown: list[Onset], day: date | None, width: int) -> list[Line]:
    cells = [(clip(o.node, width // 4), show(o.time, day) or "no time", clip(o.symptom, width // 3)) for o in shown]
    wide = [max(columns(cell[i]) for cell in cells) for i in range(3)]
    lines = []
    for number, (onset, (node, time, symptom)) in enumerate(zip(shown, cells, strict=True)):
        name = "" if number and shown[number - 1].node == onset.node else node
        start = f"  {_pad(name, wide[0])}  {_pad(time, wide[1])}  {_pad(symptom, wide[2])}  "
        tail = f"{onset.mark}: {onset.says}" if onset.mark else onset.says
        tone: Style = "dim" if onset.mark == "demoted" else "title" if onset.mark else "plain"
        lines.append(row((start, tone), (clip(tail, max(width - columns(start), 9)), tone)))
    return lines


def _pad(text: str, width: int) -> str:
    return text + " " * (width - columns(text))
