"""The wheel that an sdist gives holds the rules, and works from anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from attribution import ruleset

ROOT = Path(__file__).parents[1]
BUNDLE = ROOT / "examples" / "nvlink" / "bundle"
BUILD = "import setuptools.build_meta as b, sys; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def call(*command: str | Path, cwd: Path) -> str:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def build(kind: str, source: Path, out: Path) -> Path:
    return out / call(sys.executable, "-c", BUILD, kind, out, cwd=source).splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from the sdist, which is built from a copy of the checkout."""
    base = tmp_path_factory.mktemp("wheel")
    copy, out = base / "checkout", base / "out"
    copy.mkdir()
    out.mkdir()
    for name in ("attribution", "rules"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.unpack_archive(build("build_sdist", copy, out), base / "unpacked", filter="data")
    (unpacked,) = (base / "unpacked").iterdir()
    stale = unpacked / "build" / "lib" / "attribution" / "bundled_rules" / "gone.toml"
    stale.parent.mkdir(parents=True)
    stale.write_text("schema = 1\n")
    return build("build_wheel", unpacked, out)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory) -> Path:
    """An environment with this wheel; the libraries are the ones of the running tests."""
    env = tmp_path_factory.mktemp("installed")
    venv.create(env, with_pip=False)
    site = next(env.glob("lib/python*/site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n" + sysconfig.get_path("platlib") + "\n")
    call(sys.executable, "-m", "pip", f"--python={env / 'bin' / 'python'}", "install", "--quiet", "--no-deps", "--no-index",
         "--ignore-installed", wheel, cwd=env)  # fmt: skip
    return env


def test_the_wheel_holds_every_rule_file_and_the_marker_of_types(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    rules = {p.relative_to(ROOT / "rules") for p in (ROOT / "rules").rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert {f"attribution/bundled_rules/{p}" for p in rules} == {n for n in names if "bundled_rules" in n}
    assert "attribution/py.typed" in names
    assert not [n for n in names if not n.startswith(("attribution/", "sattrib-"))]


def test_the_installed_program_reads_its_own_rules(installed, tmp_path):
    where = call(
        installed / "bin" / "python", "-c", "from attribution import ruleset; print(ruleset.bundled_dir())", cwd=tmp_path
    )
    assert where.strip() == str(next(installed.glob("lib/python*/site-packages")) / "attribution" / "bundled_rules")
    said = call(installed / "bin" / "sattrib", "rules", "check", cwd=tmp_path)
    assert said.startswith("ok: ")
    assert ruleset.load(samples=False).hash in said


def test_the_installed_program_analyzes_a_bundle(installed, tmp_path):
    said = call(installed / "bin" / "sattrib", "analyze", BUNDLE, cwd=tmp_path)
    assert "node-02" in said


def test_a_checkout_reads_its_own_rules():
    assert ruleset.bundled_dir() == ROOT / "rules"
