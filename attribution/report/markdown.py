"""The verdict for a ticket. Text of logs stands only in code, where it can't become a link, a mention or a heading."""

from __future__ import annotations

import re

from attribution.model import Evidence, Verdict
from attribution.report.escape import clip, escape
from attribution.report.nodes import fold
from attribution.report.spans import TIMES
from attribution.report.times import duration, show

_MARKS_RE = re.compile(r"[\\`*_\[\]<>#|~&!$]|^[-+=]|(?<=:)//|(?<=www)\.")
_NUMBER_RE = re.compile(r"^([0-9]+)([.)])")
_MOST = 20


def markdown(verdict: Verdict) -> str:
    """A self-contained piece of Markdown, ended by a newline. Long lists end with how many more there are."""
    nodes = code(fold(verdict.responsible_nodes)) if verdict.responsible_nodes else "no node named"
    title = f"**{prose(verdict.terminal_state)}**: {prose(verdict.domain)}/{prose(verdict.sub_domain)}, {nodes}"
    lines = [f"{title}, confidence {prose(verdict.confidence)} ({prose(verdict.verdict.replace('_', ' '))})", "", _job(verdict)]
    for part in (_why, _candidates, _missing, _advice, _demoted, _coverage):
        found = part(verdict)
        lines += ["", *found] if found else []
    rules = ", ".join(f"{prose(name)} {code(verdict.rules[name])}" for name in sorted(verdict.rules))
    return "\n".join([*lines, "", f"Rules: {rules}; engine {code(verdict.engine)}"]) + "\n"


def prose(text: str, most: int = 500) -> str:
    """`text` as ordinary words of a paragraph: no mark in it means anything, and nobody is notified."""
    shown = _MARKS_RE.sub(lambda m: "".join("\\" + char for char in m.group()), clip(text.strip(), most))
    return _NUMBER_RE.sub(r"\1\\\2", shown).replace("@", "@<!-- -->")


def code(text: str, most: int = 500) -> str:
    """`text` as inline code, whatever backticks it has."""
    shown = clip(text, most).strip() or " "
    ticks = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    pad = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def _fenced(lines: list[str]) -> list[str]:
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + "text", *lines, fence]


def _proof(pieces: tuple[Evidence, ...]) -> list[str]:
    if not pieces:
        return []
    shown = []
    for piece in pieces[:_MOST]:
        where = [f"{piece.source}:{piece.line}", piece.node or "", show(piece.time)]
        shown += [clip("  ".join(part for part in where if part), 200), "  " + clip(piece.text, 500)]
    return _fenced([*shown, *([f"… {len(pieces) - _MOST} more"] if len(pieces) > _MOST else [])])


def _job(verdict: Verdict) -> str:
    attempt = verdict.attempt
    lasted = duration(attempt.start, attempt.end)
    span = f", {prose(show(attempt.start) or '?')} to {prose(show(attempt.end) or '?')}" if attempt.start or attempt.end else ""
    state = code(f"{attempt.state} {attempt.exit_code}")
    return f"Job {code(attempt.job_id)} {state}{span}{f' ({lasted})' if lasted else ''} on {code(fold(attempt.nodes) or 'no nodes')}"


def _why(verdict: Verdict) -> list[str]:
    cause = verdict.root_cause
    if cause is None:
        return []
    return ["### Why", "", f"{prose(cause.says)} ({code(cause.symptom)}). {prose(cause.why)}", "", *_proof(cause.evidence)]


def _candidates(verdict: Verdict) -> list[str]:
    lines = ["### Could be", ""] if verdict.candidates else []
    for number, candidate in enumerate(verdict.candidates, 1):
        on = f" on {code(fold(candidate.nodes))}" if candidate.nodes else ""
        lines.append(f"{number}. {prose(f'{candidate.domain}/{candidate.sub_domain}')}: {prose(candidate.says)}{on}")
        lines += [f"   - for: {prose(reason)}" for reason in candidate.speaks_for[:_MOST]]
        lines += [f"   - against: {prose(reason)}" for reason in candidate.against[:_MOST]]
    return lines


def _missing(verdict: Verdict) -> list[str]:
    return _list("### What is missing", [prose(what) for what in verdict.missing])


def _advice(verdict: Verdict) -> list[str]:
    lines = ["### What to do", "", prose(verdict.advice.sentence)] if verdict.advice.sentence else []
    drains = verdict.drain_suggestions[:_MOST]
    if drains:
        commands = [escape(f"{drain.command}") for drain in drains]
        lines += ["", "Suggested, not done:", "", *_fenced(commands)]
        lines += [f"- first confirm on {code(drain.node)}: {code(drain.confirm)}" for drain in drains if drain.confirm]
    return lines


def _demoted(verdict: Verdict) -> list[str]:
    items = [
        f"{code(item.symptom)} {TIMES}{item.count}{f' on {code(fold(item.nodes))}' if item.nodes else ''}: "
        f"{prose(item.reason)} ({code(item.rule)})"
        for item in verdict.demoted
    ]
    return _list("### Demoted", items)


def _coverage(verdict: Verdict) -> list[str]:
    unread = [item for item in verdict.coverage if item.state != "read"]
    items = [f"{code(item.source)}: {prose(item.state)}{f', {prose(item.reason)}' if item.reason else ''}" for item in unread]
    return _list("### Could not read", items)


def _list(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    rest = [f"- … {len(items) - _MOST} more"] if len(items) > _MOST else []
    return [title, "", *(f"- {item}" for item in items[:_MOST]), *rest]
