"""Load, check and freeze the rules: the bundled ones, then a site's own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from attribution import __version__
from attribution.engine.needles import choose
from attribution.engine.rules import Extractor, RuleSet
from attribution.errors import RuleError
from attribution.rule import PythonRule
from attribution.ruleset import check
from attribution.ruleset.build import Draft, add_file, add_imported
from attribution.ruleset.files import convert_each, read_toml
from attribution.ruleset.pyrules import load_python, name_problem

__all__ = ["bundled_dir", "load"]


def bundled_dir() -> Path:
    """Where the bundled rules are: beside the package in a checkout, inside it in a wheel."""
    inside = Path(__file__).parent.parent / "bundled_rules"
    return inside if inside.is_dir() else Path(__file__).parent.parent.parent / "rules"


def load(site: tuple[Path, ...] = (), *, bundled: Path | None = None, samples: bool = True) -> RuleSet:
    """The frozen rule set. Site directories load after the bundled rules; their files are sorted by name.

    Raises RuleError with every problem of every file. `samples=False` takes the bundled files as checked; a site's own
    always are.
    """
    own = bundled or bundled_dir()
    draft, python = Draft(None if samples else own), list[PythonRule]()
    digest = hashlib.sha256()
    for folder in (own, *site):
        if not folder.is_dir():
            raise RuleError([(str(folder), "", "is no directory of rules")])
        files = sorted(
            p for p in folder.rglob("*") if p.suffix in (".toml", ".py", ".csv") and p.is_file() and not _hidden(p, folder)
        )
        for path in files:
            digest.update(str(path.relative_to(folder)).encode("utf-8", "surrogateescape") + b"\0" + _content(path) + b"\0")
        for path in (p for p in files if p.suffix == ".toml"):
            _add_toml(draft, path)
        draft.link_edge_sets()
        draft.uses.clear()
        for path in (p for p in files if p.suffix == ".py"):
            python += load_python(path, draft.symptoms, draft.problems, proven=not samples and folder == own)
    rules = _freeze(draft, python, digest.hexdigest()[:16])
    _check(draft, rules, own, samples)
    if draft.problems:
        raise RuleError(sorted(set(draft.problems)))
    return rules


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.relative_to(folder).parts)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RuleError([(str(path), "", f"can't be read: {error.strerror}")]) from None


def _add_toml(draft: Draft, path: Path) -> None:
    try:
        table = read_toml(path)
    except RuleError as error:
        draft.problems += error.problems
        return
    if "schema" in table:
        add_file(draft, convert_each(table, path, draft.problems), path)
    else:
        add_imported(draft, table, path)


def _freeze(draft: Draft, python: list[PythonRule], digest: str) -> RuleSet:
    options = {name: found for name, found in draft.options.items() if found}
    chosen = choose(options)
    extractors = tuple(
        msgspec.structs.replace(rule, needles=tuple(sorted(chosen.get(name, ())))) for name, rule in draft.extractors.items()
    )
    return RuleSet(draft.symptoms, extractors, tuple(python), __version__, digest, tuple(draft.warnings))


def _check(draft: Draft, rules: RuleSet, own: Path, everything: bool) -> None:
    def mine(file: str) -> bool:
        return everything or not Path(file).is_relative_to(own)

    draft.problems += check.symptom_problems(rules.symptoms, [n for n, s in rules.symptoms.items() if mine(s.file)])
    names = [r.name for r in rules.extractors if mine(r.file)]
    draft.problems += check.rule_problems(rules, names)
    draft.problems += _name_problems(rules)
    site = [r for r in rules.extractors if not Path(r.file).is_relative_to(own) and r.maturity != "incubating"]
    if site:
        draft.problems += over_budget(site)


def _name_problems(rules: RuleSet) -> list[tuple[str, str, str]]:
    seen: dict[str, str] = {}
    found = []
    for rule in rules.python:
        if rule.name in seen or any(rule.name == e.name for e in rules.extractors):
            found.append(("", rule.name, "name is used twice"))
        seen[rule.name] = rule.kind
        if (what := name_problem(rule.name)) is not None:
            found.append(("", rule.name, what))
    found += [(r.file, r.name, w) for r in rules.extractors if r.maturity != "incubating" and (w := name_problem(r.name))]
    return found


def over_budget(extractors: list[Extractor]) -> list[tuple[str, str, str]]:
    """Rules whose needles hit too many lines of the healthy corpus."""
    from attribution.ruleset.corpus import healthy_lines

    return check.budget_problems(extractors, healthy_lines())


def by_file(rules: RuleSet) -> Mapping[str, int]:
    """How many rules each file gives."""
    found: dict[str, int] = {}
    for rule in rules.extractors:
        found[rule.file] = found.get(rule.file, 0) + 1
    return found
