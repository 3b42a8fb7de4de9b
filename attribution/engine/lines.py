"""What a line says beside its message: when, which node, which rank. Carriers are peeled off from the left.

Shapes: kmsg, dmesg in its four forms, syslog (RFC 3164 and ISO), journalctl (short, json), Fabric Manager, slurmctld,
pdsh's and clush's `node: `, container runtimes' `stderr F`, c10d and glog, NCCL's `host:pid:tid [dev]`, UCX's and PMIx's `[host:pid:…]`, srun --label, torchrun's `[default3]:`,
`[rank3]:`, progress bars, records in JSON, Open MPI's `[1,3]<stderr>:`, vLLM's `(Worker_PP3 pid=…)`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NamedTuple

from attribution.engine import jsonline, stamps
from attribution.engine.stamps import Stamp

MAX_LINE = 8192


class Line(NamedTuple):
    """`body` is the message. `host` is the name that the line itself gives, `rank` the one it gives (label or text)."""

    body: str
    stamp: Stamp | None = None
    host: str | None = None
    rank: int | None = None
    kernel: bool = False
    stream: str = ""


_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,4}[@-~]|[@-Z\\-_])")
_RANK = re.compile(r"\[rank(?:(\d{1,7})\]:|: (\d{1,7})\]) ?")
_DEFAULT = re.compile(r"\[([A-Za-z_]\w{0,15}?)(\d{1,5})\]: ?")
_LABEL = re.compile(r" {0,5}(\d{1,7}): ")
_MPI = re.compile(r"\[(?:\d{1,9},)?(\d{1,7})\]<std(?:out|err)>: ?")
# A time of day alone, a date in an order that may be either, and the year that mpirun's stamps end with: no stamps.
_CLOCK = re.compile(
    r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})? {1,3}(?:[-|] )?(?=[A-Za-z_(\[*])|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?: -)? (?=\S)|\d{4}(?=\[(?:\d{1,9},)?\d{1,7}\]<std)"
)
_COUNTER = re.compile(r"\[\d{1,9}\] (?=\[rank)")
_WORKER = re.compile(r"\((\w{1,40}(?: \w{1,20}){0,2})(?:, rank=\d{1,7},)? pid=\d{1,9}(?:, ip=[\w.:]{1,45})?\) ?")
_NCCL = re.compile(r"(?=[\d.-]{0,40}[A-Za-z_])([A-Za-z0-9][\w.-]{0,253}):(\d{1,9}):(\d{1,9}) (?:\[(\d{1,3})\] )?")
_UCX = re.compile(r"\[([A-Za-z][\w.-]{0,253}):(\d{1,9})(?::\d{1,3}:\d{1,9})?\] {0,3}")
_UCX_STAMP = re.compile(r"\[\d{10}\.\d{1,9}\] ")
_SRUN = re.compile(r"srun: error: ([A-Za-z0-9][\w.-]{0,253}): tasks? ([\d,\-\[\]]{1,400}): ")
_C10D_RANK = re.compile(r"(?:\[|\b)[Rr]ank (\d{1,7})\]")
_TALOS = re.compile(r"kern: {1,9}\w{1,12}: \[")
_FACILITY = r"(?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d)"
_SEVERITY = r"(?:emerg|alert|crit|err|error|warn|warning|notice|info|debug)"
# dmesg -x; syslog templates with the priority in words or in numbers; what a container's runtime puts before a line.
_PRIORITY = re.compile(rf"{_FACILITY} {{0,6}}:{_SEVERITY} {{0,6}}: |{_FACILITY}\.{_SEVERITY} |(?:stdout|stderr) [FP] ")
_NUMBER = re.compile(r"<\d{1,3}>(?:1 (?=\d{4}-))?")
_WEEKDAY = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?=\d{4}-|[A-Z][a-z]{2} {1,2}\d)")
_ZONE_NAME = re.compile(r"[A-Z]{3,5} (?=[A-Za-z0-9_][\w.-]{0,253} )")
_HOST_KERNEL = re.compile(r"([A-Za-z0-9_][\w.-]{0,253}) (?=kernel: )")
_RFC5424 = re.compile(r"([A-Za-z0-9_][\w.-]{0,253}) kernel (?:-|\d{1,9}) \S{1,32} (?:-|\[[^\]]{0,400}\]) ")
# A prefix that pdsh, clush or talosctl puts before each line counts only before something that is a log's own beginning.
_FANNED = re.compile(
    r"([A-Za-z0-9][\w.-]{0,253}): (?=\[ {0,9}\d{1,10}\.\d|\[[A-Z][a-z]{2} |[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:|\d{4}-\d\d-\d\d[T ]|kern: )"
)
# The same before a line of a program that a launcher started by pdsh; a name without a digit may be any word.
_FANNED_OUTPUT = re.compile(
    r"((?=[^: ]{0,200}\d)[A-Za-z0-9][\w.-]{0,253}): (?=Traceback \(most recent|  File \"|\[rank\d|\[\d{4}-\d\d-\d\d |[A-Za-z_][\w.]{0,80}(?:Error|Exception): )"
)
_LEVEL = re.compile(r"(?:\[[A-Z]{3,8}\] {0,2})?(?:\[tid \d{1,9}\] )?")
_HOST = re.compile(r"([A-Za-z0-9_][\w.-]{0,253}) ")
_AFTER = re.compile(r"[\]:,]{0,2} {0,4}(?:[|] )?")
# A job's output also holds its script's comments, `set -x`, dumped arguments, help texts and names of tests. The second
# blank keeps the JVM's own `#  SIGSEGV`; an exception group's frame begins with a plus.
_QUOTED = re.compile(
    r"# \S|\++ (?!Exception Group)\S|(?:\w{1,20} ?[:=] ?)?Namespace\(|usage: |--[a-z][\w-]{0,60} {1,30}\S|\S{1,200}\.py::\w"
)
# A progress bar as tqdm writes it: what another program prints next stands in the same line.
_BAR = re.compile(
    r"(?:[^|%]{0,120}: {0,4})? {0,4}(?:\d{1,3}%\|[^|]{0,400}\| {0,4}[\w.]{1,16}/[\w.]{1,16}|[\w.]{1,16}it) \[[^\[\]]{0,300}\] {0,4}(?=\S)"
)
# What a logger puts before an error's words, in the forms of Python's logging, loguru, DeepSpeed, Hydra, NeMo, glog, vLLM.
_ERROR = r"(?:ERROR|CRITICAL|FATAL)"
_NAME = r"[\w./:<>-]{1,80}"
_LOGGED = re.compile(
    rf"(?:- )?(?:{_NAME} - ){{0,3}}{_ERROR}(?: - | {{1,9}}- )(?:{_NAME} - )?|{_ERROR} {{0,9}}\| {_NAME} - "
    rf"|(?:\[{_NAME}\] ?){{0,3}}\[{_ERROR}\](?: ?\[{_NAME}\]){{0,3}}:?(?: - | )|{_ERROR}:[\w.]{{1,80}}:|{_ERROR}:? {{1,9}}"
    r"|(?:\d{1,9} )?\[?[\w./-]{1,80}\.(?:py|cc|cpp|cu|c|go|rs):\d{1,6}\] |\[NeMo E [^\]]{1,60}\] "
)
_SOURCE_FILES = (".py", ".cc", ".cpp", ".c", ".h", ".cu")
_SHAPED = re.compile(r"[\[<(0-9A-Z{ ]|[^\W\d_]{3,12}\.? {1,2}\d|[\w.-]{1,253}: [\[A-Z\d]|kern|std")


def parse(text: str, *, printed: bool = False) -> Line:
    """Peel the carriers off one line (without its newline). Never raises; unknown shapes are all body.

    `printed`: the line is a program's own output, where progress bars and records in JSON are carriers too. In a log of the
    system they are what somebody made it say.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if text.startswith('{"'):
        found = jsonline.read(text, printed=printed)
        if found is not None:
            return _of_record(found)
    return _Peeler(text, printed=printed).line()


