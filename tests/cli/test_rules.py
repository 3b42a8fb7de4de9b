"""The rules commands on a small set of rules: what they print, to the letter."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attribution import ruleset
from attribution.cli.main import run

SMALL = Path(__file__).parent / "small_rules"
XID = "Mar  2 04:18:56 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(ruleset, "bundled_dir", lambda: SMALL)


@pytest.fixture
def rules(capsys, monkeypatch):
    def call(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        with pytest.raises(SystemExit) as raised:
            run(["rules", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        return int(raised.value.code or 0), out.replace(str(SMALL), "RULES"), err.replace(str(SMALL), "RULES")

    return call


def said(answer: tuple[int, str, str]) -> str:
    code, out, err = answer
    assert (code, err) == (0, "")
    return out


def test_check(rules):
    out = said(rules("check"))
    assert out == f"ok: 3 extractors, 3 Python rules, 5 symptoms; 6 samples; version 0.1.0, hash {ruleset.load().hash}\n"


def test_check_names_every_problem_of_a_site_directory(rules, tmp_path):
    (tmp_path / "a.toml").write_text('schema = 1\n[[symptom]]\nid = "x"\nrnak = 1\n')
    (tmp_path / "b.py").write_text("import os\n")
    code, out, err = rules("check", tmp_path)
    assert (code, out) == (2, "")
    assert [line.split(": ", 2)[1] for line in err.splitlines()] == [f"{tmp_path}/a.toml", f"{tmp_path}/b.py"]


def test_list(rules):
    assert said(rules("list", "--domain", "hardware", "--role", "root")) == (
        "gpu.lost                         root     hardware/gpu                         a GPU can't be reached\n"
        "gpu.off_bus                      root     hardware/gpu_pcie                    a GPU fell off the PCIe bus\n"
    )
    assert len(said(rules("list")).splitlines()) == 5


OFF_BUS = """\
gpu.off_bus
  what         a GPU fell off the PCIe bus
  detail       The GPU no longer answers on the bus. Drain the node.
  place        hardware/gpu_pcie
  role         root: can be the cause
  do           rerun_without: run it again without the responsible node (a drain is suggested)
  owner        hw
  causes/gpu   gpu.xid_45
  causes/job   app.*
  beats        gpu.lost
  lingers      until boot
  also called  xid-79
  found by     xid
  see          https://docs.example.org/xid, the vendor's catalog
  declared in  RULES/gpu/xid.toml
"""
EXTRACTOR = """\
gpu-lost
  gives        gpu.lost
  pattern      GPU (?:has fallen off the bus|is lost)
  unless       dry run
  reads        app, kern, dmesg, syslog, journal
  needles      has fallen off the bus, is lost
  maturity     stable
  known gaps   the localised message
  also fires   not: nobody prints this sentence negated
  declared in  RULES/gpu/xid.toml
  matches      nvidia-smi: GPU is lost
  not          GPU is lost (dry run)
"""
FILTER = """\
lost-twice
  what         filter LATE
  detail       A GPU that is off the bus can't be reached either.
  declared in  RULES/rules.py
  given        gpu.off_bus on n1 time=1
  given        gpu.lost on n1 time=2
  expect       demote gpu.lost
"""


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (["gpu.off_bus"], OFF_BUS),
        (["XID", "79"], OFF_BUS),
        (["xid-79"], OFF_BUS),
        (["Xid", "079"], OFF_BUS),
        (["gpu-lost"], EXTRACTOR),
        (["lost-twice"], FILTER),
    ],
)
def test_show(rules, asked, text):
    assert said(rules("show", *asked)) == text


def test_show_says_what_a_consequence_follows(rules):
    assert "  follows      gpu.off_bus\n" in said(rules("show", "gpu.xid_45"))


CATALOG = """
schema = 1
[[catalog]]
name = "cdu"
match_re = '^coolantd: fault (?P<key>F\\d+)'
reads = ["syslog"]
table = "cdu.csv"
key = "code"
symptom = "cdu.%short%"
says = "%text%"
defaults = { domain = "hardware", sub_domain = "power_thermal", role = "root", rank = 60, advice = "ask", owner = "hw" }
match = ["coolantd: fault F12"]
no_match = ["coolantd: fault cleared"]

