"""The tables. The verdict's JSON is the truth; what stands beside it is there to be asked for in SQL.

An excerpt of a log is kept once, in `evidence`, so that retention is a DELETE: inside the stored JSON an evidence's
text is its number there. Times named `stored` are epoch seconds; the verdict's own times are its ISO 8601 strings.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)  # fmt: skip

SCHEMA = 1

tables = MetaData()

meta = Table("meta", tables, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

attempts = Table(
    "attempts",
    tables,
    Column("attempt", Text, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("array_job_id", Text),
    Column("array_task_id", Text),
    Column("het_job_id", Text),
    Column("het_offset", Integer),
    Column("dbindex", Text),
    Column("sluid", Text),
    Column("submit", Text),
    Column("start", Text),
    Column("end", Text),
    Column("state", Text, nullable=False),
    Column("user", Text),
    Column("account", Text),
    Column("partition", Text),
    Column("stored", Float, nullable=False),
    Index("attempts_job", "job_id"),
    Index("attempts_array", "array_job_id", "array_task_id"),
    Index("attempts_het", "het_job_id", "het_offset"),
    Index("attempts_sluid", "sluid"),
    Index("attempts_user", "user"),
)

# An attempt whose row was written anew (RESIZING) is found by its older keys as well.
aliases = Table(
    "aliases",
    tables,
    Column("alias", Text, primary_key=True),
    Column("attempt", Text, ForeignKey("attempts.attempt", ondelete="CASCADE"), nullable=False, index=True),
)

verdicts = Table(
    "verdicts",
    tables,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("attempt", Text, ForeignKey("attempts.attempt", ondelete="CASCADE"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("stored", Float, nullable=False),
    Column("input_hash", Text, nullable=False),
    Column("rules_hash", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("terminal_state", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("sub_domain", Text, nullable=False),
    Column("confidence", Text, nullable=False),
    Column("root_symptom", Text),
    Column("json", LargeBinary, nullable=False),
    UniqueConstraint("attempt", "version"),
    UniqueConstraint("attempt", "input_hash", "rules_hash", "engine"),
    Index("verdicts_stored", "stored"),
)


def _of_verdict(*more: Column[int]) -> tuple[Column[int], ...]:
    verdict: Column[int] = Column("verdict_id", ForeignKey("verdicts.id", ondelete="CASCADE"), primary_key=True)
    return (verdict, *more)


responsible_nodes = Table("responsible_nodes", tables, *_of_verdict(), Column("node", Text, primary_key=True, index=True))

# `place`: counts, demoted, interesting.
symptoms = Table(
    "symptoms",
    tables,
    *_of_verdict(Column("number", Integer, primary_key=True)),
    Column("place", Text, nullable=False),
    Column("symptom", Text, nullable=False),
    Column("role", Text),
    Column("domain", Text),
    Column("sub_domain", Text),
    Column("count", BigInteger, nullable=False),
    Column("first_seen", Text),
    Column("rule", Text),
    Column("reason", Text),
    Index("symptoms_symptom", "symptom"),
)

symptom_nodes = Table(
    "symptom_nodes",
    tables,
    Column("verdict_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("node", Text, primary_key=True, index=True),
    ForeignKeyConstraint(
        ["verdict_id", "number"],
        ["symptoms.verdict_id", "symptoms.number"],
        ondelete="CASCADE",
    ),
)

evidence = Table(
    "evidence",
    tables,
    *_of_verdict(Column("number", Integer, primary_key=True)),
    Column("symptom", Text),
    Column("source", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("line", BigInteger, nullable=False),
    Column("node", Text),
    Column("time", Text),
    Column("text", Text, nullable=False),
)

coverage = Table(
    "coverage",
    tables,
    *_of_verdict(Column("number", Integer, primary_key=True)),
    Column("source", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("node", Text),
    Column("state", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
)

# The newest input of an attempt, compressed by zlib; `size` is its length before.
stored_inputs = Table(
    "stored_inputs",
    tables,
    Column("attempt", Text, ForeignKey("attempts.attempt", ondelete="CASCADE"), primary_key=True),
    Column("stored", Float, nullable=False, index=True),
    Column("input_hash", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
)
