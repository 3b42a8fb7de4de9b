"""Every section and key of the configuration, with the sentence that `config show` and docs/config.md print of it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from attribution.model import SourceKind, Strict

AbsolutePath = Annotated[str, Meta(pattern=r"^/")]
Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Percent = Annotated[int, Meta(ge=1, le=100)]


class Cluster(Strict, frozen=True):
    """Which cluster this is."""

    name: Annotated[str, Meta(description="Name of the cluster; empty: what `scontrol show config` says.")] = ""


class Slurm(Strict, frozen=True):
    """How Slurm is asked. A bare program name is looked for in `bin_dirs`, never in the caller's PATH."""

    backend: Annotated[Literal["cli"], Meta(description="`cli`: Slurm's own commands.")] = "cli"
    sacct: Annotated[str, Meta(description="Name or absolute path of sacct.")] = "sacct"
    scontrol: Annotated[str, Meta(description="Name or absolute path of scontrol.")] = "scontrol"
    squeue: Annotated[str, Meta(description="Name or absolute path of squeue.")] = "squeue"
    sacctmgr: Annotated[str, Meta(description="Name or absolute path of sacctmgr.")] = "sacctmgr"
    bin_dirs: Annotated[tuple[AbsolutePath, ...], Meta(description="Directories in which bare names are looked for.")] = (
        "/usr/bin", "/bin", "/usr/local/bin", "/opt/slurm/bin", "/usr/local/slurm/bin",
    )  # fmt: skip
    conf: Annotated[str, Meta(description="SLURM_CONF for these commands; empty: Slurm's default.")] = ""
    timeout_seconds: Annotated[Positive, Meta(description="Time limit of one Slurm command.")] = 60
    max_output_mb: Annotated[
        Positive, Meta(description="A Slurm command that prints more is stopped, and its answer not used.")
    ] = 256
    ids_per_query: Annotated[int, Meta(ge=1, le=1000, description="Job ids in one sacct query.")] = 200


class Spool(Strict, frozen=True):
    """Where the hook leaves its records. The hook's argument must name the same directory."""

    dir: Annotated[
        AbsolutePath, Meta(description="The spool: owned by SlurmUser, group sattrib, mode 2770, on a local disk.")
    ] = "/var/spool/sattrib"
    stop_percent: Annotated[Percent, Meta(description="The hook stops writing when the file system is this full.")] = 90
    resume_percent: Annotated[Percent, Meta(description="It writes again when it is only this full.")] = 80


class Archive(Strict, frozen=True):
    """Where verdicts are kept, and for how long."""

    url: Annotated[
        str, Meta(pattern=r"^[a-z+0-9]+://", description="SQLAlchemy URL: SQLite on a local disk, or PostgreSQL.")
    ] = "sqlite:////var/lib/sattrib/archive.db"
    input_days: Annotated[Natural, Meta(description="Days for which the input of a verdict is kept.")] = 14
    input_max_kb: Annotated[Natural, Meta(description="Most that is kept of one attempt's input.")] = 1024
    excerpt_days: Annotated[Natural, Meta(description="Days for which excerpts of logs are kept.")] = 90
    verdict_days: Annotated[Natural, Meta(description="Days for which verdicts are kept.")] = 400
    completed_days: Annotated[
        Natural, Meta(description="The same for attempts that did not fail; they can be counted after it.")
    ] = 30
    warn_gb: Annotated[Positive, Meta(description="A warning is given when the archive is larger.")] = 20


class Collect(Strict, frozen=True):
    """What is read, for which attempts."""

    policy: Annotated[
        Literal["failed", "all"],
        Meta(
            description="`failed`: of attempts that completed without a failed step only Slurm's rows and local captures are read."
        ),
    ] = "failed"
    sources: Annotated[
        tuple[SourceKind, ...],
        Meta(description="Kinds of sources that are expected of an attempt; one that can't be read is named in the verdict."),
    ] = ("app", "slurmctld")
    trusted_files: Annotated[
        bool,
        Meta(
            description="kern and syslog files count like the kernel's own journal. Any user can make rsyslog write such lines."
        ),
    ] = False
    timeout_seconds: Annotated[Positive, Meta(description="Time limit of one connector for one attempt.")] = 60
    max_mb: Annotated[Positive, Meta(description="Most bytes that are read of one source.")] = 64