[[metric]]
name = "inlet-hot"
query = "inlet"
op = ">="
value = 48
emit = { type = "bad_node", symptom = "cdu.hot" }
match = [[[0, 47], [60, 49.5]]]
no_match = [[[0, 47]]]
"""


def test_show_of_a_sites_catalog_by_its_key_and_of_a_metrics_samples(rules, tmp_path):
    (tmp_path / "a.toml").write_text(CATALOG)
    (tmp_path / "cdu.csv").write_text("code,short,text\nF12,hot,too hot\n")
    for asked in (("CDU", "F12"), ("cdu-f12",), ("cdu.hot",)):
        assert said(rules("show", *asked, "--rules", tmp_path)).startswith("cdu.hot\n  what         too hot\n")
    metric = said(rules("show", "inlet-hot", "--rules", tmp_path))
    assert "  matches      0:47 60:49.5\n  not          0:47\n" in metric


def test_show_of_what_there_is_not_offers_what_is_close(rules):
    code, out, err = rules("show", "lost")
    assert (code, out) == (2, "")
    assert err == "sattrib: no symptom or rule is called 'lost'; close: gpu.lost, gpu-lost, lost-twice\n"


def test_needles(rules):
    assert said(rules("needles")) == "has fallen off the bus\nis lost\nnvrm: xid (\ntraceback (most recent call last)\n"
    assert said(rules("needles", "--kind", "journal")) == "has fallen off the bus\nis lost\nnvrm: xid (\n"
    assert said(rules("needles", "--context")) == "traceback (most recent call last)\n"
    assert rules("needles", "--kind", "sylog")[0] == 2


LOG = f"""{XID}
hello
[rank3]: Traceback (most recent call last):
[rank3]:   File "a.py", line 3, in <module>
[rank3]: ValueError: 7
+ grep -c 'GPU is lost' out.txt
NVRM: Xid (PCI:0000:3b:00): 13, x
step 3 loss 9.1
GPU is lost (dry run)
step 4 loss 9.0
"""
TRIED = f"""\
line 1: {XID}
  xid -> gpu.off_bus (root): a GPU fell off the PCIe bus
      gpu=0000:3b:00 xid=79
  set aside, gpu.off_bus is more precise: gpu-lost -> gpu.lost (root): a GPU can't be reached
line 3: [rank3]: Traceback (most recent call last):
  traceback -> app.exception (root): a Python exception ended the program
      said=ValueError: 7
line 6: + grep -c 'GPU is lost' out.txt
  nearly gpu-lost (needle "is lost"): the line only quotes it: a comment, a traced command, arguments, help or a test's name
line 7: NVRM: Xid (PCI:0000:3b:00): 13, x
  nearly xid (needle "nvrm: xid ("): the key is not in its table
line 9: GPU is lost (dry run)
  nearly gpu-lost (needle "is lost"): unless_re holds: dry run
line 10: step 4 loss 9.0
  progress-step -> app.progress (context): the run made progress
      step=4
