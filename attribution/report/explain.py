"""The whole trail: what every rule recognised, demoted and decided, with all evidence, and nothing left out."""

from __future__ import annotations

import msgspec

from attribution.model import Candidate, Demoted, Evidence, RootCause, Seen, TrailStep, Verdict
from attribution.report.line import verdict_line
from attribution.report.nodes import fold
from attribution.report.sections import head, paragraph, proof
from attribution.report.spans import BLANK, TIMES, Line, Screen, heading, row
from attribution.report.times import show

_LINES = 120  # the 8 KiB at which the engine cuts a line


def explain(verdict: Verdict, width: int = 80) -> Screen:
    """Everything that the verdict holds, in the order in which it came about. As long as it needs to be.

    The trail stands in it only where the verdict was made with one (`analyze --explain`); else a line says so.
    """
    parts = (
        head(verdict, width), _trail(verdict, width), _outcome(verdict, width), _seen("COUNTED", verdict.symptoms, verdict, width),
        _seen("DEMOTED", verdict.demoted, verdict, width), _seen("INTERESTING", verdict.interesting, verdict, width),
        _coverage(verdict, width), _advice(verdict, width), _facts(verdict, width), _made_with(verdict, width),
    )  # fmt: skip
    shown: list[Line] = []
    for part in parts:
        shown += [*([BLANK] if shown and part else []), *part]
    return tuple(shown)


def _trail(verdict: Verdict, width: int) -> list[Line]:
    steps = verdict.trail
    if isinstance(steps, msgspec.UnsetType):
        return [row(("No trail was kept with this verdict: `sattrib analyze DIR --explain` makes one.", "dim"))]
    lines, stage = [heading("TRAIL")], ""
    for step in steps:
        if step.stage != stage:
            stage = step.stage
            lines.append(row(("  " + stage, "title")))
        lines += paragraph(f"{step.rule}: {step.what}{_place(step)}", width, 4, _LINES)
    return lines


def _place(step: TrailStep) -> str:
    where = f"{step.source}:{step.line}" if step.line else step.source
    known = [part for part in (step.symptom, step.node, where) if part]
    return f" [{', '.join(known)}]" if known else ""


def _outcome(verdict: Verdict, width: int) -> list[Line]:
    lines = [heading("OUTCOME"), *paragraph(verdict_line(verdict, width - 2), width, 2, 4)]
    if verdict.responsible_nodes:
        lines += paragraph(f"responsible: {fold(verdict.responsible_nodes)}", width, 2, _LINES)
    if verdict.root_cause:
        lines += _cause("root cause", verdict.root_cause, verdict, width)
        lines += paragraph(verdict.root_cause.why, width, 4, _LINES)
    for number, candidate in enumerate(verdict.candidates, 1):
        lines += _cause(f"candidate {number}", candidate, verdict, width)
        for word, reasons in (("for", candidate.speaks_for), ("against", candidate.against)):
            for reason in reasons:
                lines += paragraph(f"{word}: {reason}", width, 4, _LINES)
    for what in verdict.missing:
        lines += paragraph(f"missing: {what}", width, 2, _LINES)
    return lines


def _cause(word: str, cause: RootCause | Candidate, verdict: Verdict, width: int) -> list[Line]:
    on = f" on {fold(cause.nodes)}" if cause.nodes else ""
    when = f", first {show(cause.first_seen)}" if cause.first_seen else ""
    lines = paragraph(f"{word}: {cause.symptom} ({cause.says}){on}{when}", width, 2, _LINES, "title")
    return lines + _proofs(cause.evidence, verdict, width)


def _proofs(pieces: tuple[Evidence, ...], verdict: Verdict, width: int) -> list[Line]:
    return [line for piece in pieces for line in proof(piece, verdict, width, 4, _LINES)]


def _seen(title: str, items: tuple[Seen, ...] | tuple[Demoted, ...], verdict: Verdict, width: int) -> list[Line]:
    lines = [heading(title)] if items else []
    for item in items:
        on = f" on {fold(item.nodes)}" if item.nodes else ""
        when = f", first {show(item.first_seen)}" if item.first_seen else ""
        lines += paragraph(f"{item.symptom} {TIMES}{item.count}{on}{when}: {item.says}", width, 2, _LINES)
        if isinstance(item, Demoted):
            cause = f" (explained by {item.by})" if item.by else ""
            lines += paragraph(f"demoted by {item.rule}: {item.reason}{cause}", width, 4, _LINES, "dim")
        else:
            ranks = f"; ranks {', '.join(map(str, item.ranks))}" if item.ranks else ""
            place = f"{item.role} of {item.domain}/{item.sub_domain}"
            lines += paragraph(f"{place}, recognised by {', '.join(item.rules)}{ranks}", width, 4, _LINES, "dim")
        lines += _proofs(item.evidence, verdict, width)
    return lines


def _coverage(verdict: Verdict, width: int) -> list[Line]:
    lines = [heading("COVERAGE")] if verdict.coverage else []
    for item in verdict.coverage:
        span = f", {show(item.first)} to {show(item.last)}" if item.first and item.last else ""
        where = f" on {item.node}" if item.node else ""
        why = f", {item.reason}" if item.reason else ""
        cut = f", a cap cut hits of: {', '.join(item.cut)}" if item.cut else ""
        text = f"{item.source} ({item.kind}){where}: {item.state}, {item.lines} lines, {item.bytes} bytes{span}{why}{cut}"
        lines += paragraph(text, width, 2, _LINES, "plain" if item.state == "read" else "warn")
    for change in verdict.could_change:
        lines += paragraph(f"{change.source} could have shown: {', '.join(change.domains)}", width, 2, _LINES)
    flip = verdict.would_flip
    if flip:
        where = f" on {flip.node}" if flip.node else ""
        target = f"{flip.domain} {fold(flip.nodes)}".strip()
        lines += paragraph(f"{flip.symptom} ({flip.says}){where} in {flip.source} would turn it to {target}", width, 2, _LINES)
    return lines


def _advice(verdict: Verdict, width: int) -> list[Line]:
    lines = [heading("ADVICE"), *paragraph(f"{verdict.advice.action}: {verdict.advice.sentence}", width, 2, _LINES)]
    for drain in verdict.drain_suggestions:
        lines += paragraph(f"suggested, not done: drain {drain.node}, {drain.reason}", width, 2, _LINES)
        lines += [row("    ", (command, "command")) for command in (drain.confirm, drain.command) if command]
        lines += _proofs(drain.proof, verdict, width)
    return lines


def _facts(verdict: Verdict, width: int) -> list[Line]:
    lines = [heading("FACTS")] if verdict.facts else []
    for name in sorted(verdict.facts):
        value = msgspec.json.encode(_text(verdict.facts[name]), order="deterministic").decode()
        lines += paragraph(f"{name}: {value}", width, 2, _LINES)
    return lines


def _text(value: object) -> object:
    """A fact whose text UTF-8 can't carry is shown as Python writes it."""
    try:
        msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError):
        return repr(value)
    return value


def _made_with(verdict: Verdict, width: int) -> list[Line]:
    lines = [heading("MADE WITH")]
    for name in sorted(verdict.rules):
        lines += paragraph(f"rules {name}: {verdict.rules[name]}", width, 2, 2)
    lines += paragraph(f"engine: {verdict.engine}", width, 2, 2)
    lines += paragraph(f"attempt: {verdict.attempt.key}", width, 2, 2)
    for diagnostic in verdict.diagnostics:
        lines += paragraph(f"{diagnostic.rule}: {diagnostic.what}", width, 2, _LINES, "warn")
    return lines
