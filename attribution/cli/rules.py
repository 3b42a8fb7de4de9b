"""`sattrib rules`: check, list, show, needles, test, coverage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attribution.cli.output import write
from attribution.errors import ConfigError
from attribution.report.escape import escape

if TYPE_CHECKING:
    from attribution.engine.rules import RuleSet
    from attribution.model import SourceKind

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
        write(f"{symptom.id:32} {symptom.role:8} {symptom.domain + '/' + symptom.sub_domain:36} {escape(symptom.says)}\n")


@rules.command()
@click.argument("name", nargs=-1, required=True)
@_DIRS
def show(name: tuple[str, ...], rule_dirs: tuple[Path, ...]) -> None:
    """Explain a symptom, a rule or an XID: `rules show gpu.off_bus`, `rules show XID 79`."""
    from attribution.desk.rulebook import describe, find

    loaded = _load(rule_dirs)
    symptoms, named = find(loaded, " ".join(name))
    for symptom in symptoms:
        write(f"{symptom.id}\n")
        _pairs(describe(loaded, symptom))
    for rule in named:
        write(f"{rule.name}\n")
        pairs = [("gives", rule.symptom or f"one of {len(rule.rows or ())} symptoms, by key"), ("pattern", rule.pattern), ("unless", rule.unless or ""),
                 ("reads", ", ".join(rule.reads)), ("needles", ", ".join(rule.needles)), ("maturity", rule.maturity),
                 ("known gaps", "; ".join(rule.known_gaps)), ("see", ", ".join(rule.refs)), ("declared in", rule.file)]  # fmt: skip
        _pairs([*pairs, *(("matches", m) for m in rule.match), *(("not", m) for m in rule.no_match)])


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
    from attribution.desk.rulebook import try_text

    fired, nearly = try_text(_load(rule_dirs), _text(line, file), _kinds(kind))
    for hit in fired:
        fields = " ".join(f"{k}={v}" for k, v in hit.fields.items())
        write(f"line {hit.line}: {hit.rule} -> {hit.symptom} ({hit.role}) {escape(fields)}\n")
    for miss in nearly:
        write(f"line {miss.line}: nearly {miss.rule} (needle {miss.needle!r}): {escape(miss.why)}\n")
    if not fired:
        write("no rule fires\n" if not nearly else "")


def _text(line: str | None, file: Path | None) -> str:
    if line is not None:
        return line
    try:
        return file.read_text(encoding="utf-8", errors="replace") if file else sys.stdin.read()
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", str(file)) from None


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
