"""From folded hits to events: whom a line speaks of, which GPU, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attribution.bundle import Bundle, NodeRecord, Source
from attribution.engine.hits import Hit
from attribution.engine.lines import behind_bars
from attribution.engine.names import Names, pci, split_hosts
from attribution.engine.source import SourceReader
from attribution.engine.stamps import Stamp, Zone, iso, parse_when
from attribution.model import Event, Evidence

LOCAL = frozenset({"kern", "dmesg", "syslog", "journal", "fabricmanager", "slurmd", "spank", "metric"})
UPTIME_UNCERTAINTY = 5.0


class Place:
    """Everything needed to say where and when a hit was: the bundle's names, zones, boots and clocks."""

    def __init__(self, bundle: Bundle, zone: Zone, end: float | None) -> None:
        self.bundle, self.zone, self.end = bundle, zone, end
        self.names = Names(bundle)
        self.records: Mapping[str, NodeRecord] = {n.name: n for n in bundle.nodes}
        self.ranks: dict[int, str] = {}

    def learn_ranks(self, readers: Iterable[SourceReader]) -> None:
        """Rank to node, from lines that name both; a rank that two nodes claim belongs to neither."""
        claims: dict[int, set[str]] = {}
        for reader in readers:
            for rank, hosts in reader.rank_hosts.items():
                claims.setdefault(rank, set()).update(n for h in hosts if (n := self.names.resolve(h)))
            if reader.source.rank is not None and reader.source.node in self.names.nodes:
                claims.setdefault(reader.source.rank, set()).add(str(reader.source.node))
        self.ranks = {rank: nodes.pop() for rank, nodes in claims.items() if len(nodes) == 1}

    def nodes_of(self, hit: Hit, source: Source) -> list[str | None]:
        """The attempt's nodes that the hit speaks of (Slurm's lines name lists of them); [None] where it is none."""
        if "node" not in hit.fields:
            return [self.node_of(hit, source)]
        found = {self.names.resolve(name) for name in split_hosts(hit.fields["node"])}
        own = self.names.resolve(source.node)
        if source.kind in ("kern", "syslog", "journal") and own is not None and found - {own, None}:
            # Anyone on a node can write such a line there; the controller's own log is where it counts.
            return [None]
        return [*sorted(n for n in found if n is not None)] or [None]

    def node_of(self, hit: Hit, source: Source) -> str | None:
        """The attempt's node that a line without a `node` group speaks of, or None."""
        said = self.names.resolve(hit.host)
        if source.kind in LOCAL:
            if self._disputed(hit, source):
                return None
            own = self.names.resolve(source.node)
            return said if own is None else own
        if source.kind != "app":
            return said
        if said is not None:
            return said
        if source.rank is not None or len(self.names.nodes) == 1:
            return self.names.resolve(source.node) or (self.names.nodes[0] if len(self.names.nodes) == 1 else None)
        return self.ranks.get(hit.rank) if hit.rank is not None else None

    def _disputed(self, hit: Hit, source: Source) -> bool:
        """Whether a line in one node's own log claims to be of another node: a forgery, and nobody's fault."""
        own, said = self.names.resolve(source.node), self.names.resolve(hit.host)
        return own is not None and said is not None and said != own and source.kind not in ("dmesg", "fabricmanager", "spank")

    def outside(self, hit: Hit, source: Source) -> str:
        """The machine whose own log this is not, or not one of the attempt's; empty where nothing speaks against it."""
        if source.kind in LOCAL and self._disputed(hit, source):
            return hit.host or ""
        return (source.node or hit.host or "") if source.kind in LOCAL and "node" not in hit.fields else ""

    def when(self, stamp: Stamp | None, source: Source, node: str | None) -> tuple[float | None, str, float]:
        """(value, clock, uncertainty) of a stamp: epoch seconds on clock "wall" wherever they can be known."""
        if stamp is None or stamp.kind == "delta":
            return None, "wall", 0.0
        record = self.records.get(node or "")
        offset = record.clock.offset if record is not None and record.clock else 0.0
        doubt = record.clock.uncertainty if record is not None and record.clock else 0.0
        wall = self.zone.wall(stamp)
        if wall is not None:
            return wall - offset, "wall", doubt
        if stamp.kind == "uptime":
            boot = self._boot(source, record)
            if boot is not None:
                return boot + stamp.value, "wall", doubt + UPTIME_UNCERTAINTY
            return stamp.value, f"uptime:{node or source.node or source.path}", UPTIME_UNCERTAINTY
        return stamp.value, "yearless", 0.0

    def _boot(self, source: Source, record: NodeRecord | None) -> float | None:
        """Epoch seconds of the boot that a source's uptime stamps count from."""
        if record is None or not record.boots:
            return None
        known = sorted((parse_when(b.start, self.zone), b.id) for b in record.boots)
        if source.boot_id is not None:
            return next((at for at, boot in known if boot == source.boot_id), None)
        before = [at for at, _ in known if self.end is None or at <= self.end]
        return before[-1] if before else None


def build(readers: Iterable[SourceReader], place: Place) -> list[Event]:
    """Every hit of every source as an event, in no particular order."""
    found: list[Event] = []
    for reader in readers:
        for hit in reader.all_hits():
            nodes = place.nodes_of(hit, reader.source)
            found += [_event(hit, reader.source, place, node, f"@{node}" if len(nodes) > 1 else "") for node in nodes]
    return found


def _event(hit: Hit, source: Source, place: Place, node: str | None, suffix: str) -> Event:
    time, clock, doubt = place.when(hit.first, source, node)
    last, _, _ = place.when(hit.last, source, node)
    fields = hit.fields
    if node is None and (stranger := place.outside(hit, source)):
        fields = {**fields, "outside": stranger}
    peers = tuple(sorted({p for key in ("peer", "peer2") if (p := place.names.resolve(hit.fields.get(key)))}))
    return Event(
        id=f"{source.path}:{hit.line}:{hit.rule}{suffix}{hit.part}", rule=hit.rule, symptom=hit.symptom, emit=hit.emit,
        kind=source.kind, source=source.path, line=hit.line, node=node, peers=peers, rank=_rank(hit, source),
        gpu=pci(hit.fields.get("gpu")), time=time, last_time=last, last_line=hit.texts[-1][0], clock=clock,
        own_time=hit.own and time is not None, grain=hit.first.grain if hit.first else 1.0, uncertainty=doubt,
        count=hit.count, fields=fields, text=hit.texts[0][1],
        evidence=tuple(
            Evidence(source=source.path, kind=source.kind, line=line, text=behind_bars(text) if source.kind == "app" else text, node=node or source.node,
                     time=iso(time) if line == hit.line and clock == "wall" and hit.own else None)
            for line, text in hit.texts
        ),
    )  # fmt: skip


def _rank(hit: Hit, source: Source) -> int | None:
    said = hit.fields.get("rank", "")
    if said.isascii() and said.isdigit() and len(said) < 8:
        return int(said)
    return hit.rank if hit.rank is not None else source.rank
