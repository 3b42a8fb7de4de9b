"""Python tracebacks: one event per chain of exceptions, with the exception that began it and the user's last frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import re2

from attribution.rule import Accumulated, Change, Demote, Event, Example, Lines, Retag, View, accumulator, event, filter_rule

HEADER = re2.compile(r"Traceback \(most recent call last\)")
FRAME = re2.compile(r'^File "([^"]{1,400})", line (\d{1,7})(?:, in (.{1,120}))?')
NAMED = re2.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*"
    r"(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Iteration|Empty|Full|Failure|Unsupported|NotFound|Killed|Died|Group|Stop)"
    r"(?:\(\w+\)| \(see above for traceback\))?(?::|$)"
)
DOTTED = re2.compile(r"^(?:[a-z_]\w*\.)+(?:[A-Z]\w*|\w*error|timeout)(?:\(\w+\))?(?:: |:?$)")
MARKS = re2.compile(r"^[~^ ]+$")
DIRECT = "The above exception was the direct cause"
HANDLING = "During handling of the above exception"
WRAPPED = re2.compile(
    r"^[\w.]+: Caught \w+ in (?:DataLoader worker process|replica|pin memory thread)|^ray\.exceptions\.RayTaskError|"
    r"ProcessRaisedException|^(?:Base)?ExceptionGroup"
)
IN_LOADER = re2.compile(r": Caught \w+ in DataLoader worker process")
# The last call of a rank that only waits for the others.
WAITS = re2.compile(
    r"^(?:barrier|all_?reduce|all_?gather\w*|reduce_scatter\w*|broadcast\w*|wait|wait_for_everyone|synchronize)$"
)
COLOUR = re2.compile("\x1b\\[[0-9;]*m")
GROUPED = re2.compile(r"^( *)[|+][-+|]?")
# What an exception says when it only repeats that a peer, a collective or a child process failed.
ECHO = re2.compile(
    r"(?i)nccl|gloo|HorovodInternalError|CommClosedError|DistBackendError|DistNetworkError|DistStoreError|TCPStore|rendezvous|c10d|distributed\.store|"
    r"Connection (?:reset|closed|refused|aborted)|Broken pipe|Watchdog|Timed out waiting|wait timeout|Socket Timeout|timed out\.?$|"
    r"remote process|ChildFailedError|CalledProcessError: Command .{0,80}(?:python|torchrun|accelerate|deepspeed|srun|mpirun)|ProcessExitedException|ProcessRaisedException|EOFError: (?:worker|$)|EOFError$|"
    r"Engine(?:Core|Dead)|Engine core|ActorDied|RayActorError|WorkerCrashed|got signal|SystemExit|Worker failed with error"
)
STOPPED = re2.compile(r"^(?:KeyboardInterrupt|GeneratorExit|asyncio\.exceptions\.CancelledError|[\w.]*SignalException)")
# First exceptions of a chain that are ordinary control flow: what was raised while they were handled is meant.
LOOKUP = re2.compile(
    r"^(?:KeyError|AttributeError|IndexError|StopIteration|ModuleNotFoundError|ImportError|FileNotFoundError|queue\.Empty|_queue\.Empty|[\w.]*TimeoutError|[\w.]*HTTPError|[\w.]*NewConnectionError|[\w.]*MaxRetryError|[\w.]*gaierror)"
)
# A wait that was cancelled or ran out, without a word: what was raised from it says which.
WORDLESS = re2.compile(r"^(?:[\w.]*\.)?(?:CancelledError|TimeoutError):?\s*$")
# The network's own words come first in a chain of which the library that wanted the connection says what it was for.
LOW_LEVEL = re2.compile(
    r"^OSError: \[Errno (?:101|110|113)\]|gaierror|NewConnectionError|NameResolutionError|MaxRetryError|ConnectTimeout|SSLError|LocalProtocolError"
)
SAVING = re2.compile(r"(?i)\bsave|_save|rotate_checkpoints|sorted_checkpoints")
LIBRARY = re2.compile(r"site-packages/|dist-packages/|/lib/python\d|^<|torchrun$|/bin/\w+$")
PROGRESS = re2.compile(r"(?i)(?:\biteration:? +|\bstep:? +|\bstep[=/])(\d{1,9})\b|(?:\] ?\[| )(\d{1,9})/\d{1,9}[\]: ]")
WATCHED, WRAPPED_LINES, MOST = 60, 8, 20
BETWEEN = "  ||  "
RULE = "python-traceback"
DIGITS = re2.compile(r"\d+")
LONGEST_PREFIX = 160
CAUGHT = re2.compile(r"\b(?:WARN|WARNING|DEBUG|warning|debug)\b")
# Where a logger's words stand before every line, no rule of a single line knows the exception.
FAMILIES = (
    (re2.compile(r"^(?:torch\.(?:cuda\.)?)?OutOfMemoryError: CUDA out of memory"), "oom.cuda"),
    (re2.compile(r"^(?:ModuleNotFoundError|ImportError)\b"), "py.import"),
    (re2.compile(r"^(?:KeyError|TypeError|AttributeError|NameError|IndexError|UnboundLocalError)\b"), "py.type_attr"),
    (re2.compile(r"^(?:ValueError|AssertionError)\b"), "py.value"),
    (re2.compile(r"^FileNotFoundError\b"), "py.notfound"),
    (re2.compile(r"^PermissionError\b"), "py.perm"),
)


class Chain:
    """Reads a traceback, its exception, and the exceptions that it led to; then watches whether the run goes on."""

    def __init__(self, line: str) -> None:
        line = COLOUR.sub("", line)
        self.prefix = prefix_of(line)
        self.caught = self.prefix is not None and CAUGHT.search(line[: line.find("Traceback")]) is not None
        self.base = 0 if self.prefix is not None else indent(line)
        self.known_base = False
        self.frames: list[tuple[str, str, str]] = []
        self.done: list[tuple[str, str, list[tuple[str, str, str]]]] = []
        self.link = "first"
        self.in_frames = True
        self.lines_after = 0
        self.steps: list[int] = []

    def feed(self, text: str) -> bool:
        text = COLOUR.sub("", text)
        cut = self.prefix.match(text) if self.prefix is not None else None
        text = GROUPED.sub(r"\1  ", text[cut.end() :] if cut is not None else text)
        return self._frame_or_exception(text) if self.in_frames else self._after(text)

    def _frame_or_exception(self, text: str) -> bool:
        words = text.strip()
        frame = FRAME.match(words)
        if frame is not None:
            if not self.known_base:
                self.base, self.known_base = max(0, indent(text) - 2), True
            if len(self.frames) < 400:
                self.frames.append((frame.group(1), frame.group(2), frame.group(3) or ""))
            return True
        named = NAMED.match(words) or DOTTED.match(words)
        if words and named and indent(text) <= self.base and not MARKS.match(words):
            self.done.append((self.link, words[:400], self.frames))
            self.frames, self.in_frames, self.lines_after, self.link = [], False, 0, ""
        return True

    def _after(self, text: str) -> bool:
        words = text.strip()
        self.lines_after += 1
        wrapped = WRAPPED.search(self.done[-1][1]) is not None and self.lines_after < WRAPPED_LINES
        if words.startswith((DIRECT, HANDLING)):
            self.link = "direct" if words.startswith(DIRECT) else "handling"
        elif HEADER.search(words):
            if not self.link and not wrapped:
                return False
            return self._next(text)
        elif wrapped and FRAME.match(words):
            return self._next(text) and self._frame_or_exception(text)
        elif self._goes_on(words):
            return False
        return self.lines_after < WATCHED

    def _next(self, text: str) -> bool:
        """The next exception of the chain begins."""
        self.link = self.link or "wrapped"
        self.in_frames, self.known_base, self.base = True, False, indent(text)
        return len(self.done) < MOST

    def _goes_on(self, words: str) -> bool:
        """Three progress lines in even steps: what a log shows whose run went on."""
        found = PROGRESS.search(words)
        if found is None:
            return False
        self.steps.append(int(found.group(1) or found.group(2)))
        last = self.steps[-3:]
        return len(last) == 3 and last[1] - last[0] == last[2] - last[1] > 0

    def result(self) -> Iterable[Accumulated]:
        if self.caught:
            return
        if not self.done:
            if self.frames:
                waits = any(WAITS.match(f[2]) for f in self.frames[-3:])
                yield Accumulated(
                    symptom="py.echo" if waits else "py.traceback", fields={"exception": "", **place(self.frames)}
                )
            return
        first = self._root()
        _, said, frames = self.done[first]
        name, _, message = said.partition(": ")
        fields = {"exception": name[:120], "message": message[:300], "said": said[:240], **place(frames)}
        if len(self.done) > 1:
            fields["chain"] = " > ".join(s.partition(":")[0][-60:] for _, s, _ in self.done[:8])
        if any(IN_LOADER.search(s) for _, s, _ in self.done):
            fields["loader"] = "yes"
        last = self.steps[-3:]
        if len(last) == 3 and last[1] - last[0] == last[2] - last[1] > 0:
            fields["went_on_from"], fields["went_on_by"] = str(last[2]), str(last[2] - last[1])
        others = [other[:160] for number, (_, other, _) in enumerate(self.done) if number != first]
        if others:
            fields["others"] = BETWEEN.join(others)
        yield Accumulated(symptom=symptom_of(said, self.prefix is not None), fields=fields)

    def _root(self) -> int:
        """The exception that began it: the first that is no echo and no lookup that led to a better one."""
        for number, (_, said, _) in enumerate(self.done):
            later = self.done[number + 1 :]
            if later and (WRAPPED.search(said) or ECHO.search(said) or LOW_LEVEL.search(said) or WORDLESS.match(said)):
                continue
            if later and later[0][0] == "handling" and LOOKUP.match(said) and not ECHO.search(later[0][1]):
                continue
            return number
        return len(self.done) - 1


def indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def prefix_of(line: str) -> Any:
    """What a logger puts before each line of the traceback, as a pattern in which its numbers may change."""
    before = line[: max(0, line.find("Traceback (most recent"))]
    if not before.strip(" |+-") or len(before) > LONGEST_PREFIX:
        return None
    return re2.compile("^ *" + r"\d+".join(re2.escape(part) for part in DIGITS.split(before.lstrip())))


def symptom_of(said: str, prefixed: bool) -> str:
    if STOPPED.match(said):
        return "py.keyboard"
    if ECHO.search(said):
        return "py.echo"
    return next((symptom for family, symptom in FAMILIES if prefixed and family.match(said)), "py.traceback")


def place(frames: list[tuple[str, str, str]]) -> dict[str, str]:
    """The last frame in the user's own code, and the very last one where that is another."""
    if not frames:
        return {}
    own = [f for f in frames if not LIBRARY.search(f[0])] or frames
    file, line, function = own[-1]
    found = {"file": file[-200:], "lineno": line, "function": function[:80]}
    if any(SAVING.search(f[2]) for f in frames):
        found["saving"] = "yes"
    if frames[-1] != own[-1]:
        found["raised_in"] = f"{frames[-1][0][-120:]}:{frames[-1][1]}"
        found["in_call"] = frames[-1][2][:80]
    return found


