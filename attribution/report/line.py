"""One line: for people, and for sacct's AdminComment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attribution.model import Verdict
from attribution.report.escape import clip, escape
from attribution.report.nodes import fold

COMMENT_PREFIX = "sattrib:1"
COMMENT_MOST = 200
_NODE_RE = re.compile(r"[a-z0-9._-]{1,60}")
_NOT_TOKEN_RE = re.compile(r"[^a-z0-9._-]+")


def verdict_line(verdict: Verdict, width: int = 200) -> str:
    """`hardware_failure  hardware/nvlink_signal_integrity  node-02  high`, for people; escaped.

    Many nodes are cut so that it stays within about `width` cells.
    """
    before = f"{verdict.terminal_state}  {clip(f'{verdict.domain}/{verdict.sub_domain}', 44)}  "
    after = f"  {verdict.confidence}" + (f"  ({verdict.verdict})" if verdict.verdict in ("ambiguous", "insufficient") else "")
    nodes = clip(fold(verdict.responsible_nodes), max(width - len(before) - len(after), 8)) or "-"
    return escape(before + nodes + after)


def job_line(verdict: Verdict) -> str:
    """The same after the job's id, ended by a newline."""
    return f"{clip(verdict.attempt.job_id, 40)}  {verdict_line(verdict)}\n"


def comment_line(verdict: Verdict, aliases: Mapping[str, Sequence[str]] | None = None) -> str:
    """The AdminComment: lower-case ASCII, at most 200 characters, six words after one another, no text of logs or users.

    `sattrib:1 TERMINAL_STATE DOMAIN/SUB_DOMAIN CAUSE NODES CONFIDENCE`. CAUSE is the first of the root symptom's
    `aliases` (symptom id to its aliases), else its id with dots as dashes; `ambiguous` or `insufficient` where there
    is no root cause for that reason, else `-`. NODES is `-`, one node, or `node-01+12` for it and twelve others.
    """
    words = (
        COMMENT_PREFIX,
        _token(verdict.terminal_state, 24),
        f"{_token(verdict.domain, 16)}/{_token(verdict.sub_domain, 32)}",
        _cause(verdict, aliases or {}),
        _nodes(verdict.responsible_nodes),
        _token(verdict.confidence, 8),
    )
    return " ".join(words)


def _token(text: str, most: int) -> str:
    """Our own words pass as they are; a site's rule could have named something that does not fit a comment."""
    return _NOT_TOKEN_RE.sub("-", text.lower()).strip("-")[:most] or "-"


def _cause(verdict: Verdict, aliases: Mapping[str, Sequence[str]]) -> str:
    if verdict.verdict in ("ambiguous", "insufficient"):
        return verdict.verdict
    if verdict.root_cause is None:
        return "-"
    symptom = verdict.root_cause.symptom
    known = aliases.get(symptom)
    return _token(known[0] if known else symptom.replace(".", "-"), 40)


def _nodes(names: Sequence[str]) -> str:
    """A name that is not plain ASCII, or long, is counted and not shown: a cut name would be another node's."""
    fit = [name for name in (n.lower() for n in names) if _NODE_RE.fullmatch(name)]
    if not fit:
        return "-"
    return fit[0] if len(names) == 1 else f"{fit[0]}+{len(names) - 1}"
