"""Rule files as people write them: strict for `schema = 1`, lenient for imported ones."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from attribution.errors import RuleError, refusal
from attribution.model import Action, Domain, EmitType, Maturity, Mutation, Owner, Role, Scope, Strict

Problem = tuple[str, str, str]
T = TypeVar("T")
# Nothing longer is ever matched or shown: a line is matched up to 8 KiB.
MOST_TEXT = 16_384


Seconds = Annotated[float, Meta(ge=0, le=10_000_000)]
Lines = Annotated[int, Meta(ge=0, le=200)]
Number = Annotated[float, Meta(ge=-1e18, le=1e18)]


class EdgeTable(Strict, frozen=True, kw_only=True):
    symptom: str
    scope: Scope = "job"
    within: Seconds | None = None


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
    before: Lines = 0
    after: Lines = 0


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
    value: Number
    emit: Emit
    match: tuple[tuple[tuple[float, float], ...], ...]
    no_match: tuple[tuple[tuple[float, float], ...], ...]
    hold: Seconds = 0.0
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
    rank: Annotated[int, Meta(ge=0, le=999)] = 900
    advice: Action = "ask"
    owner: Owner = "ask"
    blames: Literal["node", "peers", "nothing", ""] = ""
    says: str = ""
    explains: tuple[EdgeTable, ...] = ()
    beats: tuple[str, ...] = ()


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    extractor: tuple[dict[str, Any], ...] = ()
    symptom_map: dict[str, MappedSymptom] = {}


def parse_toml(content: bytes, path: Path) -> dict[str, Any]:
    """The file's tables; raises RuleError with the file, and the line where TOML is broken."""
    try:
        table = tomllib.loads(content.decode("utf-8"))
        long = next(_too_long(table, ""), None)
    except UnicodeDecodeError:
        raise RuleError([(str(path), "", "is not UTF-8 text")]) from None
    except tomllib.TOMLDecodeError as error:
        raise RuleError([(str(path), "", f"is not valid TOML: {error}")]) from None
    except ValueError as error:  # a number of more digits than Python reads
        raise RuleError([(str(path), "", f"is not valid TOML: {error}")]) from None
    except RecursionError:
        raise RuleError([(str(path), "", "is nested too deeply")]) from None
    if long is not None:
        raise RuleError([(str(path), *long)])
    return table


def _too_long(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """(rule, what) of texts and keys longer than anything that is matched or shown."""
    if isinstance(value, str):
        if len(value) > MOST_TEXT:
            yield name, f"a text of {len(value)} characters ({value[:40]!r}…) is longer than {MOST_TEXT}"
    elif isinstance(value, dict):
        own = value.get("name") or value.get("id")
        name = own if isinstance(own, str) and len(own) <= MOST_TEXT else name
        for key, inner in value.items():
            yield from _too_long(key, name)
            yield from _too_long(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _too_long(inner, name)


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
        return converted(entry, struct)
    except ValueError as error:
        problems.append((str(path), name, str(error)))
        return None


def converted(entry: Any, struct: type[T]) -> T:
    """The entry as `struct`. Raises ValueError with what is wrong, where, and what is known instead."""
    try:
        return msgspec.convert(entry, struct)
    except msgspec.ValidationError as error:
        raise ValueError(refusal(error, struct)) from None


def parse_csv(content: bytes, table: str, key: str) -> list[dict[str, str]]:
    """Rows of a catalog's table. Raises ValueError with what is wrong."""
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)
        rows = [row for row in reader if _is_row(row, f"table {table} line {reader.line_num}")]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"table {table} is not a UTF-8 CSV: {error}") from None
    columns = list(reader.fieldnames or ())
    twice = sorted({c for c in columns if columns.count(c) > 1})
    if twice or key not in columns:
        raise ValueError(f"table {table} has " + (f"the column {twice[0]!r} twice" if twice else f"no column {key!r}, the key"))
    return rows


def _is_row(row: dict[str, str], where: str) -> bool:
    if None in row:
        raise ValueError(f"{where} has more cells than the first line has columns")
    long = next((cell for cell in row.values() if cell and (len(cell) > MOST_TEXT or "\0" in cell)), None)
    if long is not None:
        raise ValueError(f"{where} holds a NUL byte" if "\0" in long else f"{where} has a cell longer than {MOST_TEXT}")
    return True
