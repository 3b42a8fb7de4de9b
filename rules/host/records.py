"""Several lines that are one record: firmware's hardware errors, and the call trace under a hung task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import re2

from attribution.rule import Accumulated, Example, Lines, accumulator

KERNEL = ("kern", "dmesg", "syslog", "journal")
_SECTION = re2.compile(r"(?:\{\d+\})?\[Hardware Error\]: +section_type: *(?P<what>.+)")
_SEVERITY = re2.compile(r"(?:\{\d+\})?\[Hardware Error\]: +event severity: (?P<what>\w+)")
_MODULE = re2.compile(r"\+0x[0-9a-f]+/0x[0-9a-f]+ \[(?P<module>\w+)\]")
_BUILTIN = re2.compile(r"[ ?](?P<name>nfs\d?_|nfs4_|rpc_wait_bit_killable|ceph_|fuse_|cifs_|SMB2_)")
_TRACE = re2.compile(
    r"Tainted|Not tainted|echo 0 >|task:|[Cc]all [Tt]race|<TASK>|</TASK>|\+0x[0-9a-f]+/0x|^\s*(?:RIP|RSP|RAX|RDX|RBP|R\d\d|Workqueue|Hardware name|ORIG_RAX)\b"
)
# Which file system or driver a kernel module belongs to.
MODULES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("lustre", "ptlrpc", "lov", "osc", "mdc", "lmv", "obdclass", "ldlm", "mgc", "lnet", "ko2iblnd"), ("fs.hang", "lustre")
    ),
    **dict.fromkeys(("mmfs26", "mmfslinux", "mmfs", "tracedev"), ("fs.hang", "gpfs")),
    **dict.fromkeys(("beegfs",), ("fs.hang", "beegfs")),
    **dict.fromkeys(("ceph", "libceph", "rbd"), ("fs.hang", "ceph")),
    **dict.fromkeys(("wekafsgw", "wekafsio", "wekafs"), ("fs.hang", "weka")),
    **dict.fromkeys(("fuse", "virtiofs"), ("fs.hang", "fuse")),
    **dict.fromkeys(("orangefs", "panfs", "gfs2", "cifs", "smb3"), ("fs.hang", "network file system")),
    **dict.fromkeys(("nfs", "nfsv3", "nfsv4", "nfs_layout_nfsv41_files", "sunrpc", "rpcrdma"), ("nfs.hang", "nfs")),
    **dict.fromkeys(("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "amdgpu"), ("krn.hung_gpu", "gpu driver")),
}
BUILTIN = {"ceph_": "ceph", "fuse_": "fuse", "cifs_": "cifs", "smb2_": "cifs"}
STRANGERS = 3


class _Apei:
    """One firmware record: what severity, and which section."""

    def __init__(self, severity: str) -> None:
        self.severity, self.section = severity, ""

    def feed(self, text: str) -> bool:
        if "[Hardware Error]" not in text:
            return False
        severity, section = _SEVERITY.search(text), _SECTION.search(text)
        self.severity = self.severity or (severity["what"] if severity else "")
        self.section = self.section or (section["what"].strip() if section else "")
        return True

    def result(self) -> Iterable[Accumulated]:
        fields = {"severity": self.severity, "section": self.section}
        if self.severity in ("fatal", "recoverable", "panic") and "emory" in self.section:
            yield Accumulated(symptom="mem.edac_ue", fields=fields)
        elif self.severity in ("fatal", "recoverable", "panic") and "rocessor" in self.section:
            yield Accumulated(symptom="cpu.mce_uc", fields=fields)
        else:
            yield Accumulated(symptom="mem.apei", emit="interesting_node", fields=fields)


@accumulator(
    name="firmware-error-record",
    trigger=r"^(?:\{\d+\}\[Hardware Error\]: (?:Hardware error from APEI|event severity: (?P<severe>fatal|recoverable|panic))|BERT: Error records from previous boot)",
    reads=KERNEL,
    example=Example(
        given=(
            "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4",
            "{1}[Hardware Error]: event severity: recoverable",
            "{1}[Hardware Error]:  Error 0, type: recoverable",
            "{1}[Hardware Error]:   section_type: memory error",
        ),
        expect=("mem.edac_ue",),
        quiet=("{1}[Hardware Error]:  Error 0, type: recoverable",),
    ),
)
def firmware_error_record(fields: Mapping[str, str], _line: str) -> Lines:
    """A firmware-first record counts by its severity and section, also one kept over a boot (BERT); PCIe sections are
    read with the bus errors.
    """
    return _Apei(fields.get("severe") or "")


class _Hung:
    """The trace under a hung task: the first file system or driver in it is what the task waits for."""

    def __init__(self) -> None:
        self.found: tuple[str, str] | None = None
        self.strangers = 0

    def feed(self, text: str) -> bool:
        if "blocked for more than" in text:
            return False
        if not _TRACE.search(text):
            self.strangers += 1
            return self.strangers <= STRANGERS
        if self.found is None:
            self.found = _module(text)
        return True

    def result(self) -> Iterable[Accumulated]:
        yield Accumulated(symptom="krn.hung_task")
        if self.found is not None:
            yield Accumulated(symptom=self.found[0], fields={"in": self.found[1]})


def _module(text: str) -> tuple[str, str] | None:
    module = _MODULE.search(text)
    if module is not None and module["module"] in MODULES:
        return MODULES[module["module"]]
    name = _BUILTIN.search(text)
    if name is None or "+0x" not in text:
        return None
    word = name["name"].lower()
    return ("fs.hang", BUILTIN[word]) if word in BUILTIN else ("nfs.hang", "nfs")


@accumulator(
    name="hung-task",
    trigger=r"^INFO: task (?P<program>.{1,64}?):(?P<pid>\d+) (?:is )?blocked (?:on an? \S+ .*)?for more than (?P<seconds>\d+) seconds",
    reads=KERNEL,
    example=Example(
        given=(
            "INFO: task python:424332 blocked for more than 120 seconds.",
            "      Tainted: P           OE    --------- 4.18.0-372.el8.x86_64 #1",
            "task:python          state:D stack:    0 pid:424332 ppid:540867 flags:0x00000084",
            "Call Trace:",
            " schedule+0x35/0xa0",
            " cl_sync_io_wait+0x208/0x330 [obdclass]",
            " ll_file_write_iter+0x217/0x300 [lustre]",
        ),
        expect=("fs.hang", "krn.hung_task"),
        quiet=("sysrq: Show Blocked State", "Call Trace:"),
    ),
)
def hung_task(_fields: Mapping[str, str], _line: str) -> Lines:
    """A hung task says where the job stood still; frames of a file system or GPU driver say what it waited for."""
    return _Hung()
