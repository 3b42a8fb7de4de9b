"""Which node a name or an address stands for. A name that maps to no node of the attempt blames nobody."""

from __future__ import annotations

import re

from attribution.bundle import Bundle

_PCI = re.compile(r"(?:PCI:)?(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?(?:\b|$)")


class Names:
    """Aliases and addresses of the attempt's nodes. An alias of two nodes stands for neither."""

    def __init__(self, bundle: Bundle) -> None:
        self.nodes = tuple(bundle.attempt.nodes)
        self._known: dict[str, str | None] = {}
        for node in self.nodes:
            self._add(node, node)
        for record in bundle.nodes:
            if record.name in self.nodes:
                for alias in (*record.aliases, *record.addresses):
                    self._add(alias, record.name)
        for node, where in bundle.attempt.node_addresses.items():
            if node in self.nodes:
                for address in (where,) if isinstance(where, str) else where:
                    self._add(address, node)
        for node in self.nodes:
            self._known[node.lower()] = node

    def _add(self, alias: str, node: str) -> None:
        for name in {alias.lower(), _short(alias.lower())}:
            self._known[name] = node if self._known.get(name, node) == node else None

    def resolve(self, name: str | None) -> str | None:
        """The node that a host name (short or full) or an address means, or None."""
        if not name:
            return None
        lowered = name.strip().strip("[]<>(),;'\"").rstrip(":").lower()
        lowered = lowered.removeprefix("::ffff:")
        found = self._known.get(lowered)
        return found if found is not None or lowered in self._known else self._known.get(_short(lowered))


def _short(name: str) -> str:
    """The first label of a host name; addresses stay whole."""
    first = name.split(".", 1)[0]
    return name if first.isdigit() or ":" in name or not first else first


_RANGE = re.compile(r"\[([0-9,\-]{1,400})\]")
MOST_NAMES = 4096


def split_hosts(text: str) -> list[str]:
    """Node names of a list as Slurm prints it in its logs (`n[1-3,07],m2`); the text itself where it is no list."""
    if "[" not in text and "," not in text:
        return [text]
    found: list[str] = []
    for part in re.findall(r"[^,\[\]]*(?:\[[^\]]*\][^,\[\]]*)*", text):
        found += _expand(part, MOST_NAMES - len(found)) if part else []
    return found[:MOST_NAMES] or [text]


def _expand(part: str, most: int) -> list[str]:
    match = _RANGE.search(part)
    if match is None:
        return [part][:most]
    found: list[str] = []
    for piece in match[1].split(","):
        low, dash, high = piece.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            return [part][:most]
        last = min(int(high), int(low) + most) if dash else int(low)
        for number in range(int(low), last + 1):
            found += _expand(part[: match.start()] + str(number).zfill(len(low)) + part[match.end() :], most - len(found))
            if len(found) >= most:
                return found
    return found


def pci(text: str | None) -> str | None:
    """A PCI address in one shape: domain:bus:device, lower case, domain of four digits where it fits."""
    match = _PCI.search(text) if text else None
    if match is None:
        return None
    domain = (match[1] or "0000").lower()
    domain = domain[-4:] if domain[:-4].strip("0") == "" else domain
    return f"{domain}:{match[2].lower()}:{match[3].lower()}"
