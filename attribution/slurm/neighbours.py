"""Other jobs that shared nodes with an attempt."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attribution.bundle import Neighbour
from attribution.slurm.hostlist import expand
from attribution.slurm.sacct import Row
from attribution.slurm.times import epoch, iso
from attribution.slurm.values import Accounted


def neighbours(rows: Iterable[Row], accounted: Accounted, since: int, until: int) -> tuple[Neighbour, ...]:
    """From rows of `sacct -X -N`: those that really ran on a node of the attempt in [since, until], epoch seconds, UTC."""
    nodes = frozenset(accounted.attempt.nodes)
    own = {accounted.attempt.dbindex, *accounted.aliases}
    found = []
    for row in rows:
        start, end = epoch(row["Start"]), epoch(row["End"])
        if row["DBIndex"] in own or start is None or start > until or (end is not None and end < since):
            continue
        shared = tuple(name for name in expand(row["NodeList"]) if name in nodes)
        if shared:
            uid = row.get("UID", "")
            found.append(Neighbour(
                job_id=row["JobIDRaw"], nodes=shared, start=iso(start) or "", end=iso(end),
                uid=int(uid) if re.fullmatch(r"[0-9]{1,10}", uid, re.ASCII) else None, sluid=row.get("SLUID") or None,
            ))  # fmt: skip
    return tuple(sorted(found, key=lambda one: (one.start, int(one.job_id), one.end or "9")))
