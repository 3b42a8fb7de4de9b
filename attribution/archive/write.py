"""One transaction that keeps verdicts: masked first, then the rows, and nothing is ever changed in a stored version."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Table, func, insert, select, update

from attribution.archive import schema
from attribution.archive.adopt import adopt
from attribution.archive.read import resolve
from attribution.archive.rewrite import masked, masked_input, rewrite
from attribution.model import Evidence, Verdict

INPUT_MOST = 1 << 20
_RAW_MOST = 32 << 20
_EVIDENCE = ("source", "kind", "line", "node", "time", "text")
_COVERAGE = ("source", "kind", "node", "state", "bytes", "lines", "reason")
_SYMPTOM = ("symptom", "role", "domain", "sub_domain", "count", "first_seen", "reason")


class Finished(Struct, frozen=True, kw_only=True):
    """A verdict to keep. `aliases` are older keys of the same attempt."""

    verdict: Verdict
    input_hash: str
    stored_input: bytes | None = None
    aliases: tuple[str, ...] = ()


class StoredVersion(Struct, frozen=True, kw_only=True):
    """Where a verdict is kept. Not `new`: the same input, rules and engine had made this version before.

    `input_kept` is False where there was no input, or one of more than 1 MiB (compressed).
    """

    attempt: str
    version: int
    latest: int
    new: bool
    input_kept: bool


class Prepared(Struct, frozen=True, kw_only=True):
    """All that can be done before the database is locked."""

    finished: Finished
    verdict: Verdict
    document: bytes
    pieces: dict[Evidence, tuple[int, str | None]]
    content: bytes | None
    rules_hash: str


def prepare(finished: Finished) -> Prepared:
    """Mask and compress."""
    verdict = rewrite(masked(finished.verdict), lambda item: storable(item) if isinstance(item, str) else item)
    pieces: dict[Evidence, tuple[int, str | None]] = {}
    for piece, symptom in _evidence(verdict):
        pieces.setdefault(piece, (len(pieces), symptom))
    numbered = rewrite(verdict, lambda item: replace(item, text=str(pieces[item][0])) if isinstance(item, Evidence) else item)
    return Prepared(
        finished=finished,
        verdict=verdict,
        document=zlib.compress(msgspec.json.encode(numbered)),
        pieces=pieces,
        content=_compressed(finished.stored_input),
        rules_hash=rules_hash(verdict),
    )


def storable(text: str) -> str:
    """What every database takes: half a surrogate pair becomes U+FFFD, NUL its picture."""
    if "\0" in text:
        text = text.replace("\0", "\u2400")
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def rules_hash(verdict: Verdict) -> str:
    """The rule set's own hash, or one of all that the verdict says of its rules."""
    named = verdict.rules.get("hash")
    return named or sha256(json.dumps(verdict.rules, sort_keys=True).encode()).hexdigest()


def _compressed(raw: bytes | None) -> bytes | None:
    if raw is None or len(raw) > _RAW_MOST:
        return None
    content = zlib.compress(masked_input(raw))
    return content if len(content) <= INPUT_MOST else None


def _evidence(verdict: Verdict) -> Iterator[tuple[Evidence, str | None]]:
    """Every piece of evidence, with the symptom that it is first shown for."""
    cause = (verdict.root_cause,) if verdict.root_cause else ()
    for item in (*cause, *verdict.candidates, *verdict.symptoms, *verdict.demoted, *verdict.interesting):
        for piece in item.evidence:
            yield piece, item.symptom
    for drain in verdict.drain_suggestions:
        for piece in drain.proof:
            yield piece, None