10 lines: 4 hits, 3 nearly
"""


def test_a_file_and_standard_input_are_tried_alike(rules, tmp_path):
    (tmp_path / "a.log").write_text(LOG)
    assert said(rules("test", tmp_path / "a.log")) == TRIED
    assert said(rules("test", stdin=LOG.encode())) == TRIED


def test_one_line(rules):
    assert said(rules("test", "--line", "GPU is lost")) == (
        "line 1: GPU is lost\n  gpu-lost -> gpu.lost (root): a GPU can't be reached\n1 line: 1 hit, 0 nearly\n"
    )
    assert said(rules("test", "--line", "all is well")) == "1 line: no rule fires, and none nearly\n"
    assert said(rules("test", "--line", "GPU is lostt? is lost")).endswith("1 line: 1 hit, 0 nearly\n")
    assert said(rules("test")) == "0 lines: no rule fires, and none nearly\n"


def test_a_kind_shuts_out_what_does_not_read_it(rules):
    assert said(rules("test", "--line", XID, "--kind", "app")) == (
        f"line 1: {XID}\n"
        "  gpu-lost -> gpu.lost (root): a GPU can't be reached\n"
        '  nearly xid (needle "nvrm: xid ("): it reads only kern, dmesg, syslog, journal\n'
        "1 line: 1 hit, 1 nearly\n"
    )
    assert "traceback ->" not in said(rules("test", "--kind", "kernel", stdin=LOG.encode()))
    code, _, err = rules("test", "--kind", "sylog", "--line", "x")
    assert code == 2
    assert "--kind" in err


def test_beside_a_hit_a_near_miss_is_short(rules, tmp_path):
    (tmp_path / "a.toml").write_text(
        "schema = 1\n[[extractor]]\nname = 'bay'\nmatch_re = 'is lost in bay (?P<bay>\\d+)'\nreads = ['app']\n"
        "emit = { type = 'bad_node', symptom = 'gpu.lost' }\nmatch = ['is lost in bay 3']\nno_match = ['is lost']\n"
    )
    near = '  nearly bay (needle "is lost in bay "): the pattern does not match'
    assert f"{near}\n" in said(rules("test", "--line", "GPU is lost in bay x", "--rules", tmp_path))
    assert f"{near}: is lost in bay" in said(rules("test", "--line", "a disk is lost in bay x", "--rules", tmp_path))


def test_a_huge_line_is_cut_as_the_engine_cuts_it(rules):
    tail = b"GPU is lost " + b"x" * 9000
    out = said(rules("test", stdin=tail + b"\n" + b"y" * 9000 + b" GPU is lost\n"))
    first, hit, second, miss, count = out.splitlines()
    assert first.startswith("line 1 (cut at 8 KiB, as the engine does): GPU is lost xxx")
    assert first.endswith("x…")
    assert len(first) < 250
    assert hit == "  gpu-lost -> gpu.lost (root): a GPU can't be reached"
    assert second.startswith("line 2 (cut at 8 KiB, as the engine does): yyy")
    assert miss.startswith("  nearly gpu-lost (needle")
    assert count == "2 lines: 1 hit, 1 nearly"


def test_hostile_text_reaches_no_terminal(rules):
    hostile = b"\x1b]0;owned\x07GPU is lost [bold]\x9b31m\xe2\x80\xae\x00[/bold]\xff\rshown last\n"
    out = said(rules("test", stdin=hostile))
    assert "\\x1b]0;owned\\x07GPU is lost [bold]" in out
    assert "[/bold]" in out
    assert said(rules("test", stdin=b"GPU is lost\rbar\rGPU is lost again\n")).startswith(
        "line 1: GPU is lost\\rGPU is lost again\n"
    )
    assert all(ch == "\n" or ch.isprintable() for ch in out)
    assert said(rules("test", "--line", "GPU is lost \udcff\x1b[2J")).startswith("line 1: GPU is lost")


def test_a_file_that_is_not_there(rules, tmp_path):
    code, out, err = rules("test", tmp_path / "none.log")
    assert (code, out) == (2, "")
    assert "can't be read: No such file or directory" in err
    assert rules("test", tmp_path)[0] == 2


def bundle(folder: Path, text: str, kind: str = "kern") -> None:
    folder.mkdir(parents=True)
    attempt = {"cluster": "c", "job_id": "1", "state": "FAILED", "exit_code": "1:0", "nodes": ["n1"]}
    source = {"path": "a.log", "kind": kind, "node": "n1"}
    (folder / "bundle.json").write_text(json.dumps({"schema": 1, "attempt": attempt, "sources": [source]}))
    (folder / "a.log").write_text(text)


GAPS = """\
accumulator traceback                                fires in no bundle
collector   steps                                    finds no fact in any bundle
extractor   progress-step                            no bundle shows app.progress
3 gaps in 1 bundle
"""


def test_coverage(rules, tmp_path):
    both = "[11.5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n[12.5] nvidia-smi: GPU is lost\n"
    bundle(tmp_path / "cases" / "off-bus", both + "[13.5] NVRM: Xid (PCI:0000:3b:00): 45, x\n")
    code, out, _ = rules("coverage", tmp_path / "cases")
    assert (code, out) == (1, GAPS)
    bundle(tmp_path / "more" / "deep" / "app", "Traceback (most recent call last):\nValueError: x\nstep 4 loss 1.0\n", "app")
    assert said(rules("coverage", tmp_path / "cases", tmp_path / "more")) == "ok: 2 bundles, no gap\n"


def test_coverage_of_a_catalog_is_by_class(rules, tmp_path):
    bundle(tmp_path / "b", "[11.5] NVRM: Xid (PCI:0000:3b:00): 79, gone\n")
    _, out, _ = rules("coverage", tmp_path)
    catalog = [line for line in out.splitlines() if line.startswith("catalog")]
    assert catalog == [
        "catalog     xid                                      no bundle shows one of context, ask, gpu: gpu.xid_45"
    ]


CRASHING = """
from attribution.rule import Example, event, filter_rule

