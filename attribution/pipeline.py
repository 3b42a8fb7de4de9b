"""The one page that joins the rooms: evidence in, verdict out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from attribution import __version__, connectors, ruleset
from attribution.bundle import Attempt, Bundle, Neighbour, NodeRecord, Source
from attribution.config import Config
from attribution.connectors import bundle as bundle_connector
from attribution.engine.rules import RuleSet
from attribution.engine.session import Session
from attribution.model import Advice, Coverage, Diagnostic, Frozen, Verdict

STORED_MOST = 1 << 20
NO_RULES = RuleSet({}, (), (), __version__, "none", ())


class AnalyzedBundle(Frozen, frozen=True, kw_only=True):
    """A verdict with what the archive keeps beside it."""

    verdict: Verdict
    stored_input: bytes
    input_hash: str


def analyze_bundle(
    folder: Path,
    rule_dirs: tuple[Path, ...] = (),
    *,
    explain: bool = False,
    rules: RuleSet | None = None,
    trusted_files: bool = False,
    step: Callable[[str], None] = lambda _name: None,
) -> AnalyzedBundle:
    """Attribute a bundle. Raises ConfigError for a bundle, RuleError for rules that are wrong.

    `trusted_files` is `[collect] trusted_files`. `step` is called with the name of each part before it begins.
    """
    step("bundle")
    bundle = bundle_connector.read_bundle(folder)
    loaded = rules or ruleset.load(rule_dirs, samples=False)
    session = Session(loaded, bundle, trusted_files=trusted_files)
    digest = hashlib.sha256(session.input_hash().encode())
    for source in sorted(bundle.sources, key=lambda s: s.path):
        step(f"read {source.kind}")
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
    step("attribute")
    verdict = session.attribute(explain=explain)
    step("store")
    return AnalyzedBundle(verdict=verdict, stored_input=_stored(folder, verdict), input_hash=digest.hexdigest())


async def collect_bundle(
    request: connectors.Request,
    config: Config,
    nodes: tuple[NodeRecord, ...],
    neighbours: tuple[Neighbour, ...],
    gaps: tuple[Source, ...],
) -> None:
    """The live half: what the connectors find becomes a bundle in `request.folder`, as `analyze_bundle` reads it.

    `gaps` are sources that are already known not to be readable.
    """
    sources = await connectors.collect_all(request, config)
    write_bundle(request.folder, live_bundle(request.attempt, (*sources, *gaps), nodes, neighbours))


def live_bundle(
    attempt: Attempt,
    sources: tuple[Source, ...],
    nodes: tuple[NodeRecord, ...] = (),
    neighbours: tuple[Neighbour, ...] = (),
) -> Bundle:
    """A bundle of values that Slurm and the connectors gave."""
    return Bundle(schema=1, attempt=attempt, sources=sources, nodes=nodes, neighbours=neighbours)


def write_bundle(folder: Path, bundle: Bundle) -> None:
    """Put `bundle` into `folder` as its bundle.json. Raises OSError."""
    (folder / "bundle.json").write_bytes(msgspec.json.encode(bundle))


def unjudged(attempt: Attempt, what: str) -> AnalyzedBundle:
    """The verdict of an attempt whose work ended in a crash of ours: insufficient, and `what` says why.

    Only Slurm's own words go in: nothing that could have caused the crash is looked at again.
    """
    bundle = Bundle(schema=1, attempt=msgspec.structs.replace(attempt, stdout=None, stderr=None), sources=())
    verdict = msgspec.structs.replace(
        Session(NO_RULES, bundle).attribute(),
        verdict="insufficient", domain="unknown", sub_domain="no_evidence", confidence="low", missing=(what,),
        diagnostics=(Diagnostic(rule="worker", what=what),),
        advice=Advice(action="admin_first", sentence=f"sattrib could not judge this attempt: {what}. Please report it."),
    )  # fmt: skip
    stored = msgspec.json.encode({"bundle": bundle, "lines": {}})
    digest = hashlib.sha256(stored + what.encode()).hexdigest()
    return AnalyzedBundle(verdict=verdict, stored_input=stored, input_hash=digest)


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
