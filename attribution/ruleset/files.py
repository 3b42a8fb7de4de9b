"""Rule files as people write them: strict for `schema = 1`, lenient for imported ones."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from attribution.errors import RuleError
from attribution.model import Action, Domain, EmitType, Maturity, Mutation, Owner, Role, Scope, Strict

Problem = tuple[str, str, str]


class EdgeTable(Strict, frozen=True, kw_only=True):
    symptom: str
    scope: Scope = "job"
    within: float | None = None


class EdgeSetTable(Strict, frozen=True, kw_only=True):
    """Edges that several symptoms share: `explains_sets = ["name"]` adds them to a symptom's own."""

    name: str
    explains: tuple[EdgeTable, ...]


class SymptomTable(Strict, frozen=True, kw_only=True):
    id: str
    says: str
    domain: Domain
    sub_domain: str
    role: Role
    rank: int
    advice: Action
    owner: Owner
    aliases: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    blames: Literal["node", "peers", "nothing", ""] = ""
    lingers: str = "no"
    explains: tuple[EdgeTable, ...] = ()
    explains_sets: tuple[str, ...] = ()
    beats: tuple[str, ...] = ()
    drains: bool = False
    shared: bool = False
    detail: str = ""


class Emit(Strict, frozen=True, kw_only=True):
    type: EmitType
    symptom: str


class Context(Strict, frozen=True, kw_only=True):
    before: int = 0
    after: int = 0


class ExtractorTable(Strict, frozen=True, kw_only=True):
    name: str
    match_re: str
    emit: Emit
    reads: tuple[str, ...]
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()
    fields: dict[str, str] = {}
    unless_re: str | None = None
    context: Context = Context()
    needles: tuple[str, ...] = ()
    known_gaps: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    maturity: Maturity = "stable"
    last_only: bool = False
    also: dict[Mutation, str] = {}


class FamilyTable(Strict, frozen=True, kw_only=True):
    """`template` is an extractor whose text may hold %key%; each member gives the values and its own samples."""

    template: dict[str, Any]
    member: tuple[dict[str, Any], ...]
    symptom: dict[str, Any] | None = None


class CatalogTable(Strict, frozen=True, kw_only=True):
    """`table` is a CSV beside the file; `key` its key column. `symptom` and `says` may hold %column%."""

    name: str
    match_re: str
    reads: tuple[str, ...]
    table: str
    key: str
    symptom: str
    says: str
    match: tuple[str, ...]
    no_match: tuple[str, ...]
    defaults: dict[str, Any] = {}
    fields: dict[str, str] = {}
    columns: tuple[str, ...] = ()
    other: Emit | None = None
    unless_re: str | None = None
    needles: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    maturity: Maturity = "stable"
    also: dict[Mutation, str] = {}


class MetricTable(Strict, frozen=True, kw_only=True):
    """`query` may hold {nodes}; the condition holds when `op value` is true for `hold` seconds on end.

    mode "value" compares samples, "increase" the growth since the first sample.
    """

    name: str
    query: str
    op: Literal[">", ">=", "<", "<=", "==", "!="]
    value: float
    emit: Emit
    match: tuple[tuple[tuple[float, float], ...], ...]
    no_match: tuple[tuple[tuple[float, float], ...], ...]
    hold: float = 0.0
    mode: Literal["value", "increase"] = "value"
    refs: tuple[str, ...] = ()
    maturity: Maturity = "stable"


class RuleFile(Strict, frozen=True, kw_only=True):
    schema: Literal[1]
    edge_set: tuple[EdgeSetTable, ...] = ()
    symptom: tuple[SymptomTable, ...] = ()
    extractor: tuple[ExtractorTable, ...] = ()
    family: tuple[FamilyTable, ...] = ()
    catalog: tuple[CatalogTable, ...] = ()
    metric: tuple[MetricTable, ...] = ()


class ImportedExtractor(msgspec.Struct, frozen=True, kw_only=True):
    """The published shape of NVIDIA Attribution's extractors; keys that we don't know are theirs."""

    name: str
    match_re: str
    emit: Emit


class MappedSymptom(Strict, frozen=True, kw_only=True):
    """What a site says of a symptom that an imported file names."""

    domain: Domain
    sub_domain: str
    role: Role = "root"
    rank: int = 900
    advice: Action = "ask"
    owner: Owner = "ask"
    blames: Literal["node", "peers", "nothing", ""] = ""
    says: str = ""
    explains: tuple[EdgeTable, ...] = ()
    beats: tuple[str, ...] = ()


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    extractor: tuple[dict[str, Any], ...] = ()
    symptom_map: dict[str, MappedSymptom] = {}


def read_toml(path: Path) -> dict[str, Any]:
    """The file's tables; raises RuleError with the file, and the line where TOML is broken."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise RuleError([(str(path), "", f"can't be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise RuleError([(str(path), "", "is not UTF-8 text")]) from None
    except tomllib.TOMLDecodeError as error:
        raise RuleError([(str(path), "", f"is not valid TOML: {error}")]) from None
    except RecursionError:
        raise RuleError([(str(path), "", "is nested too deeply")]) from None


def convert_each(table: dict[str, Any], path: Path, problems: list[Problem]) -> RuleFile:
    """A RuleFile out of what converts; each entry that doesn't is a problem that names it."""
    kinds: dict[str, Any] = {
        "edge_set": EdgeSetTable, "symptom": SymptomTable, "extractor": ExtractorTable, "family": FamilyTable,
        "catalog": CatalogTable, "metric": MetricTable,
    }  # fmt: skip
    unknown = sorted(set(table) - {"schema", *kinds})
    problems += [(str(path), "", f"unknown key `{key}` (known: schema, {', '.join(kinds)})") for key in unknown]
    if table.get("schema") != 1:
        problems.append((str(path), "", f"schema = {table.get('schema')!r} is not known to this version (known: 1)"))
    found: dict[str, tuple[Any, ...]] = {}
    for kind, struct in kinds.items():
        entries = table.get(kind, [])
        if not isinstance(entries, list):
            problems.append((str(path), "", f"`{kind}` must be written [[{kind}]]"))
            continue
        found[kind] = tuple(v for e in entries if (v := _convert(e, struct, path, kind, problems)) is not None)
    return RuleFile(schema=1, **found)


def _convert(entry: Any, struct: Any, path: Path, kind: str, problems: list[Problem]) -> Any:
    name = kind
    if isinstance(entry, dict):
        name = str(entry.get("name") or entry.get("id") or kind)
    try:
        return msgspec.convert(entry, struct)
    except msgspec.ValidationError as error:
        problems.append((str(path), name, str(error)))
        return None


def read_csv(path: Path, owner: Path, rule: str) -> list[dict[str, str]]:
    """Rows of a catalog's table. Raises RuleError naming the rule file that asked for it."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))
    except OSError as error:
        raise RuleError([(str(owner), rule, f"table {path.name} can't be read: {error.strerror}")]) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise RuleError([(str(owner), rule, f"table {path.name} is not a UTF-8 CSV: {error}")]) from None
