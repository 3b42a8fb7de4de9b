"""What could be read, what could not, and what that might have changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attribution.bundle import Bundle
from attribution.engine.choose import blame, choose
from attribution.engine.ledger import Ledger
from attribution.engine.outcome import Outcome
from attribution.engine.rules import RuleSet
from attribution.engine.source import SourceReader
from attribution.engine.stamps import Stamp, Zone, iso
from attribution.model import NODE_LOGS, CouldChange, Coverage, Event, Symptom, WouldFlip

MOST_TRIES = 24


def coverage_of(reader: SourceReader, zone: Zone, problem: Coverage | None) -> Coverage:
    """Coverage of a source that was opened; `problem` is what its collector or opener said of it."""
    source, given = reader.source, reader.source.coverage
    state = given.state if given else "read"
    reasons = [given.reason] if given and given.reason else []
    if problem is not None:
        return problem
    if state == "read" and reader.bytes == 0:
        state = "empty"
    beyond = reader.beyond_caps()
    cut = tuple(sorted({*beyond, *(given.cut if given else ())}))
    if reader.cut_lines:
        reasons.append(f"{reader.cut_lines} lines longer than 8 KiB were cut")
    if beyond:
        reasons.append(f"{sum(beyond.values())} further distinct lines were only counted")
    if cut and state == "read":
        state = "partial"
    return Coverage(
        source=source.path, kind=source.kind, state=state, node=source.node, bytes=reader.bytes, lines=reader.lines,
        first=_when(reader.times.first, zone), last=_when(reader.times.last, zone), reason="; ".join(reasons), cut=cut,
    )  # fmt: skip


def _when(stamp: Stamp | None, zone: Zone) -> str | None:
    return iso(zone.wall(stamp)) if stamp is not None else None


def missing_sources(bundle: Bundle) -> list[Coverage]:
    """Offline, one application source and one kernel or system log of each node are expected."""
    if not bundle.attempt.start and not bundle.attempt.nodes:
        return []
    found = []
    if not any(s.kind == "app" for s in bundle.sources):
        found.append(
            Coverage(
                source="application output", kind="app", state="not_configured", reason="no application output in the bundle"
            )
        )
    have = {s.node for s in bundle.sources if s.kind in NODE_LOGS}
    if None in have or "" in have:
        return found
    known = {n.lower().split(".")[0] for n in have if n}
    for node in bundle.attempt.nodes:
        if node.lower().split(".")[0] not in known:
            found.append(
                Coverage(
                    source=f"kernel log of {node}",
                    kind="kern",
                    state="not_configured",
                    node=node,
                    reason="no kernel or system log of this node",
                )
            )
    return found


def unread(coverage: Iterable[Coverage]) -> list[Coverage]:
    return [c for c in coverage if c.state not in ("read", "empty")]


def roots_of(rules: RuleSet) -> Mapping[str, tuple[Symptom, ...]]:
    """Source kind -> root symptoms that a rule can find there, strongest first."""
    found: dict[str, set[str]] = {}
    for rule in rules.extractors:
        if rule.maturity == "sandbox":
            continue
        names = {r.symptom for r in rule.rows.values()} if rule.rows is not None else {rule.symptom}
        for kind in rule.reads:
            found.setdefault(kind, set()).update(n for n in names if n in rules.symptoms)
    return {
        kind: tuple(
            sorted((rules.symptoms[n] for n in names if rules.symptoms[n].role == "root"), key=lambda s: (s.rank, s.id))
        )
        for kind, names in found.items()
    }


def could_change(coverage: Iterable[Coverage], rules: RuleSet) -> tuple[CouldChange, ...]:
    """Per unread source, the domains of root symptoms that only such a source shows."""
    roots = roots_of(rules)
    found = []
    for c in unread(coverage):
        domains = tuple(sorted({s.domain for s in roots.get(c.kind, ()) if s.domain != "unknown"}))
        found.append(CouldChange(source=c.source, kind=c.kind, node=c.node, state=c.state, domains=domains))
    return tuple(found)


def would_flip(ledger: Ledger, rules: RuleSet, outcome: Outcome, coverage: Iterable[Coverage]) -> WouldFlip | None:
    """The choice run again with one root event of an unread source before the onset: the first that turns it."""
    if outcome.verdict == "no_failure":
        return None
    roots, by_kind = ledger.roots(), roots_of(rules)
    onset = outcome.first.first.time if outcome.first is not None and outcome.first.first.clock == "wall" else ledger.state.end
    tries = 0
    for c in unread(coverage):
        domains: set[str] = set()
        for symptom in by_kind.get(c.kind, ()):
            if symptom.domain in domains or symptom.domain in ("unknown", "none", "scheduler") or not symptom.explains:
                continue
            domains.add(symptom.domain)
            tries += 1
            if tries > MOST_TRIES:
                return None
            added = _imagined(symptom, c, onset)
            kept = choose(ledger, rules, [*(r for r in roots if not _explains(added, r, rules)), added]).kept
            if not kept:
                continue
            nodes = blame(kept[0], ledger).nodes
            if kept[0].symptom.domain != outcome.domain or (nodes != outcome.nodes and len(kept) == 1):
                return WouldFlip(
                    symptom=symptom.id,
                    says=symptom.says,
                    node=c.node,
                    source=c.source,
                    domain=kept[0].symptom.domain,
                    nodes=nodes,
                )
    return None


def _imagined(symptom: Symptom, c: Coverage, onset: float | None) -> Event:
    return Event(
        id="would-flip", rule="would-flip", symptom=symptom.id, emit="bad_node", kind=c.kind, source=c.source, line=0,
        node=c.node, time=None if onset is None else onset - 10.0, own_time=onset is not None,
    )  # fmt: skip


def _explains(cause: Event, effect: Event, rules: RuleSet) -> bool:
    for symptom, scope, _pattern, _within in rules.effects.get(effect.symptom, ()):
        if symptom == cause.symptom and (scope == "job" or effect.node is None or effect.node == cause.node):
            return True
    return False
