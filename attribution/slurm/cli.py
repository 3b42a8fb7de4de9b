"""The backend that runs Slurm's own commands."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Sequence

from attribution import proc
from attribution.bundle import Neighbour, NodeRecord
from attribution.config import Config
from attribution.errors import SlurmError
from attribution.slurm import attempts, comment, fields, neighbours, nodes, reason, sacct
from attribution.slurm.hostlist import compress
from attribution.slurm.times import epoch, seconds_of
from attribution.slurm.values import Accounted, Cluster, CommentRow, End, InMemory

# Above this many, a single query for all jobs is cheaper than a list of ids.
BURST = 20


def _delimiter() -> str:
    return f"\x1f{secrets.token_hex(12)}\x1f"


class Cli:
    """See Backend. `run` and `delimiter` are for tests, which put recorded answers in their place."""

    def __init__(self, config: Config, run: proc.Run = proc.arun, delimiter: Callable[[], str] = _delimiter) -> None:
        self._config = config
        self._run = run
        self._delimiter = delimiter
        self._paths: dict[str, str] = {}
        self._fields: frozenset[str] | None = None
        self._cluster: Cluster | None = None

    # ---- what is asked once ------------------------------------------------------------------------------------

    async def cluster(self) -> Cluster:
        if self._cluster is None:
            answer = await self._ask([self._path("scontrol"), "show", "config"])
            self._cluster = parse_config(answer.text, self._config.cluster.name)
        return self._cluster

    async def _known_fields(self) -> frozenset[str]:
        if self._fields is None:
            self._fields = fields.parse_helpformat((await self._ask([self._path("sacct"), "--helpformat"])).text)
        return self._fields

    # ---- the accounting ----------------------------------------------------------------------------------------

    async def ends(self, since: int, until: int) -> tuple[End, ...]:
        wanted = fields.choose(fields.ENDS, await self._known_fields())
        answer = await self._ask(sacct.ended_between(self._path("sacct"), since, until, wanted))
        found = []
        for row in sacct.parse_rows(answer.text, wanted):
            end = epoch(row["End"])
            if end is not None and re.fullmatch(r"[0-9]+", row["JobIDRaw"]):
                found.append(End(
                    cluster=row["Cluster"], job=row["JobID"], raw_id=row["JobIDRaw"], dbindex=row["DBIndex"],
                    state=row["State"], end=end, start=epoch(row["Start"]),
                ))  # fmt: skip
        return tuple(found)

    async def attempts(self, jobs: Iterable[str]) -> tuple[Accounted, ...]:
        found: list[Accounted] = []
        for ids in sacct.slices(jobs, self._config.slurm.ids_per_query):
            wanted = fields.choose(fields.SAFE, await self._known_fields())
            answer = await self._ask(sacct.by_id(self._path("sacct"), ids, wanted))
            rows = sacct.parse_rows(answer.text, wanted)
            texts = await self._texts(ids, fields.TEXTS, steps=True) if rows else {}
            found += attempts.attempts(rows, texts)
        return tuple(found)

    async def neighbours(self, accounted: Accounted, since: int, until: int) -> tuple[Neighbour, ...]:
        if not accounted.attempt.nodes:
            return ()
        wanted = fields.choose(fields.NEIGHBOURS, await self._known_fields())
        names = compress(accounted.attempt.nodes)
        answer = await self._ask(sacct.on_nodes(self._path("sacct"), names, since, until, wanted))
        return neighbours.neighbours(sacct.parse_rows(answer.text, wanted), accounted, since, until)

    async def _texts(self, ids: Sequence[str], wanted: Sequence[str], *, steps: bool) -> dict[tuple[str, str], sacct.Row]:
        names, delimiter = fields.choose(wanted, await self._known_fields()), self._delimiter()
        answer = await self._ask(sacct.by_id(self._path("sacct"), ids, names, delimiter, steps=steps))
        return sacct.parse_texts(answer.text, names, delimiter)

    # ---- slurmctld ---------------------------------------------------------------------------------------------

    async def in_memory(self, raw_ids: Iterable[str] | None) -> dict[str, InMemory]:
        ids = None if raw_ids is None else sorted(set(raw_ids))
        if ids == []:
            return {}
        asked = None if ids is None or len(ids) > BURST else ids
        answer = await self._ask(reason.command(self._path("squeue"), asked), check=False)
        if answer.returncode != 0 and "Invalid job id" not in answer.complaint:
            raise SlurmError(f"squeue: {answer.complaint}")
        found = reason.parse(answer.text)
        return found if ids is None else {raw_id: found[raw_id] for raw_id in ids if raw_id in found}

    async def completing(self) -> frozenset[str]:
        answer = await self._ask([self._path("squeue"), "-a", "-h", "-t", "CG", "-o", "%A"])
        return frozenset(re.findall(r"(?m)^\s*([0-9]+)\s*$", answer.text))

    async def nodes(self, names: Iterable[str]) -> tuple[NodeRecord, ...]:
        hostlist = compress(sorted(set(names)))
        answer = await self._ask(nodes.command(self._path("scontrol"), hostlist), check=False)
        # One node that slurm.conf has lost makes scontrol fail, although it prints the others.
        if answer.returncode != 0 and not answer.stdout:
            raise SlurmError(f"scontrol show node: {answer.complaint}")
        return nodes.parse(answer.text)

    # ---- comments ----------------------------------------------------------------------------------------------

    async def comments(self, jobs: Iterable[str]) -> dict[str, CommentRow]:
        found: dict[str, CommentRow] = {}
        for ids in sacct.slices(jobs, self._config.slurm.ids_per_query):
            texts = await self._texts(ids, fields.COMMENTS, steps=False)
            found.update(comment_rows(texts.values()))
        return found

    async def has_comment(self, raw_id: str) -> bool:
        argv = [self._path("scontrol"), "-o", "show", "job", sacct.check_id(raw_id)]
        answer = await self._ask(argv, check=False)
        if answer.returncode != 0 and "Invalid job id" not in answer.complaint:
            raise SlurmError(f"scontrol show job: {answer.complaint}")
        return reason.has_comment(answer.text)

    async def write_comment(self, decision: comment.Decision, line: str) -> None:
        cluster = await self.cluster()
        await self._ask(comment.command(self._path("sacctmgr"), cluster.name, decision, line))

    # ---- the door ----------------------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        if name not in self._paths:
            self._paths[name] = proc.find(getattr(self._config.slurm, name), self._config.slurm.bin_dirs)
        return self._paths[name]

    async def _ask(self, argv: list[str], *, check: bool = True) -> proc.Finished:
        slurm = self._config.slurm
        # Epochs leave no question of time zones; TZ only keeps log lines of the commands themselves unambiguous.
        env = {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC", **({"SLURM_CONF": slurm.conf} if slurm.conf else {})}
        answer = await self._run(
            argv, env=env, timeout=slurm.timeout_seconds, limit=slurm.max_output_mb << 20, check=check, error=SlurmError
        )
        if answer.cut:
            raise SlurmError(f"{argv[0]}: printed more than {slurm.max_output_mb} MB")
        return answer


def parse_config(text: str, name: str = "") -> Cluster:
    """`scontrol show config`; `name` overrides the cluster's. Raises SlurmError where name or version are missing."""
    settings = dict(re.findall(r"(?m)^(\w+)\s*= (.*?)\s*$", text))
    version = re.match(r"([0-9]+)\.([0-9]+)", settings.get("SLURM_VERSION", ""))
    named = name or settings.get("ClusterName", "")
    if not version or not named:
        raise SlurmError("scontrol show config: says no cluster name or no version; is slurmctld running?")
    log = settings.get("SlurmctldLogFile", "")
    return Cluster(
        name=named,
        version=(int(version[1]), int(version[2])),
        kill_wait=seconds_of(settings.get("KillWait", "")) or 30,
        unkillable_timeout=seconds_of(settings.get("UnkillableStepTimeout", "")) or 60,
        slurmctld_log=log if log.startswith("/") else "",
    )


def comment_rows(rows: Iterable[sacct.Row]) -> dict[str, CommentRow]:
    """Rows by DBIndex. The newest of a job id is the one submitted last; sacctmgr changes that one."""
    listed = [row for row in rows if row["DBIndex"].isdigit()]
    newest: dict[str, tuple[int, int]] = {}
    for row in listed:
        newest[row["JobIDRaw"]] = max(newest.get(row["JobIDRaw"], (0, 0)), _age(row))
    return {
        row["DBIndex"]: CommentRow(
            raw_id=row["JobIDRaw"], dbindex=row["DBIndex"], sluid=row.get("SLUID", ""), state=row["State"],
            admin=row["AdminComment"], system=row["SystemComment"], newest=newest[row["JobIDRaw"]] == _age(row),
        )
        for row in listed
    }  # fmt: skip


def _age(row: sacct.Row) -> tuple[int, int]:
    return epoch(row["Submit"]) or 0, int(row["DBIndex"])
