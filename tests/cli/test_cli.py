from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import types
from pathlib import Path

import jsonschema
import pytest
import sample_verdicts as samples
from msgspec.structs import replace

from attribution.cli.lazy import COMMANDS
from attribution.cli.main import run
from attribution.cli.schema import json_schema
from attribution.errors import ConfigError, RuleError, SlurmError
from attribution.model import Verdict
from attribution.report.as_json import verdict_json

TESTS = Path(__file__).parent.parent
# A program of its own in which the pipeline answers with the sample verdict that its first argument names.
PROGRAM = f"""
import sys, types
sys.path.insert(0, {str(TESTS)!r})
import sample_verdicts
module = types.ModuleType("attribution.pipeline")
make = getattr(sample_verdicts, sys.argv[1])
module.analyze_bundle = lambda path, rule_dirs, explain: types.SimpleNamespace(verdict=make(), stored_input=b"{{}}", input_hash="a")
sys.modules["attribution.pipeline"] = module
from attribution.cli.main import run
run(sys.argv[2:])
"""


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch):
    """The pipeline's place, taken by a function that remembers what it was asked."""
    module = types.ModuleType("attribution.pipeline")
    module.asked = []
    module.verdict = samples.attributed()

    def analyze_bundle(path, rule_dirs, explain):
        module.asked.append((path, rule_dirs, explain))
        if isinstance(module.verdict, BaseException):
            raise module.verdict
        return types.SimpleNamespace(verdict=module.verdict, stored_input=b'{"lines": []}', input_hash="hash-1")

    module.analyze_bundle = analyze_bundle
    monkeypatch.setitem(sys.modules, "attribution.pipeline", module)
    return module


def sattrib(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as raised:
        run([*arguments])
    out, err = capsys.readouterr()
    return int(raised.value.code or 0), out, err


def program(*arguments: str, **more):
    env = {"PATH": os.environ["PATH"], **more.pop("env", {})}
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, env=env, check=False, **more)


def test_analyze_shows_the_screen(pipeline, capsys) -> None:
    code, out, err = sattrib(capsys, "analyze", "some/dir", "--rules", "a", "--rules", "b")
    assert (code, err) == (0, "")
    assert out.startswith("hardware_failure  hardware/nvlink_signal_integrity  node-02  high\n")
    assert "\x1b" not in out
    assert pipeline.asked == [(Path("some/dir"), (Path("a"), Path("b")), False)]


def test_analyze_json_is_the_verdict_and_nothing_else(pipeline, capsys) -> None:
    code, out, err = sattrib(capsys, "analyze", "d", "--json", "--explain")
    assert (code, err) == (0, "")
    assert out == verdict_json(pipeline.verdict)
    assert pipeline.asked[0][2] is True


@pytest.mark.parametrize(
    "make", [samples.attributed, samples.ambiguous, samples.insufficient, samples.no_failure, samples.wide]
)
def test_json_fits_the_published_schema(pipeline, capsys, make) -> None:
    pipeline.verdict = make()
    _, out, _ = sattrib(capsys, "analyze", "d", "--json")
    _, schema, _ = sattrib(capsys, "schema", "verdict")
    jsonschema.Draft202012Validator.check_schema(json.loads(schema))
    jsonschema.validate(json.loads(out), json.loads(schema))


def test_schema_refuses_what_is_no_verdict() -> None:
    document = json.loads(verdict_json(samples.attributed()))
    for change in ({"domain": "weather"}, {"schema": 2}, {"attempt": None}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, **change}, json_schema("verdict"))


def test_bundle_schema(capsys) -> None:
    _, out, _ = sattrib(capsys, "schema", "bundle")
    schema = json.loads(out)
    bundle = {"schema": 1, "attempt": {"cluster": "a", "job_id": "1", "state": "FAILED", "nodes": ["n1"]}, "sources": []}
    jsonschema.validate(bundle, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**bundle, "sorces": []}, schema)
    assert schema["$id"] == "urn:sattrib:bundle:1"
    assert sattrib(capsys, "schema", "bundle")[1] == out


def test_archive_and_show(pipeline, capsys, tmp_path: Path) -> None:
    file = str(tmp_path / "v.db")
    code, out, _ = sattrib(capsys, "analyze", "d", "--archive", file, "--now", "2026-10-03T04:00:00Z")
    assert code == 0
    assert out.endswith(f"\nstored in {file} as version 1\n")
    _, again, _ = sattrib(capsys, "analyze", "d", "--archive", file)
    assert "already in" in again.splitlines()[-1]
    code, shown, _ = sattrib(capsys, "show", "4242", "--archive", file)
    assert code == 0
    assert out.startswith(shown)
    _, document, _ = sattrib(capsys, "show", "4242", "--archive", file, "--json")
    assert document == verdict_json(pipeline.verdict)
    assert sattrib(capsys, "4242", "--archive", file)[1] == shown