def printed(kinds: Container[str]) -> bool:
    """Whether lines of such sources are read as a program's own output."""
    return "app" in kinds


def shown(raw: bytes) -> bytes:
    """What a terminal shows of a line in the end: what stands behind its last carriage return."""
    return raw.rstrip(b"\r").rpartition(b"\r")[2]


def logged(body: str) -> int:
    """How many characters of a message are a logger's words before what it reports as an error; 0 where none are."""
    found = _LOGGED.match(body)
    return found.end() if found else 0


def behind_bars(text: str) -> str:
    """The end of a line that begins with progress bars; without them the line as it is."""
    while (bar := _bar_at(text)) and len(text) > bar.end():
        text = text[bar.end() :]
    return text


def quoted(body: str) -> bool:
    """Whether the message only shows a text (a comment, a traced command, arguments, help, a test's name)."""
    return _QUOTED.match(body) is not None


def only_stamp(text: str) -> Stamp | None:
    """The line's own time, if it has one."""
    return parse(text).stamp if _SHAPED.match(text) else None


def _of_record(found: jsonline.Record) -> Line:
    if found.journal:
        return Line(found.message.strip(), found.stamp, found.host, None, found.kernel, "")
    # Whoever wrote the record chose its words: they are no proof of the kernel's.
    line = _Peeler(found.message.rstrip("\n"), printed=True).line()._replace(kernel=False)
    return line if line.stamp is not None else line._replace(stamp=found.stamp)


