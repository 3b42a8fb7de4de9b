"""The parts of the default screen. Each takes the verdict and how many items it may show, and gives its lines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from attribution.model import Candidate, Evidence, Verdict
from attribution.report.escape import clip, columns, wrap
from attribution.report.gaps import could_not_read, would_turn
from attribution.report.line import verdict_line
from attribution.report.nodes import fold
from attribution.report.onset import first_events
from attribution.report.spans import TIMES, Line, Style, heading, more, row
from attribution.report.times import day_of, duration, show

Section = Callable[[Verdict, int, int], list[Line]]

_IN_WORDS = {
    "ambiguous": "The evidence fits more than one cause. Nobody is blamed until that is settled.",
    "insufficient": "The evidence does not say why. Nobody is blamed.",
    "no_failure": "Nothing failed.",
}


def attempt_day(verdict: Verdict) -> date | None:
    """The day whose date is not repeated before each time of day."""
    return day_of(verdict.attempt.end, verdict.attempt.start)


def paragraph(text: str, width: int, indent: int, most: int = 3, style: Style = "plain") -> list[Line]:
    return [row((" " * indent + part, style)) for part in wrap(text, width - indent, most)]


def head(verdict: Verdict, width: int, _most: int = 0) -> list[Line]:
    first, *rest = verdict_line(verdict, width).split("  ")
    tone: Style = "good" if verdict.verdict == "no_failure" else "bad" if verdict.verdict == "attributed" else "warn"
    lines = [row((first, tone), ("".join("  " + part for part in rest), "title"))]
    if verdict.verdict in _IN_WORDS:
        lines += paragraph(_IN_WORDS[verdict.verdict], width, 0)
    return lines + _job(verdict, width)


def _job(verdict: Verdict, width: int) -> list[Line]:
    attempt = verdict.attempt
    parts = [f"job {attempt.job_id}", f"{attempt.state} {attempt.exit_code}".strip()]
    if attempt.start or attempt.end:
        end = show(attempt.end, day_of(attempt.start)) or "?"
        lasted = duration(attempt.start, attempt.end)
        parts.append(f"{show(attempt.start) or '?'} to {end}" + (f" ({lasted})" if lasted else ""))
    lines = paragraph("  ".join(parts), width, 0, 2)
    count = len(attempt.nodes)
    where = f"{count} node{'' if count == 1 else 's'} {fold(attempt.nodes)}" if count else "no nodes"
    who = [f"{word} {value}" for word, value in _who(verdict) if value]
    return lines + paragraph("  ".join([where, *who]), width, 0, 2, "dim")


def _who(verdict: Verdict) -> tuple[tuple[str, str | None], ...]:
    attempt = verdict.attempt
    reason = attempt.reason if attempt.reason not in (None, "", "None") else None
    user = ("user", attempt.user), ("account", attempt.account), ("partition", attempt.partition)
    return (*user, ("cluster", attempt.cluster), ("Slurm's reason", reason))


def proof(evidence: Evidence, verdict: Verdict, width: int, indent: int, most: int) -> list[Line]:
    """Where the line stands, then the line itself as it was written."""
    place = f"{evidence.source}:{evidence.line}"
    parts = [f"{place} on {evidence.node}" if evidence.node else place, show(evidence.time, attempt_day(verdict))]
    where = row((clip(" " * indent + "  ".join(part for part in parts if part), width), "dim"))
    return [where, *paragraph(evidence.text, width, indent + 2, most, "log")]


def why(verdict: Verdict, width: int, most: int) -> list[Line]:
    cause = verdict.root_cause
    if cause is None or verdict.verdict != "attributed":
        return []
    on = f" on {fold(cause.nodes)}" if cause.nodes else ""
    lines = [heading("WHY"), *paragraph(f"{cause.says} ({cause.symptom}){on}", width, 2, 3, "title")]
    lines += paragraph(cause.why, width, 2)
    shown = max(1, min(most // 2, 3))
    for number, evidence in enumerate(cause.evidence[:shown]):
        lines += proof(evidence, verdict, width, 2, 2 if number == 0 else 1)
    if len(cause.evidence) > shown:
        lines.append(more(len(cause.evidence) - shown, "pieces of evidence"))
    return lines


def could_be(verdict: Verdict, width: int, most: int) -> list[Line]:
    if verdict.verdict == "attributed" or not verdict.candidates:
        return []
    shown = max(2, min(most, 4))
    lines = [heading("COULD BE")]
    for number, candidate in enumerate(verdict.candidates[:shown], 1):
        lines += _candidate(candidate, number, verdict, width, most)
    if len(verdict.candidates) > shown:
        lines.append(more(len(verdict.candidates) - shown, "possible causes"))
    return lines


def _candidate(candidate: Candidate, number: int, verdict: Verdict, width: int, most: int) -> list[Line]:
    on = f" on {fold(candidate.nodes)}" if candidate.nodes else ""
    when = f"  first {show(candidate.first_seen, attempt_day(verdict))}" if candidate.first_seen else ""
    title = f"{candidate.domain}/{candidate.sub_domain}: {candidate.says} ({candidate.symptom}){on}{when}"
    lines = [row((f"  {number}. " if i == 0 else "     ") + part) for i, part in enumerate(wrap(title, width - 5, 3))]
    kept = max(1, most // 3)
    for word, reasons in (("for", candidate.speaks_for), ("against", candidate.against)):
        for reason in reasons[:kept]:
            lines += [row(f"     {word:<8}{part}") for part in wrap(reason, width - 13, 1)]
        if len(reasons) > kept:
            lines.append(more(len(reasons) - kept, f"{word} it"))
    for evidence in candidate.evidence[: 1 if most > 1 else 0]:
        lines += proof(evidence, verdict, width, 5, 1)
    return lines


def missing(verdict: Verdict, width: int, most: int) -> list[Line]:
    # Elsewhere COULD NOT READ says the same in its place.
    if not verdict.missing or verdict.verdict != "insufficient":
        return []
    lines = [heading("WHAT IS MISSING")]
    for what in verdict.missing[:most]:
        lines += paragraph(what, width, 2, 2)
    if len(verdict.missing) > most:
        lines.append(more(len(verdict.missing) - most, "things"))
    return lines


def responsible(verdict: Verdict, width: int, _most: int = 0) -> list[Line]:
    if not verdict.responsible_nodes:
        return (
            [] if verdict.verdict == "no_failure" else [row(("RESPONSIBLE NODES  ", "heading"), "none named by the evidence")]
        )
    count = len(verdict.responsible_nodes)
    title = "RESPONSIBLE NODE  " if count == 1 else f"RESPONSIBLE NODES ({count})  "
    names = wrap(fold(verdict.responsible_nodes), width - len(title), 4)
    return [row((title if i == 0 else " " * len(title), "heading"), (part, "node")) for i, part in enumerate(names)]


def what_to_do(verdict: Verdict, width: int, most: int) -> list[Line]:
    """A command is never wrapped or cut: it is there to be copied."""
    drains = verdict.drain_suggestions
    if verdict.verdict == "no_failure" and not drains and verdict.advice.action == "none":
        return []
    lines = [heading("WHAT TO DO"), *paragraph(verdict.advice.sentence, width, 2)]
    for drain in drains[: max(1, most // 2)]:
        lines += paragraph(f"Suggested, not done: drain {drain.node}", width, 2, 1)
        if drain.confirm:
            lines.append(row("    first confirm on the node: ", (drain.confirm, "command")))
        lines.append(row("    ", (drain.command, "command")))
    if len(drains) > max(1, most // 2):
        lines.append(more(len(drains) - max(1, most // 2), "drains suggested", "--json"))
    return lines


def demoted(verdict: Verdict, width: int, most: int) -> list[Line]:
    groups: dict[tuple[str, str, str], tuple[int, set[str]]] = {}
    for item in verdict.demoted:
        count, nodes = groups.get((item.symptom, item.rule, item.reason), (0, set()))
        groups[item.symptom, item.rule, item.reason] = (count + item.count, nodes | set(item.nodes))
    lines = [heading("DEMOTED (seen, but not the cause)")] if groups else []
    for (symptom, rule, reason), (count, nodes) in list(groups.items())[:most]:
        lines.append(_seen(symptom, count, nodes, width))
        lines += paragraph(f"{reason} ({rule})", width, 4, 2 if most > 2 else 1, "dim")
    if len(groups) > most:
        lines.append(more(len(groups) - most, "demoted"))
    if verdict.interesting:
        names = ", ".join(sorted({seen.symptom for seen in verdict.interesting}))
        lines += [row(("ALSO SEEN  ", "heading"), (clip(names, width - 11), "dim"))]
    return lines


def _seen(symptom: str, count: int, nodes: set[str], width: int) -> Line:
    times = f" {TIMES}{count}" if count > 1 else ""
    name = clip(symptom, width // 2)
    on = clip(f" on {fold(nodes)}" if nodes else "", width - 2 - columns(name + times))
    return row(f"  {name}{times}", (on, "dim"))


def failed_rules(verdict: Verdict, width: int, most: int) -> list[Line]:
    lines = [heading("RULES THAT DID NOT RUN AS THEY SHOULD")] if verdict.diagnostics else []
    for diagnostic in verdict.diagnostics[:most]:
        lines += paragraph(f"{diagnostic.rule}: {diagnostic.what}", width, 2, 1)
    if len(verdict.diagnostics) > most:
        lines.append(more(len(verdict.diagnostics) - most, "of them", "--json"))
    return lines


def foot(verdict: Verdict, width: int, _most: int = 0) -> list[Line]:
    """What this verdict was made with, so that it can be made again."""
    rules = [f"{word} {verdict.rules[word]}" for word in ("version", "hash") if verdict.rules.get(word)]
    return [row((clip(f"rules {' '.join(rules)}, engine {verdict.engine}".replace("rules version", "rules"), width), "dim"))]


SECTIONS: tuple[Section, ...] = (
    head, why, could_be, missing, responsible, what_to_do, first_events, demoted, could_not_read, would_turn, failed_rules, foot,
)  # fmt: skip
