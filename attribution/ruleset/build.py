"""From rule files to symptoms and extractors: families and catalogs expanded, names linked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import re2

from attribution.engine.needles import MIN_LENGTH, Option, UnsupportedPatternError, options
from attribution.engine.rules import GROUPS, Extractor, Metric, Row, compile_pattern, plain_key
from attribution.model import KINDS, EmitType, Explains, SourceKind, Symptom
from attribution.ruleset.files import (
    CatalogTable,
    EdgeSetTable,
    EdgeTable,
    ExtractorTable,
    FamilyTable,
    ImportedExtractor,
    ImportedFile,
    MetricTable,
    Problem,
    RuleFile,
    SymptomTable,
    converted,
    parse_csv,
)
from attribution.ruleset.limits import StuckError, limited
from attribution.ruleset.template import fill, filled, needed

BLAMING = frozenset({"hardware", "network", "platform"})
WEAKEST, IMPORTED_RANK = 899, 999
FILE_SECONDS = 20.0
MOST_RULES = 10_000
SYMPTOM_ID = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+")
MOST_INSTRUCTIONS = 100_000


class Draft:
    """What has been read so far. `problems` refuse the set; `warnings` do not.

    While `proven` holds, what is added has passed every check before: its patterns are compiled where they are first used.
    """

    def __init__(self) -> None:
        self.proven = False
        self.folder, self.files = Path(), dict[Path, bytes]()
        self.instructions = 0
        self.symptoms: dict[str, Symptom] = {}
        self.edge_sets: dict[str, tuple[Explains, ...]] = {}
        self.uses: dict[str, tuple[str, ...]] = {}
        self.extractors: dict[str, Extractor] = {}
        self.options: dict[str, list[Option]] = {}
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    @contextmanager
    def limited(self, path: Path) -> Iterator[None]:
        """CPU and memory for one file; what is beyond them is a problem of it."""
        try:
            with nullcontext() if self.proven else limited(FILE_SECONDS):
                yield
        except (StuckError, MemoryError, RecursionError) as error:
            self.problems.append((str(path), "", str(error) or f"can't be taken in: {type(error).__name__}"))

    def _is_full(self, path: Path) -> bool:
        """Whether there are as many as any site can mean; said once."""
        full = max(len(self.symptoms), len(self.extractors)) >= MOST_RULES
        what = f"there are more than {MOST_RULES} rules or symptoms: the rest is not looked at"
        if full and what not in {w for _, _, w in self.problems[-1:]}:
            self.problems.append((str(path), "", what))
        return full

    def add_symptom(self, table: SymptomTable, path: Path, weakest: int = WEAKEST) -> None:
        if self._is_full(path):
            return
        if not 0 <= table.rank <= weakest:
            self.problems.append((str(path), table.id, f"rank {table.rank} is not between 0 and {weakest}"))
        if table.id in self.symptoms:
            self.problems.append((str(path), table.id, f"symptom is declared twice (also in {self.symptoms[table.id].file})"))
            return
        edges = _edges(table.explains)
        own = ("explains", "explains_sets", "blames")
        values = {k: getattr(table, k) for k in SymptomTable.__struct_fields__ if k not in own}
        if table.explains_sets:
            self.uses[table.id] = table.explains_sets
        blames = table.blames or ("node" if table.domain in BLAMING else "nothing")
        self.symptoms[table.id] = Symptom(**values, explains=edges, blames=blames, file=str(path))

    def add_edge_set(self, table: EdgeSetTable, path: Path) -> None:
        if table.name in self.edge_sets:
            self.problems.append((str(path), table.name, "edge_set is declared twice"))
        self.edge_sets[table.name] = _edges(table.explains)

    def link_edge_sets(self) -> None:
        """Give each symptom the edges of the sets that it names; its own edge to the same symptom goes first."""
        for name, wanted in self.uses.items():
            symptom = self.symptoms[name]
            unknown = [w for w in wanted if w not in self.edge_sets]
            self.problems += [(symptom.file, name, f"explains_sets {w}: no such edge_set") for w in unknown]
            shared = [e for w in wanted for e in self.edge_sets.get(w, ())]
            own = {e.symptom for e in symptom.explains}
            edges = (*symptom.explains, *(e for e in shared if e.symptom not in own))
            self.symptoms[name] = msgspec.structs.replace(symptom, explains=edges)

    def add_rule(self, rule: Extractor, path: Path) -> None:
        """Take a rule with its needles derived or given; what is wrong with it becomes a problem."""
        if self._is_full(path):
            return
        if rule.name in self.extractors:
            self.problems.append((str(path), rule.name, f"name is used twice (also in {self.extractors[rule.name].file})"))
            return
        try:
            derived = [] if self.proven and rule.needles else options(rule.pattern)
            found = [frozenset(n.lower() for n in rule.needles)] if rule.needles else derived
            for pattern in () if self.proven else (rule.pattern, rule.unless):
                if pattern:
                    self._compile(pattern)
        except UnsupportedPatternError as error:
            self.problems.append((str(path), rule.name, f"match_re: {error}"))
            return
        except re2.error as error:
            self.problems.append((str(path), rule.name, f"match_re: RE2 refuses it: {_words(error)}"))
            return
        except ValueError as error:
            self.problems.append((str(path), rule.name, str(error)))
            return
        bad = [n for o in found for n in o if len(n) < MIN_LENGTH or not n.isascii() or not n.isprintable()]
        if bad and rule.needles:
            self.problems.append(
                (str(path), rule.name, f"needles must be visible ASCII and at least {MIN_LENGTH} bytes: {bad}")
            )
        elif not found and not rule.last_only:
            self.problems.append(
                (str(path), rule.name, "has no needle: no literal of 4 bytes in every branch; give `needles` or last_only")
            )
        else:
            self.extractors[rule.name] = rule
            self.options[rule.name] = found

    def _compile(self, pattern: str) -> None:
        """Raises re2.error, or ValueError for one that would cost too much memory."""
        size = int(compile_pattern(pattern).programsize)
        self.instructions += size
        if size > MOST_INSTRUCTIONS:
            raise ValueError(f"match_re: RE2 makes {size} instructions of it, more than {MOST_INSTRUCTIONS}: repeat less")
        if self.instructions > 100 * MOST_INSTRUCTIONS:
            raise ValueError("match_re: all patterns together need too much memory from here on")


def _edges(tables: tuple[EdgeTable, ...]) -> tuple[Explains, ...]:
    return tuple(Explains(symptom=e.symptom, scope=e.scope, within=e.within) for e in tables)


def _words(error: Exception) -> str:
    text = error.args[0] if error.args else error
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def kinds_of(reads: tuple[str, ...]) -> tuple[SourceKind, ...]:
    """Source kinds, with the groups `kernel`, `slurm` and `any` expanded. Raises ValueError for another word."""
    found: set[str] = set()
    for word in reads:
        if word not in GROUPS and word not in KINDS:
            raise ValueError(f"reads: {word!r} is no source kind (known: {', '.join(KINDS)}; groups: {', '.join(GROUPS)})")
        found |= set(GROUPS.get(word, (word,)))
    return tuple(k for k in KINDS if k in found)


def add_symptoms(draft: Draft, file: RuleFile, path: Path) -> None:
    """Take what one `schema = 1` file declares; catalogs of any file may name it then."""
    for edge_set in file.edge_set:
        draft.add_edge_set(edge_set, path)
    for symptom in file.symptom:
        draft.add_symptom(symptom, path)
    for family in file.family:
        _add_family(draft, family, path)


def add_rules(draft: Draft, file: RuleFile, path: Path) -> None:
    """Take the rules of one file, after the symptoms of all."""
    for table in file.extractor:
        _add_extractor(draft, table, path)
    for catalog in file.catalog:
        _add_catalog(draft, catalog, path)
    for metric in file.metric:
        _add_metric(draft, metric, path)


def _add_extractor(draft: Draft, table: ExtractorTable, path: Path) -> None:
    if not table.match or not table.no_match:
        draft.problems.append((str(path), table.name, "needs at least one `match` and one `no_match` sample"))
    try:
        reads = kinds_of(table.reads)
    except ValueError as error:
        draft.problems.append((str(path), table.name, str(error)))
        return
    draft.add_rule(
        Extractor(
            name=table.name, pattern=table.match_re, unless=table.unless_re, emit=table.emit.type,
            symptom=table.emit.symptom, reads=reads, needles=table.needles, fields=table.fields, file=str(path),
            maturity=table.maturity, before=table.context.before, after=table.context.after, match=table.match,
            no_match=table.no_match, refs=table.refs, known_gaps=table.known_gaps, last_only=table.last_only, also=table.also,
        ),
        path,
    )  # fmt: skip


def _add_family(draft: Draft, family: FamilyTable, path: Path) -> None:
    own = set(ExtractorTable.__struct_fields__) - {"name", "match_re", "emit"}
    used = own | needed(family.template)
    if family.symptom is not None:
        used |= needed(family.symptom) | set(SymptomTable.__struct_fields__)
    for number, member in enumerate(family.member, 1):
        name = f"{family.template.get('name', 'family')} member {number}"
        if extra := sorted(set(member) - used - needed(member)):
            what = f"nothing uses {', '.join(extra)}: neither a key of an extractor nor a %word% of the template"
            draft.problems.append((str(path), name, what))
            continue
        try:
            table = filled(family.template, member, own)
            name = str(table.get("name", name))
            if family.symptom is not None:
                symptom = filled(family.symptom, member, SymptomTable.__struct_fields__)
                draft.add_symptom(converted(symptom, SymptomTable), path)
            _add_extractor(draft, converted(table, ExtractorTable), path)
        except ValueError as error:
            draft.problems.append((str(path), name, str(error)))


def _add_catalog(draft: Draft, catalog: CatalogTable, path: Path) -> None:
    try:
        rows = parse_csv(_table(draft, catalog.table, path), catalog.table, catalog.key)
        _check_catalog(catalog, rows)
        reads = kinds_of(catalog.reads)
    except ValueError as error:
        draft.problems.append((str(path), catalog.name, str(error)))
        return
    found: dict[str, Row] = {}
    before = len(draft.problems)
    for number, row in enumerate(rows, 2):
        key = plain_key((row.get(catalog.key) or "").strip())
        try:
            symptom = row.get("symptom") or fill(catalog.symptom, row)
            if symptom not in draft.symptoms:
                draft.add_symptom(_row_symptom(catalog, row, symptom), path)
        except ValueError as error:
            draft.problems.append((str(path), catalog.name, f"{catalog.table} line {number}: {error}"))
            continue
        if key in found:
            draft.problems.append((str(path), catalog.name, f"{catalog.table} line {number}: key {key} is there twice"))
        fields = {c: row[c] for c in catalog.columns if row.get(c)}
        found[key] = Row(symptom=symptom, emit=_emit(draft, symptom), fields=fields)
    if len(draft.problems) > before:
        return
    other = Row(symptom=catalog.other.symptom, emit=catalog.other.type) if catalog.other else None
    draft.add_rule(
        Extractor(
            name=catalog.name, pattern=catalog.match_re, unless=catalog.unless_re, emit="bad_node", symptom="", reads=reads,
            needles=catalog.needles, fields=catalog.fields, rows=found, other=other, file=str(path),
            maturity=catalog.maturity, match=catalog.match, no_match=catalog.no_match, refs=catalog.refs, also=catalog.also,
        ),
        path,
    )  # fmt: skip


def _check_catalog(catalog: CatalogTable, rows: list[dict[str, str]]) -> None:
    """Raises ValueError for a pattern without a key, and for columns that the table does not have."""
    if re.search(r"\(\?P?<key>", catalog.match_re) is None:
        raise ValueError("match_re needs a group named key: (?P<key>...)")
    wanted = needed([catalog.symptom, catalog.says, catalog.defaults]) | set(catalog.columns)
    missing = sorted(wanted - set(rows[0])) if rows else []
    if missing:
        raise ValueError(f"{catalog.table} has no column {', '.join(f'`{c}`' for c in missing)}")


def _table(draft: Draft, table: str, path: Path) -> bytes:
    """A catalog's table: one of the files that this rule directory itself holds. Raises ValueError."""
    beside = path.parent / table
    if Path(table).is_absolute() or ".." in Path(table).parts or "\0" in table:
        raise ValueError(f"table {table!r} leaves the rule directory: it must be a .csv file beside the rule file")
    content = draft.files.get(beside)
    if content is None:
        raise ValueError(f"table {table!r} is no .csv file of this rule directory that can be read")
    if not beside.resolve().is_relative_to(draft.folder.resolve()):
        raise ValueError(f"table {table!r} is a link that leaves the rule directory")
    return content