class _Peeler:
    """Walks over the prefixes of one line. Each step consumes at least one character, so it ends."""

    def __init__(self, text: str, *, printed: bool) -> None:
        self.text, self.at, self.printed = text, 0, printed
        self.stamp: Stamp | None = None
        self.host: str | None = None
        self.rank: int | None = None
        self.kernel = False
        self.stream = ""

    def line(self) -> Line:
        for _ in range(12):
            if not self._step() and not (self.printed and self._bars()):
                break
        body = self.text[self.at :].strip()
        if self.rank is None and "ank " in body:
            said = _C10D_RANK.search(body[:400])
            self.rank = int(said[1]) if said else None
        if self.host is None and body.startswith("srun: error: "):
            said = _SRUN.match(body)
            self.host = said[1] if said else None
        return Line(body, self.stamp, self.host, self.rank, self.kernel, self.stream)

    def _step(self) -> bool:
        first = self.text[self.at : self.at + 1]
        if first == "[":
            return self._time_in_brackets() or self._label_in_brackets()
        if first.isdigit():
            return (
                self._iso() or self._kmsg() or self._slashed() or self._skip(_CLOCK) or self._unix() or self._foreign_date() or self._label()
                or self._nccl() or self._fanned() or self._host_and_kernel()
            )  # fmt: skip
        if first == " ":
            return self._label() or self._blank()
        if first == "(":
            return self._worker()
        if first == "<":
            return self._skip(_NUMBER) or self._take(stamps.DELTA, lambda m: Stamp("delta", float(m[1]), 10.0**-6))
        return (
            self._syslog() or self._levelled() or self._kernel_tag() or self._nccl() or self._skip(_PRIORITY)
            or self._foreign_date() or self._skip(_WEEKDAY) or self._fanned() or self._host_and_kernel()
        )  # fmt: skip

    def _bars(self) -> bool:
        began = self.at
        while (bar := _bar_at(self.text, self.at)) is not None:
            self.at = bar.end()
        return self.at > began

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match is not None

    def _take(self, pattern: re.Pattern[str], make: object) -> bool:
        match = pattern.match(self.text, self.at)
        if match is None:
            return False
        stamp = make(match) if callable(make) else None
        if stamp is None:
            return False
        # The outermost stamp with a date wins: `May 19 … kernel: [680111.6]` is wall time.
        if self.stamp is None or (self.stamp.kind in ("uptime", "delta") and stamp.kind not in ("uptime", "delta")):
            self.stamp = stamp
        self.at = match.end()
        rest = _AFTER.match(self.text, self.at)
        self.at = rest.end() if rest else self.at
        return True

    def _time_in_brackets(self) -> bool:
        if self._take(stamps.UPTIME, lambda m: Stamp("uptime", float(m[1]), 10.0 ** -len(m[1].split(".")[1]))):
            return True
        if self._take(stamps.DMESG_T, stamps.from_dated):
            return True
        if self._take(stamps.FABRIC, stamps.from_dated):
            level = _LEVEL.match(self.text, self.at)
            self.at = level.end() if level else self.at
            return True
        if self._take(stamps.DMESG_E, lambda m: stamps.yearless(stamps.MONTHS[m[1]], int(m[2]), (m[3], m[4], "0"))):
            return True
        if self._take(stamps.C10D, stamps.from_c10d) or self._take(_PLUS, lambda m: Stamp("delta", float(m[1]), 1e-6)):
            return True
        if stamps.ISO.match(self.text, self.at + 1):
            self.at += 1
            if self._take(stamps.ISO, stamps.from_iso):
                return True
            self.at -= 1
        return False

    def _label_in_brackets(self) -> bool:
        if (m := _RANK.match(self.text, self.at)) or (m := _MPI.match(self.text, self.at)):
            said = m[m.lastindex or 1]
            self.rank, self.stream = int(said), f"rank{said}"
        elif m := _COUNTER.match(self.text, self.at):
            pass
        elif m := _DEFAULT.match(self.text, self.at):
            self.stream = f"{m[1]}{m[2]}"
        elif (m := _UCX.match(self.text, self.at)) and not m[1].endswith(_SOURCE_FILES):
            self.host = self.host or m[1]
        elif m := _UCX_STAMP.match(self.text, self.at):
            self.stamp = self.stamp or Stamp("wall", float(m[0].strip("[] ")), 1e-6)
        else:
            return False
        self.at = m.end()
        return True

    def _iso(self) -> bool:
        had_host = self.host is not None
        if not self._take(stamps.ISO, stamps.from_iso):
            return False
        self._skip(_ZONE_NAME)
        # rsyslog's and journalctl's ISO lines carry the host before a `tag:`; a program's own lines don't.
        host = None if had_host else _HOST.match(self.text, self.at)
        if host and _tagged(self.text, host.end()):
            self.host, self.at = host[1], host.end()
        elif host and (whole := _RFC5424.match(self.text, self.at)):
            self.host, self.kernel, self.at = whole[1], True, whole.end()
        return True

    def _syslog(self) -> bool:
        return self._take(stamps.SYSLOG, stamps.from_syslog) and self._host_after()

    def _foreign_date(self) -> bool:
        """Syslog's shape in another language or order; only with a host and a tag behind it."""
        at, stamp = self.at, self.stamp
        if not (
            self._take(stamps.LOCAL, stamps.from_local) or self._take(stamps.CJK, stamps.from_local)
            or self._take(stamps.DAY_FIRST, stamps.from_day_first)
        ):  # fmt: skip
            return False
        host = _HOST.match(self.text, self.at)
        if host and _tagged(self.text, host.end()):
            return self._host_after()
        self.at, self.stamp = at, stamp
        return False

    def _unix(self) -> bool:
        m = stamps.UNIX.match(self.text, self.at)
        host = _HOST.match(self.text, m.end()) if m else None
        if m is None or host is None or not _tagged(self.text, host.end()):
            return False
        self.stamp, self.at = self.stamp or stamps.from_unix(m), m.end()
        return self._host_after()

    def _host_after(self) -> bool:
        """Take the host that follows a stamp."""
        host = _HOST.match(self.text, self.at)
        if host and self.host is None:
            self.host, self.at = host[1], host.end()
        return True

    def _fanned(self) -> bool:
        log = _FANNED.match(self.text) if self.at == 0 else None
        m = log or (_FANNED_OUTPUT.match(self.text) if self.at == 0 else None)
        if m is None:
            return False
        self.stream = self.stream if log else m[1]
        self.host, self.at = m[1], m.end()
        return True

    def _host_and_kernel(self) -> bool:
        """`n1 kernel: ` behind an uptime stamp or none."""
        m = _HOST_KERNEL.match(self.text, self.at) if not self.kernel and not self.stream else None
        if m is None:
            return False
        self.host, self.at = self.host or m[1], m.end()
        return True

    def _kmsg(self) -> bool:
        return self._take(stamps.KMSG, lambda m: Stamp("uptime", int(m[1]) / 1e6, 1e-6))

    def _slashed(self) -> bool:
        if self._take(stamps.YEAR_SLASHED, stamps.from_iso):
            return True
        return self._take(stamps.SLASHED, lambda m: stamps.yearless(int(m[1]), int(m[2]), (m[3], m[4], m[5])))

    def _levelled(self) -> bool:
        if self._take(stamps.DASHED, lambda m: stamps.yearless(int(m[1]), int(m[2]), (m[3], m[4], m[5]))):
            return True
        return self.stamp is None and self._take(stamps.C10D, stamps.from_c10d)

    def _kernel_tag(self) -> bool:
        if self.text.startswith("kernel: ", self.at):
            self.kernel, self.at = True, self.at + 8
            return True
        talos = _TALOS.match(self.text, self.at)
        if talos:
            self.kernel, self.at = True, talos.end() - 1
        return talos is not None

    def _label(self) -> bool:
        m = _LABEL.match(self.text, self.at)
        if m is None or self.rank is not None:
            return False
        self.rank, self.stream, self.at = int(m[1]), f"rank{m[1]}", m.end()
        return True

    def _blank(self) -> bool:
        stripped = len(self.text) - len(self.text[self.at :].lstrip(" "))
        moved = stripped > self.at and self.text[stripped : stripped + 1] in "[("
        self.at = stripped if moved else self.at
        return moved

    def _worker(self) -> bool:
        m = _WORKER.match(self.text, self.at)
        if m is None:
            return False
        self.stream, self.at = m[1], m.end()
        return True

    def _nccl(self) -> bool:
        m = _NCCL.match(self.text, self.at)
        if m is None:
            return False
        self.host = self.host or m[1]
        self.stream = self.stream or f"{m[1]}:{m[2]}"
        self.at = m.end()
        return True


def _bar_at(text: str, at: int = 0) -> re.Match[str] | None:
    return _BAR.match(text, at) if "%|" in text or "it/s" in text else None


_PLUS = re.compile(r"\[ {0,9}\+(\d{1,10}\.\d{1,9})\]")
_TAG = re.compile(rf"(?:{_FACILITY}\.{_SEVERITY} )?[\w./@()-]{{1,64}}(?:\[\d{{1,9}}\])?:(?: |$)")


def _tagged(text: str, at: int) -> bool:
    return _TAG.match(text, at) is not None
