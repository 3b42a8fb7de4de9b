"""What was not read, and what that could have changed."""

from __future__ import annotations

from attribution.model import CouldChange, Coverage, Verdict
from attribution.report.escape import clip, wrap
from attribution.report.nodes import fold
from attribution.report.spans import Line, heading, more, row

_IN_WORDS = {
    "partial": "read in part",
    "empty": "empty",
    "stale": "older than the job",
    "denied": "access denied",
    "unreachable": "unreachable",
    "timed_out": "timed out",
    "not_configured": "not configured",
}


def could_not_read(verdict: Verdict, width: int, most: int) -> list[Line]:
    """Every expected source that was not read whole; sources alike on many nodes are one item."""
    unread = [item for item in verdict.coverage if item.state != "read"]
    changes = {(change.source, change.node): change for change in verdict.could_change}
    groups: dict[tuple[str, str, str, str, tuple[str, ...]], list[Coverage]] = {}
    for item in unread:
        change = changes.get((item.source, item.node)) or changes.get((item.source, None))
        key = (item.kind, item.state, item.reason, ",".join(item.cut), change.domains if change else ())
        groups.setdefault(key, []).append(item)
    lines = [heading("COULD NOT READ")] if groups else []
    for (kind, state, reason, cut, domains), items in list(groups.items())[:most]:
        text = f"{_what(kind, items)}: {_IN_WORDS.get(state, state)}" + (f", {reason}" if reason else "")
        text += f", cut: {cut}" if cut else ""
        lines += [row(("  " + part, "warn")) for part in wrap(text, width - 2, 2 if most > 2 else 1)]
        if domains:
            lines.append(row((clip(f"    it could have shown: {', '.join(domains)}", width), "dim")))
    if len(groups) > most:
        lines.append(more(len(groups) - most, "not read"))
    return lines + _unlisted(verdict.could_change, unread, width)


def _what(kind: str, items: list[Coverage]) -> str:
    nodes = fold(item.node for item in items if item.node)
    if len(items) == 1:
        return f"{kind} {items[0].source}" + (f" on {nodes}" if nodes else "")
    return f"{kind}, {len(items)} sources" + (f" on {nodes}" if nodes else "")


def _unlisted(changes: tuple[CouldChange, ...], unread: list[Coverage], width: int) -> list[Line]:
    """Kinds of source that nobody expected, and that could have decided it all the same."""
    listed = {item.source for item in unread}
    rest = [change for change in changes if change.source not in listed]
    if not rest:
        return []
    kinds = ", ".join(sorted({change.kind for change in rest}))
    domains = ", ".join(sorted({domain for change in rest for domain in change.domains}))
    return [row((clip(f"  not looked at: {kinds}; it could have shown: {domains}", width), "dim"))]


def would_turn(verdict: Verdict, width: int, _most: int = 0) -> list[Line]:
    flip = verdict.would_flip
    if flip is None:
        return []
    where = f" on {flip.node}" if flip.node else ""
    source = f" in {flip.source}" if flip.source else ""
    then = f"{flip.domain}" + (f" on {fold(flip.nodes)}" if flip.nodes else "")
    text = f"{flip.symptom} ({flip.says}){where}{source} would turn this verdict to {then}."
    return [heading("WHAT WOULD CHANGE IT"), *[row("  " + part) for part in wrap(text, width - 2, 2)]]
