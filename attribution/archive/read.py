"""Questions to the archive. Each takes a connection; `Archive` in open.py is their door."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, func, or_, select

from attribution.archive.rewrite import rewrite
from attribution.archive.schema import aliases, attempts, evidence, responsible_nodes, stored_inputs, verdicts
from attribution.model import Evidence, Verdict

# SQLite before 3.32 takes 999 variables.
_MOST_ASKED = 500
_JOB_RE = re.compile(r"([0-9]+)(?:([_+])([0-9]+))?")


class StoredVerdict(Struct, frozen=True, kw_only=True):
    """A verdict out of the archive. An excerpt whose retention is over has an empty text. `stored`: epoch seconds."""

    attempt: str
    version: int
    latest: int
    stored: float
    input_hash: str
    verdict: Verdict


class VersionRow(Struct, frozen=True, kw_only=True):
    """A version in short, for lists and reports. `stored` is in epoch seconds, `end` as the verdict has it."""

    attempt: str
    job_id: str
    state: str
    end: str | None
    user: str | None
    account: str | None
    partition: str | None
    version: int
    stored: float
    input_hash: str
    rules_hash: str
    engine: str
    verdict: str
    terminal_state: str
    domain: str
    sub_domain: str
    confidence: str
    root_symptom: str | None
    responsible_nodes: tuple[str, ...]


class StoredInput(Struct, frozen=True, kw_only=True):
    """The input of an attempt's newest version, masked. `stored` is in epoch seconds."""

    attempt: str
    stored: float
    input_hash: str
    content: bytes


def resolve(connection: Connection, key: str) -> str:
    """The attempt's key of today for a key that may be an older one; the same key where nothing is known of it."""
    found = connection.execute(select(aliases.c.attempt).where(aliases.c.alias == key)).scalar()
    return key if found is None else str(found)


def keys_of(connection: Connection, job: str) -> list[str]:
    """The keys of the attempts that `job` means, oldest first."""
    asked = select(attempts.c.attempt).where(or_(*_meant(job), attempts.c.attempt == resolve(connection, job)))
    order = asked.order_by(func.coalesce(attempts.c.submit, attempts.c.start, ""), attempts.c.stored, attempts.c.attempt)
    return list(connection.execute(order).scalars())


def _meant(job: str) -> list[ColumnElement[bool]]:
    match = _JOB_RE.fullmatch(job)
    meant = [attempts.c.job_id == job]
    if match is None:
        return [*meant, attempts.c.sluid == job]
    number, sign, part = match.groups()
    if sign == "_":
        return [*meant, (attempts.c.array_job_id == number) & (attempts.c.array_task_id == part)]
    if sign == "+":
        # An offset beyond any that Slurm has would not fit the column.
        return [*meant, (attempts.c.het_job_id == number) & (attempts.c.het_offset == int(part[:9]))]
    return [*meant, attempts.c.array_job_id == number, attempts.c.het_job_id == number]


def known(connection: Connection, keys: Sequence[str]) -> frozenset[str]:
    """Those of the keys that are an attempt's, today's or an older one."""
    found: set[str] = set()
    for at in range(0, len(keys), _MOST_ASKED):
        some = list(keys[at : at + _MOST_ASKED])
        found.update(connection.execute(select(attempts.c.attempt).where(attempts.c.attempt.in_(some))).scalars())
        found.update(connection.execute(select(aliases.c.alias).where(aliases.c.alias.in_(some))).scalars())
    return frozenset(found)


def _latest(connection: Connection, key: str) -> int:
    return connection.execute(select(func.max(verdicts.c.version)).where(verdicts.c.attempt == key)).scalar() or 0


def newest(connection: Connection, key: str) -> StoredVerdict:
    """The newest verdict of an attempt that is stored."""
    found = one(connection, key, _latest(connection, key))
    assert found is not None
    return found


def one(connection: Connection, key: str, version: int) -> StoredVerdict | None:
    """One version with its evidence."""
    columns = (verdicts.c.id, verdicts.c.stored, verdicts.c.input_hash, verdicts.c.json)
    row = connection.execute(select(*columns).where(verdicts.c.attempt == key, verdicts.c.version == version)).first()
    if row is None:
        return None
    return StoredVerdict(
        attempt=key,
        version=version,
        latest=_latest(connection, key),
        stored=row.stored,
        input_hash=row.input_hash,
        verdict=_verdict(connection, row.id, row.json),
    )


def _verdict(connection: Connection, verdict_id: int, document: bytes) -> Verdict:
    asked = select(evidence.c.number, evidence.c.text).where(evidence.c.verdict_id == verdict_id)
    texts = {str(number): text for number, text in connection.execute(asked)}
    numbered = msgspec.json.decode(zlib.decompress(document), type=Verdict)
    return rewrite(numbered, lambda item: replace(item, text=texts.get(item.text, "")) if isinstance(item, Evidence) else item)


def rows(
    connection: Connection, *, key: str | None = None, since: float | None = None, until: float | None = None
) -> tuple[VersionRow, ...]:
    """All versions of one attempt, or the newest version of each attempt that was stored in a time."""
    twin = verdicts.alias()
    newest_version = select(func.max(twin.c.version)).where(twin.c.attempt == verdicts.c.attempt).scalar_subquery()
    chosen: list[ColumnElement[bool]] = [verdicts.c.version == newest_version] if key is None else [verdicts.c.attempt == key]
    chosen += [verdicts.c.stored >= since] if since is not None else []
    chosen += [verdicts.c.stored < until] if until is not None else []
    nodes: dict[int, list[str]] = {}
    asked = select(verdicts.c.id, responsible_nodes.c.node).join(
        responsible_nodes, responsible_nodes.c.verdict_id == verdicts.c.id
    )
    for verdict_id, node in connection.execute(asked.where(*chosen).order_by(responsible_nodes.c.node)):
        nodes.setdefault(verdict_id, []).append(node)
    names = [name for name in VersionRow.__struct_fields__ if name != "responsible_nodes"]
    columns = [verdicts.c[name] if name in verdicts.c else attempts.c[name] for name in names]
    listed = select(verdicts.c.id, *columns).join(attempts, attempts.c.attempt == verdicts.c.attempt).where(*chosen)
    order = (verdicts.c.stored, verdicts.c.id) if key is None else (verdicts.c.version,)
    found = connection.execute(listed.order_by(*order))
    return tuple(
        VersionRow(**dict(zip(names, row[1:], strict=True)), responsible_nodes=tuple(nodes.get(row[0], ()))) for row in found
    )


def stored_input(connection: Connection, key: str) -> StoredInput | None:
    """The input that was kept for an attempt."""
    table = stored_inputs
    row = connection.execute(select(table.c.stored, table.c.input_hash, table.c.content).where(table.c.attempt == key)).first()
    if row is None:
        return None
    return StoredInput(attempt=key, stored=row.stored, input_hash=row.input_hash, content=zlib.decompress(row.content))
