"""Cases with labels, and whether a verdict answers them. Shared by the tests on our own cases and on others'."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from attribution.bundle import Bundle
from attribution.connectors.bundle import blocks, open_source, read_bundle
from attribution.engine.rules import RuleSet
from attribution.engine.session import Session
from attribution.model import Verdict

OWN = Path(__file__).parent / "cases"
OTHERS = Path(__file__).parents[2] / "shared" / "cases"


def cases(folder: Path) -> list[Path]:
    return sorted(p.parent for p in folder.glob("*/bundle.json")) if folder.is_dir() else []


def label(case: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((case / "expected.json").read_text())
    return found


def read(case: Path) -> tuple[Bundle, dict[str, bytes]]:
    """A case's bundle and the bytes of each source that can be read."""
    bundle = read_bundle(case)
    texts = {}
    for source in bundle.sources:
        file, problem = open_source(case, source)
        if problem is None:
            with file:
                texts[source.path] = b"".join(blocks(file))
    return bundle, texts


def attribute(rules: RuleSet, bundle: Bundle, texts: dict[str, bytes], **more: Any) -> Verdict:
    session = Session(rules, bundle, **more)
    for path in [s.path for s in bundle.sources]:
        if path in texts:
            session.ingest(path, texts[path], last=True)
    return session.attribute()


def faults(verdict: Verdict, want: dict[str, Any]) -> list[str]:
    """What is wrong with a verdict; empty where it answers the label."""
    sure = not want["ambiguous"]
    allowed = {want["domain"]} | (set() if sure else set(want["candidates"]))
    nodes, named = set(verdict.responsible_nodes), set(want["responsible_nodes"])
    found = []
    if verdict.domain not in allowed:
        found.append(f"domain {verdict.domain}, not {' or '.join(sorted(allowed))}")
    if sure and verdict.sub_domain != want["sub_domain"]:
        found.append(f"sub_domain {verdict.sub_domain}, not {want['sub_domain']}")
    if sure and verdict.terminal_state != want["terminal_state"]:
        found.append(f"terminal_state {verdict.terminal_state}, not {want['terminal_state']}")
    if not (nodes == named if sure else nodes <= named):
        found.append(f"nodes {sorted(nodes)}, not {sorted(named)}")
    if {d.node for d in verdict.drain_suggestions} - named:
        found.append("a drain for a node that the label does not name")
    if sure and want["domain"] != "unknown" and verdict.verdict not in ("attributed", "no_failure"):
        found.append(f"verdict {verdict.verdict}")
    if want["demoted"] and not verdict.demoted:
        found.append("nothing was demoted")
    return found


def drop(bundle: Bundle, path: str, state: str = "denied") -> Bundle:
    """The bundle with one source's coverage saying that it could not be read."""
    data = msgspec.to_builtins(bundle)
    for source in data["sources"]:
        if source["path"] == path:
            source["coverage"] = {"state": state, "reason": "taken away"}
    return msgspec.convert(data, Bundle)
