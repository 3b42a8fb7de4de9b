"""Load, check and freeze the rules: the bundled ones, then a site's own."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path

import msgspec

from attribution import __version__
from attribution.engine.needles import choose
from attribution.engine.rules import Extractor, RuleSet
from attribution.errors import RuleError
from attribution.rule import PythonRule
from attribution.ruleset import check
from attribution.ruleset.build import Draft, add_imported, add_rules, add_symptoms
from attribution.ruleset.files import RuleFile, convert_each, parse_toml
from attribution.ruleset.folder import rule_files
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
    with warnings.catch_warnings():
        # Python's own, of odd patterns and code: what matters of it is a problem with its file and rule.
        warnings.simplefilter("ignore")
        return _load(site, bundled or bundled_dir(), samples=samples)


def _load(site: tuple[Path, ...], own: Path, *, samples: bool) -> RuleSet:
    draft, python, theirs = Draft(), list[PythonRule](), set[str]()
    digest = hashlib.sha256()
    for folder in (own, *site):
        draft.proven = not samples and folder == own
        files = rule_files(folder, draft.problems, own=folder == own)
        draft.folder, draft.files = folder, files
        for path, content in files.items():
            digest.update(str(path.relative_to(folder)).encode("utf-8", "surrogateescape") + b"\0" + content + b"\0")
        read = [(path, file) for path in files if path.suffix == ".toml" and (file := _read(draft, path)) is not None]
        for path, file in read:
            add_symptoms(draft, file, path)
        for path, file in read:
            with draft.limited(path):
                add_rules(draft, file, path)
        draft.link_edge_sets()
        draft.uses.clear()
        for path in (p for p in files if p.suffix == ".py"):
            python += load_python(path, files[path], draft.symptoms, draft.problems, proven=draft.proven)
        theirs |= set() if folder == own else {str(p) for p in files}
    rules = _freeze(draft, python, digest.hexdigest()[:16])
    with draft.limited(folder):
        _check(draft, rules, theirs, samples)
    if draft.problems:
        raise RuleError(check.grouped(draft.problems))
    return rules


def _read(draft: Draft, path: Path) -> RuleFile | None:
    """A file of our own shape; an imported one is taken at once."""
    try:
        with draft.limited(path):
            table = parse_toml(draft.files[path], path)
            if "schema" in table:
                return convert_each(table, path, draft.problems)
            add_imported(draft, table, path)
    except RuleError as error:
        draft.problems += error.problems
    return None


def _freeze(draft: Draft, python: list[PythonRule], digest: str) -> RuleSet:
    # A progress rule is searched backwards from the end: needles would only make candidates of its lines.
    options = {name: found for name, found in draft.options.items() if found and not draft.extractors[name].last_only}
    chosen = choose(options)
    extractors = tuple(
        msgspec.structs.replace(rule, needles=tuple(sorted(chosen.get(name, ())))) for name, rule in draft.extractors.items()
    )
    return RuleSet(draft.symptoms, extractors, tuple(python), __version__, digest, tuple(draft.warnings))


def _check(draft: Draft, rules: RuleSet, theirs: set[str], everything: bool) -> None:
    """Add the problems of a site's own files (`theirs`), or of all."""
    wanted = [n for n, s in rules.symptoms.items() if everything or s.file in theirs]
    draft.problems += check.symptom_problems(rules.symptoms, wanted)
    draft.problems += check.rule_problems(rules, [r.name for r in rules.extractors if everything or r.file in theirs])
    draft.problems += _name_problems(rules)
    site = [r for r in rules.extractors if r.file in theirs and r.maturity != "incubating"]
    if site:
        draft.problems += over_budget(site)


def _name_problems(rules: RuleSet) -> list[tuple[str, str, str]]:
    seen = {r.name for r in rules.extractors}
    found = []
    for rule in rules.python:
        if rule.name in seen:
            found.append(("", rule.name, "name is used twice"))
        seen.add(rule.name)
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