def test_with_json_the_note_goes_beside_it(pipeline, capsys, tmp_path: Path) -> None:
    _, out, err = sattrib(capsys, "analyze", "d", "--json", "--archive", str(tmp_path / "v.db"))
    json.loads(out)
    assert "as version 1" in err


def test_now_is_the_time_of_storing(pipeline, capsys, tmp_path: Path) -> None:
    from attribution.archive.open import open_archive

    sattrib(capsys, "analyze", "d", "--archive", str(tmp_path / "v.db"), "--now", "2026-10-03T06:00:00+02:00")
    with open_archive(tmp_path / "v.db", create=False) as archive:
        assert archive.latest("4242")[0].stored == 1790_999_200 + 800
    code, _, err = sattrib(capsys, "analyze", "d", "--now", "soon")
    assert code == 2
    assert "ISO 8601" in err


def test_versions(pipeline, capsys, tmp_path: Path) -> None:
    file = str(tmp_path / "v.db")
    sattrib(capsys, "analyze", "d", "--archive", file)
    pipeline.verdict = replace(samples.insufficient(), engine="0.2.0")
    sattrib(capsys, "analyze", "d", "--archive", file)
    assert sattrib(capsys, "show", "4242", "--archive", file)[1].startswith("unknown_failure")
    _, old, _ = sattrib(capsys, "show", "4242", "--archive", file, "--version", "1")
    assert old.startswith("hardware_failure")
    assert old.endswith("version 1 of 2\n")
    code, _, err = sattrib(capsys, "show", "4242", "--archive", file, "--version", "9")
    assert code == 2
    assert err == f"sattrib: {file}: job 4242 has no version 9: the newest is 2\n"


def test_each_attempt_of_a_requeued_job_is_shown(pipeline, capsys, tmp_path: Path) -> None:
    file = str(tmp_path / "v.db")
    for key in ("a/1", "a/2"):
        pipeline.verdict = samples.attributed(attempt=samples.attempt(key=key))
        sattrib(capsys, "analyze", "d", "--archive", file)
    assert sattrib(capsys, "show", "4242", "--archive", file)[1].count("job 4242 ") == 2
    assert len(sattrib(capsys, "show", "4242", "--archive", file, "--line")[1].splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "9", "--archive", "none.db"], ["none.db", "no archive here"]),
        (["9", "--config", "none.toml"], ["none.toml: no such file"]),
        (["4242_7", "--json", "--config", "none.toml"], ["none.toml: no such file"]),
        (["4242+1", "--archive", "none.db"], ["no archive here"]),
        (["sDB5M8KMHWVF00", "--archive", "none.db"], ["no archive here"]),
        (["analyse"], ["No such command 'analyse'"]),
        (["schema", "weather"], ["weather"]),
        (["analyze"], ["DIR"]),
        (["show", "9"], ["--archive"]),
    ],
)
def test_what_a_person_gets_wrong_is_exit_2(pipeline, capsys, arguments: list[str], words: list[str]) -> None:
    code, out, err = sattrib(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError("unknown key", "bundle.json", "attempt.jobid"), 2, "sattrib: bundle.json: attempt.jobid: unknown key\n"),
        (RuleError([("a.toml", "r1", "no needle"), ("b.toml", "", "no TOML")]), 2, "sattrib: a.toml: r1: no needle\nsattrib: b.toml: no TOML\n"),
        (SlurmError("slurmdbd is silent"), 3, "sattrib: slurmdbd is silent\n"),
        (ConfigError("\x1b[31mred"), 2, "sattrib: \\x1b[31mred\n"),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)  # fmt: skip
def test_exit_codes(pipeline, capsys, error: BaseException, code: int, text: str) -> None:
    pipeline.verdict = error
    assert sattrib(capsys, "analyze", "d") == (code, "", text)


def test_a_bug_is_exit_70_with_a_report_to_paste(pipeline, capsys) -> None:
    pipeline.verdict = KeyError("\x1b[31m password=hunter2 " + "log line " * 1000)
    code, out, err = sattrib(capsys, "analyze", "d")
    assert (code, out) == (70, "")
    for word in ("this is a bug", "Python 3.", "command: sattrib analyze d", "test_cli.py:", "KeyError: "):
        assert word in err
    assert "hunter2" not in err
    assert "\x1b" not in err
    assert len(err) < 6000


