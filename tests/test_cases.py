"""Every labelled case, ours and (where they are) others', and what must hold for any of them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import jsonschema
import judge
import msgspec
import pytest

from attribution import ruleset
from attribution.bundle import Bundle, Source
from attribution.engine.select import as_text, select
from attribution.engine.session import Session
from attribution.model import NODE_LOGS, Verdict
from attribution.ruleset.corpus import healthy_lines

OWN = judge.cases(judge.OWN)
ALL = [*OWN, *judge.cases(judge.OTHERS)]
ORDER = {"low": 0, "medium": 1, "high": 2}
# What others' cases must reach at least; score.py says what each column means.
REACH = {"domain": 0.95, "terminal": 0.95, "blame": 1.0, "drain": 1.0}


@pytest.fixture(scope="module")
def rules():
    return ruleset.load(samples=False)


@pytest.fixture(scope="module", params=ALL, ids=[c.name for c in ALL])
def case(request, rules):
    """(folder, bundle, texts, verdict) of one case."""
    bundle, texts = judge.read(request.param)
    return request.param, bundle, texts, judge.attribute(rules, bundle, texts)


def key(verdict: Verdict):
    return (verdict.domain, verdict.responsible_nodes)


@pytest.mark.parametrize("folder", OWN, ids=[c.name for c in OWN])
def test_our_own_case_is_answered(folder, rules):
    bundle, texts = judge.read(folder)
    assert judge.faults(judge.attribute(rules, bundle, texts), judge.label(folder)) == []


@pytest.mark.skipif(not judge.cases(judge.OTHERS), reason="the shared development cases are not beside this checkout")
def test_others_cases_reach_their_marks(tmp_path):
    command = f"{Path(sys.executable).parent / 'sattrib'}"
    out = tmp_path / "scores.json"
    subprocess.run(
        [sys.executable, judge.OTHERS / "score.py", "--sattrib", command, "--json", out, *judge.cases(judge.OTHERS)],
        check=True,
        capture_output=True,
    )
    rows = [r for r in json.loads(out.read_text()) if r["counted"]]
    for mark, least in REACH.items():
        marks = [r["marks"][mark] for r in rows if r["marks"][mark] is not None]
        assert sum(marks) / len(marks) >= least, mark


def test_every_verdict_and_bundle_fits_its_schema(case):
    folder, _, _, verdict = case
    jsonschema.validate(json.loads(msgspec.json.encode(verdict)), msgspec.json.schema(Verdict))
    jsonschema.validate(json.loads((folder / "bundle.json").read_text()), msgspec.json.schema(Bundle))


def test_attributing_twice_gives_the_same_bytes(case, rules):
    _, bundle, texts, verdict = case
    assert msgspec.json.encode(judge.attribute(rules, bundle, texts)) == msgspec.json.encode(verdict)


def test_the_order_of_sources_does_not_matter(case, rules):
    _, bundle, texts, verdict = case
    turned = msgspec.structs.replace(bundle, sources=tuple(reversed(bundle.sources)))
    assert msgspec.json.encode(judge.attribute(rules, turned, texts)) == msgspec.json.encode(verdict)


def test_healthy_lines_change_neither_domain_nor_nodes(case, rules):
    folder, bundle, texts, verdict = case
    chance = random.Random(folder.name)
    mixed = {}
    kinds = {s.path: s.kind for s in bundle.sources}
    for path, text in texts.items():
        lines = text.split(b"\n")
        for line in chance.sample(healthy_lines(), 60):
            # Progress after an error says that the job went on: in its output, healthy lines come before.
            if not line.startswith((" ", "\t")) and kinds[path] != "metric":
                lines.insert(0 if kinds[path] == "app" else chance.choice((0, len(lines))), line.encode())
        mixed[path] = b"\n".join(lines)
    assert key(judge.attribute(rules, bundle, mixed)) == key(verdict)


def test_lines_of_other_nodes_change_neither_domain_nor_nodes(case, rules):
    _, bundle, texts, verdict = case
    stranger = Source(path="stranger.kern", kind="kern", node="stranger-99")
    more = msgspec.structs.replace(bundle, sources=(*bundle.sources, stranger))
    when = (bundle.attempt.end or bundle.attempt.start or "2026-03-02T04:00:00")[:19].encode()
    fault = when + b" stranger-99 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    assert key(judge.attribute(rules, more, {**texts, "stranger.kern": fault})) == key(verdict)


def test_lines_from_outside_the_window_change_neither_domain_nor_nodes(case, rules):
    _, bundle, texts, verdict = case
    if bundle.attempt.start is None or bundle.attempt.end is None:
        return
    node = bundle.attempt.nodes[0]
    late = msgspec.structs.replace(bundle, sources=(*bundle.sources, Source(path="late.kern", kind="kern", node=node)))
    line = f"2038-01-01T00:00:00+00:00 {node} kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n".encode()
    assert key(judge.attribute(rules, late, {**texts, "late.kern": line})) == key(verdict)


def test_removing_lines_never_blames_a_node_without_a_root_event_left(case, rules):
    folder, bundle, texts, _ = case
    chance = random.Random(folder.name + "x")
    for _ in range(3):
        kept = {p: b"\n".join(line for line in t.split(b"\n") if chance.random() < 0.6) for p, t in texts.items()}
        verdict = judge.attribute(rules, bundle, kept)
        shown = {n for c in verdict.candidates for n in c.nodes}
        assert set(verdict.responsible_nodes) <= shown


def test_removing_a_source_never_raises_confidence(case, rules):
    _, bundle, texts, verdict = case
    for path in texts:
        without = judge.attribute(rules, judge.drop(bundle, path), {p: t for p, t in texts.items() if p != path})
        if without.domain == verdict.domain and without.verdict == verdict.verdict == "attributed":
            source = next(s for s in bundle.sources if s.path == path)
            if source.kind in NODE_LOGS:
                assert ORDER[without.confidence] <= ORDER[verdict.confidence], path


def test_what_a_node_would_send_gives_the_same_verdict(case, rules):
    """Needles, contexts and caps where the data is must not change the answer."""
    _, bundle, texts, verdict = case
    kinds = {s.path: s.kind for s in bundle.sources}
    sent = {p: as_text(select(rules, kinds[p], t)) if kinds[p] != "metric" else t for p, t in texts.items()}
    found = judge.attribute(rules, bundle, sent)

    def heads(v: Verdict):
        return (
            v.verdict,
            v.terminal_state,
            v.domain,
            v.sub_domain,
            v.responsible_nodes,
            v.root_cause.symptom if v.root_cause else None,
        )

    assert heads(found) == heads(verdict)


def test_ingest_in_pieces_ends_where_all_at_once_does(case, rules):
    """A preliminary verdict from early sources is refined as others arrive; the end is the same."""
    folder, bundle, texts, verdict = case
    chance = random.Random(folder.name + "y")
    session = Session(rules, bundle)
    order = list(texts)
    chance.shuffle(order)
    for path in order:
        half = len(texts[path]) // 2
        session.ingest(path, texts[path][:half])
        session.attribute()
        session.ingest(path, texts[path][half:], last=True)
        session.attribute()
    assert msgspec.json.encode(session.attribute()) == msgspec.json.encode(verdict)
