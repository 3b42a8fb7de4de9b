"""`sattrib rules`: check, list, show, needles, test, coverage, docs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attribution.cli.output import write
from attribution.errors import ConfigError
from attribution.report.escape import ELLIPSIS, escape

if TYPE_CHECKING:
    from attribution.desk.tryout import Tried
    from attribution.engine.rules import RuleSet
    from attribution.model import SourceKind

_WIDEST = 160
_MOST = 64 << 20
_DIRS = click.option(
    "--rules",
    "rule_dirs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A directory of your own rules; may be given again.",
)


@click.group()
def rules() -> None:
    """Read, check and try the rules."""


@rules.command()
@click.argument("dirs", nargs=-1, type=click.Path(path_type=Path))
def check(dirs: tuple[Path, ...]) -> None:
    """Check the bundled rules, and those of DIRS: samples, needles, links, the hit budget on healthy logs."""
    from attribution import ruleset

    loaded = ruleset.load(dirs)
    problems = ruleset.over_budget([r for r in loaded.extractors if r.maturity != "incubating"])
    if problems:
        from attribution.errors import RuleError

        raise RuleError(problems)
    for warning in loaded.warnings:
        write(f"warning: {escape(warning)}\n")
    samples = sum(len(r.match) + len(r.no_match) for r in loaded.extractors)
    kinds = f"{len(loaded.extractors)} extractors, {len(loaded.python)} Python rules, {len(loaded.symptoms)} symptoms"
    write(f"ok: {kinds}; {samples} samples; version {loaded.version}, hash {loaded.hash}\n")


@rules.command("list")
@_DIRS
@click.option("--domain", help="Only this domain.")
@click.option("--role", help="Only this role.")
def list_(rule_dirs: tuple[Path, ...], domain: str | None, role: str | None) -> None:
    """List the symptoms: id, role, place, what it says."""
    loaded = _load(rule_dirs)
    for symptom in loaded.symptoms.values():
        if (domain and symptom.domain != domain) or (role and symptom.role != role):
            continue
        place = f"{symptom.domain}/{symptom.sub_domain}"
        write(escape(f"{symptom.id:32} {symptom.role:8} {place:36} {symptom.says}") + "\n")


@rules.command()
@click.argument("name", nargs=-1, required=True)
@_DIRS
def show(name: tuple[str, ...], rule_dirs: tuple[Path, ...]) -> None:
    """Explain a symptom, a rule or an XID: `rules show gpu.off_bus`, `rules show XID 79`."""
    from attribution.desk import rulebook

    loaded = _load(rule_dirs)
    found = rulebook.find(loaded, " ".join(name))
    for symptom in found.symptoms:
        write(f"{escape(symptom.id)}\n")
        _pairs(rulebook.describe(loaded, symptom))
    for rule in found.extractors:
        write(f"{escape(rule.name)}\n")
        _pairs(rulebook.describe_extractor(rule))
    for python in found.python:
        write(f"{python.name}\n")
        _pairs(rulebook.describe_python(python))


def _pairs(pairs: list[tuple[str, str]]) -> None:
    from textwrap import fill

    for heading, text in pairs:
        if text:
            lead = f"  {heading:12} "
            write(
                fill(escape(text), width=100, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False)
                + "\n"
            )


@rules.command()
@_DIRS
@click.option("--kind", help="Only the needles of rules that read this kind of source.")
@click.option("--context", "with_context", is_flag=True, help="Only the needles of rules that need lines around their hit.")
def needles(rule_dirs: tuple[Path, ...], kind: str | None, with_context: bool) -> None:
    """Print the needles, one a line: what grep -i -F -f, journald, Loki and the nodes look for."""
    from attribution.engine.rules import GROUPS
    from attribution.engine.select import needle_lists

    plain, context = needle_lists(_load(rule_dirs), _kinds(kind) or GROUPS["any"])
    for needle in context if with_context else sorted({*plain, *context}):
        write(needle + "\n")


@rules.command()
@_DIRS
@click.option("--line", help="The text to try; without it, FILE or standard input.")
@click.option("--kind", help="Read it as this kind of source.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def test(rule_dirs: tuple[Path, ...], line: str | None, kind: str | None, file: Path | None) -> None:
    """Say which rules fire on a text, which nearly did and why not."""
    from attribution.cli.watch import watched
    from attribution.desk.tryout import try_text

    with watched():
        tried = try_text(_load(rule_dirs), _text(line, file), _kinds(kind))
    _tried(tried)


def _tried(tried: Tried) -> None:
    said: dict[int, list[str]] = {}
    hit = {one.line for one in tried.fired}
    for one in tried.fired:
        lead = f"set aside, {one.beaten_by} is more precise: " if one.beaten_by else ""
        said.setdefault(one.line, []).append(f"  {lead}{one.rule} -> {one.symptom} ({one.role}): {one.says}")
        if one.fields:
            said[one.line].append("      " + " ".join(f"{k}={v}" for k, v in one.fields.items()))
    for miss in tried.nearly:
        # Beside a hit, why another rule is silent is seldom the question.
        why = miss.why.partition(": ")[0] if miss.line in hit else miss.why
        said.setdefault(miss.line, []).append(f'  nearly {miss.rule} (needle "{miss.needle}"): {why}')
    for number in sorted(said):
        cut = " (cut at 8 KiB, as the engine does)" if number in tried.cut else ""
        write(f"line {number}{cut}: {_short(tried.texts[number])}\n")
        for row in said[number]:
            write(escape(row) + "\n")
    counts = f"{_count(len(tried.fired), 'hit')}, {len(tried.nearly)} nearly" if said else "no rule fires, and none nearly"
    write(f"{_count(tried.lines, 'line')}: {counts}\n")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _short(text: str) -> str:
    shown = escape(text)
    return shown if len(shown) <= _WIDEST else shown[: _WIDEST - 1] + ELLIPSIS


@rules.command()
@click.argument("cases_dir", nargs=-1, type=click.Path(path_type=Path))
@_DIRS
def coverage(cases_dir: tuple[Path, ...], rule_dirs: tuple[Path, ...]) -> int:
    """List the rules that no case bundle below CASES_DIR proves; exit 1 if there are any.

    Without CASES_DIR, the cases of this checkout. With --rules, only your own rules are asked for.
    """
    from attribution.cli.watch import watched
    from attribution.desk import coverage as desk

    loaded = _load(rule_dirs)
    with watched():
        proof = desk.prove(loaded, desk.bundles_in(cases_dir or (_own_cases(),)))
    found = desk.gaps(loaded, proof, rule_dirs)
    for gap in found:
        write(f"{gap.kind:11} {gap.rule:40} {escape(gap.why)}\n")
    write(
        f"{_count(len(found), 'gap')} in {_count(proof.bundles, 'bundle')}\n"
        if found
        else f"ok: {_count(proof.bundles, 'bundle')}, no gap\n"
    )
    return int(bool(found))


@rules.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@_DIRS
def docs(folder: Path, rule_dirs: tuple[Path, ...]) -> None:
    """Write the symptoms as Markdown pages into FOLDER, one a domain."""
    from attribution.desk.rulepages import write_pages

    try:
        for page in write_pages(_load(rule_dirs), folder):
            write(f"{escape(str(page))}\n")
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}", str(folder)) from None


def _own_cases() -> Path:
    from attribution.ruleset import bundled_dir

    folder = bundled_dir().parent / "tests" / "cases"
    if not folder.is_dir():
        raise ConfigError("there are no cases beside these rules: give CASES_DIR")
    return folder


def _text(line: str | None, file: Path | None) -> bytes:
    if line is not None:
        return line.encode("utf-8", "surrogateescape")
    try:
        with file.open("rb") if file else nullcontext(sys.stdin.buffer) as source:
            text = source.read(_MOST + 1)
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", str(file)) from None
    if len(text) > _MOST:
        raise ConfigError(f"is longer than {_MOST >> 20} MiB: give a part of it", str(file or "standard input"))
    return text


def _kinds(word: str | None) -> tuple[SourceKind, ...]:
    """The source kinds that a word or a group means; raises ConfigError for another word."""
    from attribution.ruleset.build import kinds_of

    try:
        return kinds_of((word,)) if word else ()
    except ValueError as error:
        raise ConfigError(str(error), key="--kind") from None


def _load(rule_dirs: tuple[Path, ...]) -> RuleSet:
    from attribution import ruleset

    return ruleset.load(rule_dirs, samples=False)
