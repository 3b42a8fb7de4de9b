"""The house: sizes, stubs, links, and that every command is documented."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("attribution/**/*.py"), *ROOT.glob("slurm/**/*.py"), *ROOT.glob("rules/**/*.py")])
TEXTS = sorted(
    p for p in [*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("**/*.md"), *ROOT.glob("rules/**/*.toml"), *ROOT.glob("slurm/**/*"), *ROOT.glob("scripts/*")]
    if p.is_file() and not any(part.startswith(".") or part in ("build", "dist") for part in p.relative_to(ROOT).parts)
)  # fmt: skip
MOST_LINES, MOST_FUNCTION = 400, 40


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(ROOT)) for p in SOURCES])
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            quoted = (
                isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
            )
            start = first.end_lineno if quoted else node.lineno
            assert node.end_lineno - start <= MOST_FUNCTION, f"{path}:{node.lineno} {node.name}"


def test_no_stubs_and_no_promises():
    # Python's own name of an exception may stand in a rule; only code can raise it.
    words, code = re.compile(r"\b(?:TODO|FIXME|XXX)\b"), re.compile(r"\bNotImplementedError\b")
    found = [
        f"{p}:{n}"
        for p in TEXTS
        if p != Path(__file__)
        for n, line in enumerate(p.read_text(errors="replace").splitlines(), 1)
        if words.search(line) or (p.suffix == ".py" and code.search(line))
    ]
    assert found == []


def test_links_in_the_docs_lead_somewhere():
    broken = []
    for page in [p for p in TEXTS if p.suffix == ".md"]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_command_is_in_the_readme_or_a_page():
    from attribution.cli.main import cli

    pages = "\n".join(p.read_text() for p in TEXTS if p.suffix == ".md")
    with cli.make_context("sattrib", [], resilient_parsing=True) as context:
        missing = [name for name in cli.list_commands(context) if f"sattrib {name}" not in pages]
    assert missing == []