def _emit(draft: Draft, symptom: str) -> EmitType:
    known = draft.symptoms.get(symptom)
    if known is None or known.role == "context":
        return "interesting_node"
    return "bad_peers" if known.blames == "peers" else "bad_node"


def _row_symptom(catalog: CatalogTable, row: Mapping[str, str], symptom: str) -> SymptomTable:
    if not SYMPTOM_ID.fullmatch(symptom):
        raise ValueError(f"symptom {symptom!r} is not lower-case words (domain.name): use a lower-case column for it")
    known = set(SymptomTable.__struct_fields__)
    values: dict[str, Any] = {k: fill(v, row) for k, v in catalog.defaults.items()}
    for key, text in row.items():
        if key in known and text:
            values[key] = _typed(key, text)
    return converted({**values, "id": symptom, "says": fill(catalog.says, row)}, SymptomTable)


def _typed(key: str, text: str) -> Any:
    if key == "rank":
        return int(text)
    if key in ("drains", "shared"):
        return text.strip().lower() in ("yes", "true", "1")
    if key in ("aliases", "refs", "beats"):
        return text.split()
    if key == "explains":
        return [{"symptom": s, "scope": c or "gpu"} for s, _, c in (word.partition("/") for word in text.split())]
    return text


def _add_metric(draft: Draft, table: MetricTable, path: Path) -> None:
    metric = Metric(query=table.query, op=table.op, value=table.value, hold=table.hold, mode=table.mode)
    rule = Extractor(
        name=table.name, pattern="", emit=table.emit.type, symptom=table.emit.symptom, reads=("metric",), needles=(),
        file=str(path), maturity=table.maturity, refs=table.refs, metric=metric,
        match=tuple(map(_series, table.match)), no_match=tuple(map(_series, table.no_match)),
    )  # fmt: skip
    if rule.name in draft.extractors:
        draft.problems.append((str(path), rule.name, f"name is used twice (also in {draft.extractors[rule.name].file})"))
        return
    from attribution.engine.metrics import holds

    if not table.match or not table.no_match:
        draft.problems.append((str(path), rule.name, "needs at least one `match` and one `no_match` series"))
    draft.problems += [(str(path), rule.name, f"match series {i} does not meet the condition")
                       for i, s in enumerate(table.match, 1) if holds(metric, s) is None]  # fmt: skip
    draft.problems += [(str(path), rule.name, f"no_match series {i} meets the condition")
                       for i, s in enumerate(table.no_match, 1) if holds(metric, s) is not None]  # fmt: skip
    draft.extractors[rule.name] = rule


