"""An attempt whose accounting row was written anew keeps one history: the older key becomes an alias of the newer."""

from __future__ import annotations

from sqlalchemy import Connection, delete, exists, func, insert, select, update

from attribution.archive import schema

# Beyond every version that there can be: two histories are put after one another without two equal numbers in between.
_APART = 1 << 30


def adopt(connection: Connection, alias: str, attempt: str) -> None:
    """Make `alias` another name of `attempt` (which is stored); what was stored under it becomes the older versions."""
    if alias == attempt:
        return
    table = schema.attempts
    if connection.execute(select(table.c.attempt).where(table.c.attempt == alias)).first():
        _move_versions(connection, alias, attempt)
        _move_input(connection, alias, attempt)
        connection.execute(update(schema.aliases).where(schema.aliases.c.attempt == alias).values(attempt=attempt))
        connection.execute(delete(table).where(table.c.attempt == alias))
    if not connection.execute(update(schema.aliases).where(schema.aliases.c.alias == alias).values(attempt=attempt)).rowcount:
        connection.execute(insert(schema.aliases).values(alias=alias, attempt=attempt))


def _move_versions(connection: Connection, old: str, attempt: str) -> None:
    table, twin = schema.verdicts, schema.verdicts.alias()
    same = [twin.c[name] == table.c[name] for name in ("input_hash", "rules_hash", "engine")]
    connection.execute(delete(table).where(table.c.attempt == old, exists().where(twin.c.attempt == attempt, *same)))
    older = connection.execute(select(func.max(table.c.version)).where(table.c.attempt == old)).scalar() or 0
    mine = table.c.attempt == attempt
    connection.execute(update(table).where(mine).values(version=table.c.version + _APART))
    connection.execute(update(table).where(mine).values(version=table.c.version - _APART + older))
    connection.execute(update(table).where(table.c.attempt == old).values(attempt=attempt))


def _move_input(connection: Connection, old: str, attempt: str) -> None:
    table = schema.stored_inputs
    if connection.execute(select(table.c.attempt).where(table.c.attempt == attempt)).first():
        return
    connection.execute(update(table).where(table.c.attempt == old).values(attempt=attempt))