def store(connection: Connection, item: Prepared, now: float) -> StoredVersion:
    """Within a transaction that holds the write lock: the attempt, and a new version where there is none of these hashes."""
    key = item.verdict.attempt.key
    attempt = resolve(connection, key)
    if attempt == key:
        _store_attempt(connection, item.verdict, now)
    for alias in item.finished.aliases:
        adopt(connection, alias, attempt)
    table = schema.verdicts
    same = (
        (table.c.attempt == attempt)
        & (table.c.input_hash == item.finished.input_hash)
        & (table.c.rules_hash == item.rules_hash)
        & (table.c.engine == item.verdict.engine)
    )
    latest = connection.execute(select(func.max(table.c.version)).where(table.c.attempt == attempt)).scalar() or 0
    known = connection.execute(select(table.c.version).where(same)).scalar()
    if known is not None:
        return StoredVersion(attempt=attempt, version=known, latest=latest, new=False, input_kept=False)
    version = latest + 1
    _store_version(connection, item, attempt, version, now)
    if item.content is not None:
        _store_input(connection, item, attempt, now)
    return StoredVersion(attempt=attempt, version=version, latest=version, new=True, input_kept=item.content is not None)


def _store_attempt(connection: Connection, verdict: Verdict, now: float) -> None:
    view, table = verdict.attempt, schema.attempts
    names = [column.name for column in table.columns if column.name not in ("attempt", "stored")]
    row = {name: getattr(view, name) for name in names}
    if not connection.execute(update(table).where(table.c.attempt == view.key).values(row)).rowcount:
        connection.execute(insert(table).values(attempt=view.key, stored=now, **row))


def _store_version(connection: Connection, item: Prepared, attempt: str, version: int, now: float) -> None:
    verdict = item.verdict
    row = {
        "attempt": attempt, "version": version, "stored": now, "input_hash": item.finished.input_hash,
        "rules_hash": item.rules_hash, "engine": verdict.engine, "verdict": verdict.verdict, "terminal_state": verdict.terminal_state,
        "domain": verdict.domain, "sub_domain": verdict.sub_domain, "confidence": verdict.confidence,
        "root_symptom": verdict.root_cause.symptom if verdict.root_cause else None, "json": item.document,
    }  # fmt: skip
    result = connection.execute(insert(schema.verdicts).values(row))
    primary_key = result.inserted_primary_key
    assert primary_key is not None
    for table, rows in _rows(item):
        if rows:
            connection.execute(insert(table), [{"verdict_id": primary_key[0], **row} for row in rows])


def _rows(item: Prepared) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    verdict = item.verdict
    yield schema.responsible_nodes, [{"node": node} for node in dict.fromkeys(verdict.responsible_nodes)]
    symptoms, nodes = _symptom_rows(verdict)
    yield schema.symptoms, symptoms
    yield schema.symptom_nodes, nodes
    pieces = item.pieces.items()
    yield (
        schema.evidence,
        [{"number": number, "symptom": symptom, **_fields(piece, _EVIDENCE)} for piece, (number, symptom) in pieces],
    )
    yield schema.coverage, [{"number": number, **_fields(source, _COVERAGE)} for number, source in enumerate(verdict.coverage)]


def _fields(value: Struct, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name, None) for name in names}


def _symptom_rows(verdict: Verdict) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    places = (("counts", verdict.symptoms), ("demoted", verdict.demoted), ("interesting", verdict.interesting))
    for place, item in ((place, item) for place, items in places for item in items):
        rule = getattr(item, "rule", None) or ", ".join(getattr(item, "rules", ()))
        nodes += [{"number": len(rows), "node": node} for node in dict.fromkeys(item.nodes)]
        rows.append({"number": len(rows), "place": place, "rule": rule, **_fields(item, _SYMPTOM)})
    return rows, nodes


def _store_input(connection: Connection, item: Prepared, attempt: str, now: float) -> None:
    table, raw = schema.stored_inputs, item.finished.stored_input or b""
    row = {"stored": now, "input_hash": item.finished.input_hash, "size": len(raw), "content": item.content}
    if not connection.execute(update(table).where(table.c.attempt == attempt).values(row)).rowcount:
        connection.execute(insert(table).values(attempt=attempt, **row))