def _series(points: tuple[tuple[float, float], ...]) -> str:
    return " ".join(f"{at:g}:{value:g}" for at, value in points)


def add_imported(draft: Draft, table: dict[str, Any], path: Path) -> None:
    """Take an imported file: a rule that can't be used is refused alone, with a warning that names it."""
    if ours := sorted(set(table) & {"symptom", "family", "catalog", "metric", "edge_set"}):
        what = f"`schema = 1` is missing at its top: without it a file is read as an imported one, which has no {ours[0]}"
        draft.problems.append((str(path), "", what))
        return
    try:
        file = msgspec.convert(table, ImportedFile)
    except msgspec.ValidationError as error:
        draft.problems.append((str(path), "", str(error)))
        return
    draft.warnings.append(f"{path}: imported file (no `schema = 1`): its rules load as incubating")
    for entry in file.extractor:
        name = str(entry.get("name", "extractor"))
        before = len(draft.problems)
        try:
            found = msgspec.convert(entry, ImportedExtractor)
            draft.add_rule(
                Extractor(
                    name=found.name, pattern=found.match_re, emit=found.emit.type, symptom=found.emit.symptom,
                    reads=GROUPS["any"], needles=(), file=str(path), maturity="incubating",
                ),
                path,
            )  # fmt: skip
            _imported_symptom(draft, file, found.emit.symptom, path)
        except msgspec.ValidationError as error:
            draft.problems.append((str(path), name, str(error)))
        draft.warnings += [f"{f}: {r}: refused: {what}" for f, r, what in draft.problems[before:]]
        del draft.problems[before:]


def _imported_symptom(draft: Draft, file: ImportedFile, symptom: str, path: Path) -> None:
    place = file.symptom_map.get(symptom)
    if symptom in draft.symptoms:
        return
    if place is None:
        table = SymptomTable(
            id=symptom, says=symptom, domain="unknown", sub_domain="unmapped", role="root", rank=IMPORTED_RANK,
            advice="ask", owner="ask", blames="nothing",
        )  # fmt: skip
    else:
        values = {k: getattr(place, k) for k in type(place).__struct_fields__ if k != "says"}
        table = SymptomTable(id=symptom, says=place.says or symptom, **values)
    draft.add_symptom(table, path, IMPORTED_RANK)
