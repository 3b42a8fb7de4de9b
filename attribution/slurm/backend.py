"""What any way of asking Slurm must be able to do. The commands (cli.py) are one; another only has to fit this."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from attribution.bundle import Neighbour, NodeRecord
from attribution.slurm.comment import Decision
from attribution.slurm.values import Accounted, Cluster, CommentRow, End, InMemory


class Backend(Protocol):
    """All methods raise SlurmError where Slurm does not answer or its answer can't be used. Times: epoch seconds, UTC."""

    async def cluster(self) -> Cluster:
        """Name, version and waits; asked once and kept."""

    async def ends(self, since: int, until: int) -> tuple[End, ...]:
        """Rows that ended in [since, until], without steps and texts."""

    async def attempts(self, jobs: Iterable[str]) -> tuple[Accounted, ...]:
        """All attempts of these job ids (5, 10_3, 11+1; 10 and 11 mean all tasks and components), with steps and texts."""

    async def in_memory(self, raw_ids: Iterable[str] | None) -> dict[str, InMemory]:
        """What slurmctld remembers, by job id; None asks for all jobs. Purged ones are missing."""

    async def completing(self) -> frozenset[str]:
        """Job ids (the numbers) that slurmctld lists as COMPLETING."""

    async def nodes(self, names: Iterable[str]) -> tuple[NodeRecord, ...]:
        """Names, addresses, boot and state of nodes."""

    async def neighbours(self, accounted: Accounted, since: int, until: int) -> tuple[Neighbour, ...]:
        """Other jobs on its nodes in [since, until]."""

    async def comments(self, jobs: Iterable[str]) -> dict[str, CommentRow]:
        """The comments of all rows of these job ids, by DBIndex."""

    async def has_comment(self, raw_id: str) -> bool:
        """Whether slurmctld's own record of the job has an AdminComment; False where the record is purged."""

    async def write_comment(self, decision: Decision, line: str) -> None:
        """Do what a decision to write says. That it worked is only proven by reading it back."""