@filter_rule(name="crashes", stage="MID", example=Example(given=(event("gpu.lost", "n9"),), expect=()))
def crashes(view):
    for e in view.of("gpu.lost"):
        if e.node == "n1":
            raise ValueError("no")
        yield from ()
"""


def test_coverage_of_a_sites_own_rules_alone(rules, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.py").write_text(CRASHING)
    bundle(tmp_path / "cases" / "one", "nvidia-smi: GPU is lost\n")
    code, out, _ = rules("coverage", tmp_path / "cases", "--rules", own)
    assert code == 1
    assert out == (
        "crash       crashes                                  one: ValueError: no (line 8)\n"
        "filter      crashes                                  changes nothing in any bundle\n"
        "2 gaps in 1 bundle\n"
    )


def test_coverage_needs_bundles(rules, tmp_path):
    code, _, err = rules("coverage", tmp_path)
    assert code == 2
    assert "holds no bundle" in err
    code, _, err = rules("coverage")
    assert code == 2
    assert "give CASES_DIR" in err


def test_docs(rules, tmp_path):
    out = said(rules("docs", tmp_path / "pages"))
    names = ["README.md", "hardware.md", "application.md"]
    assert out == "".join(f"{tmp_path / 'pages' / n}\n" for n in names)
    page = (tmp_path / "pages" / "hardware.md").read_text()
    assert "## gpu.off_bus\n\n**a GPU fell off the PCIe bus** (hardware/gpu_pcie, root)\n" in page
    assert "* causes: `app.*`, [gpu.xid_45](hardware.md#gpuxid_45)\n" in page
    (tmp_path / "pages" / "storage.md").write_text("gone")
    said(rules("docs", tmp_path / "pages"))
    assert sorted(p.name for p in (tmp_path / "pages").iterdir()) == sorted(names)
    (tmp_path / "file").write_text("")
    assert rules("docs", tmp_path / "file")[0] == 2


def test_a_reader_that_leaves_is_no_fault():
    done = subprocess.run(
        f"{sys.executable} -m attribution.cli.main rules list | head -1",
        shell=True, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stderr == ""


ENDLESS = """
from attribution.rule import Accumulated, Example, accumulator, filter_rule

class Endless:
    def __init__(self, line):
        self.line = line

    def feed(self, text):
        try:
            while "for ever" in text:
                pass
        except Exception:
            return True
        return False

    def result(self):
        return ()

@accumulator(name="endless", trigger="^this goes on", reads=("app",), example=Example(given=("this goes on",), expect=()))
def endless(fields, line):
    return Endless(line)

@filter_rule(name="also-endless", stage="LATE", example=Example(given=(), expect=()))
def also_endless(view):
    while view.attempt.cluster == "for ever":
        pass
    return ()
"""


@pytest.mark.parametrize("command", ["test", "analyze", "coverage"])
def test_a_rule_that_does_not_end_on_its_input_ends_the_command(rules, tmp_path, monkeypatch, capsys, command):
    monkeypatch.setattr("attribution.cli.watch.SECONDS", 0.4)
    site, case = tmp_path / "site", tmp_path / "case"
    site.mkdir()
    case.mkdir()
    (site / "x.py").write_text(ENDLESS)
    attempt = {"cluster": "for ever", "job_id": "1", "state": "FAILED", "nodes": ["n1"]}
    (case / "bundle.json").write_text(json.dumps({"schema": 1, "attempt": attempt, "sources": []}))
    if command == "test":
        answer = rules("test", "--rules", site, stdin=b"this goes on\nfor ever and ever\n")
    elif command == "coverage":
        answer = rules("coverage", case, "--rules", site)
    else:
        with pytest.raises(SystemExit) as raised:
            run(["analyze", str(case), "--rules", str(site)])
        answer = (raised.value.code, *capsys.readouterr())
    function = "feed" if command == "test" else "also_endless"
    assert answer == (2, "", f"sattrib: {site}/x.py: {function}: has not ended after 0.4 s of CPU on this input\n")


def test_a_text_without_end_is_refused(rules, monkeypatch, tmp_path):
    monkeypatch.setattr("attribution.cli.rules._MOST", 1000)
    assert rules("test", "/dev/zero") == (2, "", "sattrib: /dev/zero: is longer than 0 MiB: give a part of it\n")
    assert rules("test", stdin=b"x" * 1001)[0] == 2
    assert rules("test", tmp_path)[2] == f"sattrib: {tmp_path}: can't be read: Is a directory\n"
