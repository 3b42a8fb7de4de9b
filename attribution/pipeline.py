"""The one page that joins the rooms: evidence in, verdict out."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from attribution import ruleset
from attribution.connectors import bundle as bundle_connector
from attribution.engine.rules import RuleSet
from attribution.engine.session import Session
from attribution.model import Coverage, Frozen, Verdict

STORED_MOST = 1 << 20


class AnalyzedBundle(Frozen, frozen=True, kw_only=True):
    """A verdict with what the archive keeps beside it."""

    verdict: Verdict
    stored_input: bytes
    input_hash: str


def analyze_bundle(
    folder: Path, rule_dirs: tuple[Path, ...] = (), *, explain: bool = False, rules: RuleSet | None = None
) -> AnalyzedBundle:
    """Attribute a bundle. Raises ConfigError for a bundle, RuleError for rules that are wrong."""
    bundle = bundle_connector.read_bundle(folder)
    loaded = rules or ruleset.load(rule_dirs, samples=False)
    session = Session(loaded, bundle)
    digest = hashlib.sha256(session.input_hash().encode())
    for source in sorted(bundle.sources, key=lambda s: s.path):
        file, problem = bundle_connector.open_source(folder, source)
        if problem is not None:
            session.could_not_read(problem)
            digest.update(msgspec.json.encode(problem))
            continue
        try:
            for block in bundle_connector.blocks(file):
                session.ingest(source.path, block)
                digest.update(block)
        except OSError as error:
            state = Coverage(
                source=source.path,
                kind=source.kind,
                state="partial",
                node=source.node,
                reason=f"reading stopped: {error.strerror}",
            )
            session.could_not_read(state)
        finally:
            file.close()
        session.ingest(source.path, b"", last=True)
    verdict = session.attribute(explain=explain)
    return AnalyzedBundle(verdict=verdict, stored_input=_stored(folder, verdict), input_hash=digest.hexdigest())


def _stored(folder: Path, verdict: Verdict) -> bytes:
    """bundle.json and the lines that the verdict stands on, at most 1 MiB."""
    kept: dict[str, dict[int, str]] = {}
    pieces = [e for s in (*verdict.symptoms, *verdict.interesting) for e in s.evidence]
    for piece in [*pieces, *(e for d in verdict.demoted for e in d.evidence)]:
        kept.setdefault(piece.source, {})[piece.line] = piece.text
    lines = {source: [[n, text] for n, text in sorted(found.items())] for source, found in sorted(kept.items())}
    text = (folder / "bundle.json").read_bytes()
    whole = msgspec.json.encode({"bundle": msgspec.Raw(text), "lines": lines})
    return whole if len(whole) <= STORED_MOST else msgspec.json.encode({"bundle": msgspec.Raw(text), "lines": {}})[:STORED_MOST]
