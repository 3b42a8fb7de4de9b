"""`scontrol show node -o` into what a bundle says of nodes. Nothing in it is a user's text; reasons are an admin's."""

from __future__ import annotations

import ipaddress
import re

from attribution.bundle import Boot, NodeRecord
from attribution.slurm.times import epoch, iso

_REASON = re.compile(r" Reason=(.*?)(?: \[[^\[\]]*@[^\[\]]*\])?\s*$")


def parse(text: str) -> tuple[NodeRecord, ...]:
    """One record a node, sorted by name; lines that are none are left out.

    The boot's id is made from BootTime: Slurm knows no other. That time can move by a second between two answers.
    """
    found = [record for line in text.splitlines() if (record := _node(line))]
    return tuple(sorted(found, key=lambda record: record.name))


def command(scontrol: str, nodes: str) -> list[str]:
    """The command for a hostlist; an empty one asks for all nodes."""
    return [scontrol, "show", "node", "-o", *([nodes] if nodes else [])]


def _node(line: str) -> NodeRecord | None:
    name = _field(line, "NodeName")
    if not name:
        return None
    others = dict.fromkeys(other for key in ("NodeHostName", "NodeAddr") if (other := _field(line, key)) and other != name)
    boot = epoch(_field(line, "BootTime"))
    reason = _REASON.search(line)
    return NodeRecord(
        name=name,
        aliases=tuple(other for other in others if not _is_address(other)),
        addresses=tuple(other for other in others if _is_address(other)),
        boots=(Boot(id=f"slurm-{boot}", start=iso(boot) or ""),) if boot else (),
        state=_field(line, "State"),
        reason=reason[1] if reason else "",
    )


def _field(line: str, key: str) -> str:
    """The first occurrence: free text (Reason, Comment, Extra) comes last."""
    match = re.search(rf"(?:^| ){key}=(\S+)", line)
    return "" if match is None or match[1] in {"(null)", "N/A"} else match[1]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