class App(Strict, frozen=True):
    """The job's own output, whose path its user chose."""

    via: Annotated[
        str,
        Meta(
            pattern=r"^(controller|node|host [A-Za-z0-9][A-Za-z0-9._-]*|)$",
            description="Where it is read: `controller`, `node` (the batch host) or `host NAME`; "
            "empty: the controller if that file system is mounted there, else the batch host.",
        ),
    ] = ""
    extra: Annotated[
        tuple[str, ...], Meta(description="Further patterns of files, as for sbatch --output, relative to WorkDir.")
    ] = ()
    readers: Annotated[Positive, Meta(description="Readers at once for one file system, and for one user.")] = 4
    opener: Annotated[
        AbsolutePath, Meta(description="Socket of sattrib-open, which opens these files with their owner's rights.")
    ] = "/run/sattrib/open.sock"


class Local(Strict, frozen=True):
    """Log files that the controller itself holds. A file that does not exist is reported as such, not skipped."""

    slurmctld_log: Annotated[str, Meta(description="slurmctld's log; empty: what `scontrol show config` says.")] = ""
    slurmdbd_log: Annotated[str, Meta(description="slurmdbd's log; empty: not read.")] = ""
    nodes: Annotated[
        dict[SourceKind, tuple[AbsolutePath, ...]],
        Meta(description='Files of nodes by kind, `{node}` is the name: kern = ["/var/log/nodes/{node}/kern.log"].'),
    ] = field(default_factory=dict)


class Comment(Strict, frozen=True):
    """The line in sacct."""

    on: Annotated[Literal["failed", "all", "off"], Meta(description="Which attempts get a line.")] = "failed"
    fallback: Annotated[
        Literal["auto", "system", "archive"],
        Meta(
            description="Where AdminComment holds something that is not ours: `system` writes SystemComment, `archive` writes "
            "nothing, `auto` is `system` where jobstats wrote a comment in the last 7 days and else `archive`."
        ),
    ] = "auto"
    per_second: Annotated[float, Meta(gt=0, le=100, description="Most comments written in a second.")] = 5.0


class Drain(Strict, frozen=True):
    """Budgets of drain suggestions; an admin approves each one."""

    partition_percent: Annotated[
        Percent, Meta(description="Share of a partition that may be open at once (at least one node).")
    ] = 5
    per_hour: Annotated[Positive, Meta(description="New ones in an hour.")] = 3


class Worker(Strict, frozen=True):
    """The unit that turns job ends into verdicts."""

    state_dir: Annotated[
        AbsolutePath, Meta(description="The worker's own directory: what it must remember, its lock, its status, work in hand.")
    ] = "/var/lib/sattrib"
    slots: Annotated[Positive, Meta(description="Attempts that are judged at once.")] = 2
    cpu_seconds: Annotated[Positive, Meta(description="CPU limit of one attempt.")] = 60
    wall_seconds: Annotated[Positive, Meta(description="Wall-clock limit of one attempt.")] = 300
    memory_mb: Annotated[Positive, Meta(description="Memory limit of one slot.")] = 1024
    replace_after: Annotated[Positive, Meta(description="A slot's process is replaced after so many attempts.")] = 200
    settle_seconds: Annotated[Natural, Meta(description="Wait after an attempt has left COMPLETING, for late lines.")] = 5
    poll_seconds: Annotated[Positive, Meta(description="How often sacct is asked for ends that the hook missed.")] = 60
    catch_up_hours: Annotated[Positive, Meta(description="How far back is looked at start, after a gap and now and then.")] = 24
    catch_up_every_hours: Annotated[Positive, Meta(description="How often it is looked that far back otherwise.")] = 6


class Rules(Strict, frozen=True):
    """Rules beside the bundled ones."""

    dirs: Annotated[
        tuple[AbsolutePath, ...], Meta(description="Directories with a site's own rules; one that is missing is empty.")
    ] = ("/etc/sattrib/rules.d",)


class Config(Strict, frozen=True):
    """The whole file. `more` holds the sections that other rooms (connectors, sinks) declare, by section name."""

    cluster: Cluster = Cluster()
    slurm: Slurm = Slurm()
    spool: Spool = Spool()
    archive: Archive = Archive()
    collect: Collect = Collect()
    app: App = App()
    local: Local = Local()
    comment: Comment = Comment()
    drain: Drain = Drain()
    worker: Worker = Worker()
    rules: Rules = Rules()
    more: dict[str, Struct] = field(default_factory=dict)


SECTIONS: dict[str, type[Struct]] = {
    "cluster": Cluster, "slurm": Slurm, "spool": Spool, "archive": Archive, "collect": Collect, "app": App, "local": Local,
    "comment": Comment, "drain": Drain, "worker": Worker, "rules": Rules,
}  # fmt: skip
