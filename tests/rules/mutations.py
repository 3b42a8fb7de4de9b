"""Changes after which a line no longer means what its rule says.

A mutation keeps the line's carriers (time, host, rank) and changes its message; a quoted message stands in a line of
its own. The kinds are those that a rule's `also` may name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attribution.engine import lines
from attribution.engine.rules import Extractor

USERS = frozenset({"app"})
SYSTEM = frozenset({"syslog", "journal", "kern"})

_XID = re.compile(r"(S?Xid(?: \([^)]*\))?[:= ]{1,2})(\d+)")
_SIGNAL = re.compile(r"((?i:signal)[ :=#]{1,2})(\d{1,2})\b(?! ?\(|:)")
_SIGNAL_IN_WORDS = re.compile(r"SIG[A-Z]|(?i:segmentation|killed|aborted|bus error|core dumped)")
_COUNT = re.compile(
    r"(?<![\w=:.-])(?<![A-Z] )([1-9]\d*)(?= (?:[a-z]+ ){0,2}(?:errors?|failures?|faults?|timeouts?|violations?)\b)"
)
_CODE_WORD = r"(?:exit(?:ed with)? ?code|exitcode|exit status|errno|\brc|ret|status)"
_CODE = re.compile(rf"(?i)({_CODE_WORD}(?: ?[:=] ?| )-?)([1-9]\d{{0,3}})\b(?! ?\(| - |[/.:\]])")
_FAILED = re.compile(r"(?i)fail|error|refus|denied|kill")
# In the first sentence; the rest is advice and explanation.
_BE = re.compile(
    r"^(?:(?!\. |Did |If ).){0,200}?(?<![\w/])(?:has|have|had|is|was|were|are)"
    r"(?= (?!not\b|no\b|a\b|an\b|the\b|to\b|of\b|transmitted\b)[a-z]+)"
)
_PLAIN = r"(?!(?:it|is|was|were|has|had|the|an?|this|with|after|of|to|due|from|by|no|not)\b)[A-Za-z][\w-]* "
_PHRASE = re.compile(
    rf"(?:{_PLAIN}){{0,3}}(?:errors?|failures?|faults?|timeouts?|mismatch|violations?|corruption)(?=$|[.,]| (?:on|in|at|for|detected|found|reported|occurred)\b)"
)
_DAEMON = re.compile(r"^([a-z][\w.-]*)(?:\[\d+\])?(?=: )")
# Drivers whose name makes the meaning; that a link of an Ethernet port is down, any driver may say.
_DRIVER = re.compile(r"^(?:NVRM|mlx5_core|mlx5_\d|nvidia-nvswitch\d*|nvme|EDAC|amdgpu|LustreError|Lustre)(?=[ :])")
# What raised or failed is not undone by a word in its explanation.
_HAPPENED = re.compile(r"^[\w.]*(?:Error|Exception)\b|_ERROR_|(?i:\bunable\b|\bfail|\berror\b|\bcannot\b|\bnot\b)")

Mutation = tuple[str, str]


def mutations(rule: Extractor, sample: str) -> Iterator[Mutation]:
    """(kind, line) pairs of one match sample."""
    parsed = lines.parse(sample.rstrip("\n"))
    body = parsed.body
    if "\n" in sample.rstrip("\n") or not body or sample.startswith("{"):
        return
    lead = sample[: sample.rindex(body)] if body in sample else ""
    for kind, change in _changes(rule):
        for changed in change(body):
            if changed != body:
                yield kind, changed if kind == "quoted" else lead + changed


def _changes(rule: Extractor) -> Iterator[tuple[str, Callable[[str], list[str]]]]:
    reads = set(rule.reads)
    yield "number", lambda body: _numbers(rule, body)
    yield "zero", _zero
    if reads == {"record"}:
        yield "state", _completed
        return
    if reads & SYSTEM:
        yield "tag", _tag
    if rule.rows is None:
        yield "not", _not
    if reads & USERS:
        yield "quoted", _quoted_by_user
    elif reads & SYSTEM:
        yield "quoted", _quoted_by_system


def _numbers(rule: Extractor, body: str) -> list[str]:
    """Another XID, another signal, a longer code than the one that the pattern spells out."""
    found = []
    if hit := _XID.search(body):
        found += [body[: hit.start(2)] + other + body[hit.end(2) :] for other in (hit[2] + "0", "9" + hit[2])]
    if (hit := _SIGNAL.search(body)) and not _SIGNAL_IN_WORDS.search(body):
        other = "15" if hit[2] != "15" else "10"
        found.append(body[: hit.start(2)] + other + body[hit.end(2) :])
    for hit in _CODE.finditer(body):
        if re.search(rf"(?i){_CODE_WORD}\W{{0,8}}{hit[2]}(?![\d-])", rule.pattern):
            found.append(body[: hit.end(2)] + "7" + body[hit.end(2) :])
    return found


def _zero(body: str) -> list[str]:
    """No error: the count or the code is 0."""
    found = []
    if hit := _COUNT.search(body):
        found.append(body[: hit.start(1)] + "0" + body[hit.end(1) :])
    if (hit := _CODE.search(body)) and not _FAILED.search(body):
        found.append(body[: hit.start(2)].rstrip("-") + "0" + body[hit.end(2) :])
    return found


def _completed(body: str) -> list[str]:
    """Slurm's record of an attempt that went well."""
    changed = re.sub(r"State=\w+", "State=COMPLETED", re.sub(r"ExitCode=\d+:\d+", "ExitCode=0:0", body))
    return [re.sub(r"Reason=.*? (?=\w+=)", "", changed)] if "State=" in body and "NodeState=" not in body else []


def _tag(body: str) -> list[str]:
    """Another program, another driver says it."""
    if hit := _DRIVER.match(body):
        return ["ixgbevf" + body[hit.end() :]]
    if hit := _DAEMON.match(body):
        return ["backup-agent" + body[hit.end(1) :]]
    return []


def _not(body: str) -> list[str]:
    """It says that it did not happen."""
    found = []
    if (hit := _BE.search(body)) and not _HAPPENED.search(body[: hit.end()]):
        found.append(body[: hit.end()] + " not" + body[hit.end() :])
    if (hit := _PHRASE.match(body)) and ":" not in body[hit.end() :]:
        found.append("no " + body)
    return found


def _quoted_by_user(body: str) -> list[str]:
    """A job's script, options, tests and comments hold the text; nothing happened."""
    return [
        f"# {body}",
        f"+ grep -c -F '{body}' slurm-48113.out",
        f"Namespace(epochs=3, stop_on='{body}', retries=2)",
        f'  --stop-on TEXT   stop as soon as the output holds "{body}"',
        f"tests/test_faults.py::test_detects[{body}] PASSED",
    ]


def _quoted_by_system(body: str) -> list[str]:
    """Somebody searches the logs for the text."""
    return [
        f"Jul  9 03:00:01 n4 CRON[3117]: (root) CMD (grep -c '{body}' /var/log/messages)",
        f"Jul  9 03:00:07 n4 sudo: root : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/grep '{body}' /var/log/messages",
    ]