@accumulator(
    name=RULE,
    trigger=r"Traceback \(most recent call last\)",
    reads=("app",),
    example=Example(
        given=(
            "Traceback (most recent call last):",
            '  File "/home/u/train.py", line 88, in step',
            "    loss = criterion(out, y)",
            "acme.errors.BadBatch: labels are empty",
            "",
            "The above exception was the direct cause of the following exception:",
            "",
            "Traceback (most recent call last):",
            '  File "/home/u/train.py", line 120, in <module>',
            "    main()",
            "acme.errors.TrainingFailed: step 4",
        ),
        expect=("py.traceback",),
        quiet=("the manual says: a traceback (most recent call first) is printed",),
    ),
)
def python_traceback(_fields: Mapping[str, str], line: str) -> Lines:
    """A traceback and all that is chained to it, as one event."""
    return Chain(line)


@filter_rule(
    name="traceback-and-its-exception",
    stage="EARLY",
    example=Example(
        given=(
            event("py.traceback", kind="app", source="a", line=1, rule=RULE, said="KeyError: 'x'", file="train.py"),
            event("py.type_attr", kind="app", source="a", line=4, text="[rank0]: KeyError: 'x'"),
        ),
        expect=("demote py.traceback", "retag py.type_attr py.type_attr"),
        quiet=(event("py.type_attr", kind="app", source="a", line=4, text="KeyError: 'x'"),),
    ),
)
def one_exception_one_event(view: View) -> Iterable[Change]:
    """A traceback and its exception line are one thing: the precise event stays and takes the frames. What a chain
    raised later, while the first exception was handled, is its consequence.
    """
    precise: dict[str, list[Event]] = {}
    for e in view.live():
        if e.kind == "app" and e.rule != RULE and e.emit in ("bad_node", "bad_peers") and view.role(e) != "context":
            precise.setdefault(e.source, []).append(e)
    chains = [e for e in view.live() if e.rule == RULE]
    told: set[str] = set()
    gone: set[str] = set()
    for chain in chains:
        if chain.id in gone:
            continue
        same = matching(chain, chain.fields.get("said", ""), precise)
        stands = same[0].id if same else chain.id
        if same:
            yield Demote(event=chain.id, reason=f"its exception is read more precisely as {same[0].symptom}", by=stands)
        if same and stands not in told and "file" in chain.fields:
            told.add(stands)
            fields = {k: v for k, v in chain.fields.items() if k not in ("said", "others")}
            yield Retag(event=stands, symptom=same[0].symptom, reason="the traceback above it tells where", fields=fields)
        for one in later_ones(chain, chains, precise):
            if one.id not in gone | {stands}:
                gone.add(one.id)
                yield Demote(
                    event=one.id, reason="it belongs to the same chain of exceptions, and another one began it", by=stands
                )


def later_ones(chain: Event, chains: list[Event], precise: Mapping[str, list[Event]]) -> Iterable[Event]:
    """What the chain's other exceptions amount to: their own lines, and the tracebacks that they are printed with."""
    for said in chain.fields.get("others", "").split(BETWEEN):
        yield from (e for e in matching(chain, said, precise) if e.line >= chain.line)
    for other in chains:
        if other.source == chain.source and other.rank == chain.rank and chain.line < other.line:
            said = other.fields.get("said", "")
            if said and (
                said[:160] in chain.fields.get("others", "") or ("chain" in chain.fields and said == chain.fields.get("said"))
            ):
                yield other


def matching(chain: Event, said: str, precise: Mapping[str, list[Event]]) -> list[Event]:
    """Precise events whose line is this exception's line."""
    if not said:
        return []
    found = [
        e
        for e in precise.get(chain.source, ())
        if said in e.text and (e.rank is None or chain.rank is None or e.rank == chain.rank)
    ]
    return sorted(found, key=lambda e: (pythons_own(e), e.line))


def pythons_own(e: Event) -> bool:
    """Python's own families after whatever is more precise."""
    return e.symptom.startswith("py.")