def test_help_names_every_command_and_what_is_installed(capsys) -> None:
    code, out, _ = sattrib(capsys, "--help")
    assert code == 0
    for name in ("analyze", "show", "schema"):
        assert f"\n  {name} " in out
        assert sattrib(capsys, name, "--help")[0] == 0
    assert set(COMMANDS) >= {"rules"}


def test_hostile_text_reaches_no_terminal(pipeline, capsys) -> None:
    text = "[/] [bold]x[/bold] \x1b]0;owned\x07 \x9b31m a\x00b \u202egnp.exe \u200b \ud800 line\nsplit " + "A" * 1_000_000
    verdict = samples.attributed(
        attempt=samples.attempt(job_id=text, user=text, nodes=(text,)), responsible_nodes=(text,), missing=(text,)
    )
    assert verdict.root_cause
    pipeline.verdict = replace(
        verdict, root_cause=replace(verdict.root_cause, says=text, evidence=(samples.evidence(text, node=text),))
    )
    for form in (
        (),
        ("--explain",),
        ("--line",),
        ("--markdown",),
        ("--json",),
        ("--color", "always"),
        ("--explain", "--color", "always"),
    ):
        code, out, _ = sattrib(capsys, "analyze", "d", *form)
        assert code == 0
        for sign in ("\x9b", "\x00", "\x07", "\u202e", "\u200b", "\ud800", "\x1b]"):
            assert sign not in out, (form, sign)
        if "--line" not in form:
            assert "[bold]x[/bold]" in out.replace("\\[", "[").replace("\\]", "]")
        if "--json" not in form:
            assert len(out) < 100_000
        if "--color" not in form:
            assert "\x1b" not in out


def test_colours_are_for_terminals(pipeline, capsys) -> None:
    plain = sattrib(capsys, "analyze", "d")[1]
    colored = sattrib(capsys, "analyze", "d", "--color", "always")[1]
    assert "\x1b[" in colored
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    assert sattrib(capsys, "analyze", "d", "--color", "never")[1] == plain


@pytest.mark.parametrize(("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_real_terminal(env: dict[str, str], colored: bool) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "attributed", "analyze", "d"],
        stdout=theirs,
        env={"PATH": os.environ["PATH"], "TERM": "xterm", **env},
    )
    os.close(theirs)
    out = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
    os.close(ours)
    assert child.wait() == 0
    assert (b"\x1b[" in out) is colored


@pytest.mark.parametrize("env", [{"LANG": "C"}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}])  # fmt: skip
@pytest.mark.parametrize("form", ["--color=never", "--color=always", "--json", "--markdown", "--explain"])
def test_every_encoding_takes_the_answer(env: dict[str, str], form: str) -> None:
    done = program("wide", "analyze", "d", form, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    if "PYTHONIOENCODING" in env and form.startswith("--color"):
        assert b"... 29 more" in done.stdout


def test_reader_that_has_seen_enough() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "wide", "analyze", "d", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
    )
    assert child.stdout
    assert child.stderr
    child.stdout.read(10)
    child.stdout.close()
    assert child.stderr.read() == b""
    assert child.wait() == 141
    child.stderr.close()


def test_help_imports_nothing_slow() -> None:
    code = "import sys; from attribution.cli.main import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\nprint(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    loaded = done.stdout.splitlines()[-1]
    for slow in (
        "'sqlalchemy'",
        "'rich'",
        "'re2'",
        "'msgspec'",
        "'ahocorasick'",
        "'attribution.model'",
        "'attribution.pipeline'",
    ):
        assert slow not in loaded


def test_showing_needs_no_rules_and_no_colours(tmp_path: Path, pipeline, capsys) -> None:
    file = str(tmp_path / "v.db")
    sattrib(capsys, "analyze", "d", "--archive", file)
    code = f"import sys; from attribution.cli.main import cli\ncli.main(['show', '4242', '--archive', {file!r}], standalone_mode=False)\nprint(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    loaded = done.stdout.splitlines()[-1]
    for slow in ("'rich'", "'ahocorasick'", "'attribution.pipeline'", "'attribution.ruleset'", "'attribution.engine'"):
        assert slow not in loaded


def test_sample_is_what_the_schema_class_says() -> None:
    assert json.loads(verdict_json(samples.attributed())).keys() == set(Verdict.__struct_fields__)
