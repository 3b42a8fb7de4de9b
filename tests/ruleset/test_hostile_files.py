"""Rule directories that someone made on purpose: one clear line for each fault, soon, in bounded memory."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from attribution import ruleset
from attribution.errors import RuleError

SYMPTOM = """
[[symptom]]
id = "{id}"
says = "x"
domain = "application"
sub_domain = "config"
role = "root"
rank = 5
advice = "ask"
owner = "user"
"""
RULE = """
[[extractor]]
name = "{name}"
match_re = '{pattern}'
emit = {{ type = "bad_node", symptom = "site.x" }}
reads = ["app"]
match = ["{match}"]
no_match = ["nothing"]
"""
CATALOG = """schema = 1
[[catalog]]
name = "codes"
match_re = '^FATAL ERROR (?P<key>[0-9]+)'
reads = ["app"]
table = '{table}'
key = "code"
symptom = "site.code_%code%"
says = "%says%"
defaults = {{ domain = "application", sub_domain = "config", role = "root", rank = 5, advice = "ask", owner = "user" }}
match = ["FATAL ERROR 1"]
no_match = ["FATAL ERROR"]
"""


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "rules.d"
    found.mkdir()
    return found


@pytest.fixture
def load(tmp_path, folder):
    bundled = tmp_path / "bundled"
    (bundled / "healthy").mkdir(parents=True)
    return lambda: ruleset.load((folder,), bundled=bundled)


@pytest.fixture
def refused(load):
    def call() -> list[str]:
        began = time.process_time()
        with pytest.raises(RuleError) as caught:
            load()
        assert time.process_time() - began < 30
        return str(caught.value).splitlines()

    return call


def file_of(*, symptom: str = "site.x", name: str = "site-x", pattern: str = "^FATAL ERROR", match: str = "FATAL ERROR") -> str:
    return "schema = 1\n" + SYMPTOM.format(id=symptom) + RULE.format(name=name, pattern=pattern, match=match)


def test_the_file_that_the_others_are_made_of_is_good(folder, load):
    (folder / "x.toml").write_text(file_of())
    (folder / ".x.toml").write_text("=")
    (folder / "notes.txt").write_bytes(b"\xff")
    assert load().extractors


@pytest.mark.parametrize("suffix", ["toml", "py", "csv"])
def test_what_is_no_regular_file_is_said(folder, refused, suffix):
    os.mkfifo(folder / f"fifo.{suffix}")
    (folder / f"folder.{suffix}").mkdir()
    (folder / f"loop.{suffix}").symlink_to(f"loop.{suffix}")
    (folder / f"gone.{suffix}").symlink_to("nowhere")
    (folder / f"null.{suffix}").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / f"sock.{suffix}"))
        assert [line.removeprefix(f"{folder}/") for line in refused()] == [
            f"fifo.{suffix}: is no regular file, though named like a rule file",
            f"folder.{suffix}: is a directory, though named like a rule file",
            f"gone.{suffix}: can't be read: No such file or directory",
            f"loop.{suffix}: can't be read: Too many levels of symbolic links",
            f"null.{suffix}: is no regular file, though named like a rule file",
            f"sock.{suffix}: can't be read: No such device or address",
        ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"schema = 1\nx = '\0'", "is not valid TOML"),
        (b"x = " + b"[" * 50_000, "is nested too deeply"),
        (b"x" + b".x" * 100_000 + b" = 1", "x.toml: "),
        (b"x = " + b"9" * 10_000, "is not valid TOML"),
        (b"#" * (2 << 20), "is larger than 1 MiB"),
        (b"schema = 1\nx = '" + b"x" * 900_000 + b"'", "is longer than 16384"),
        (b"schema = 1\nx = 1\nx = 2", "is not valid TOML"),
    ],
)
def test_a_broken_file_is_one_line(folder, refused, content, says, monkeypatch):
    monkeypatch.setattr("attribution.ruleset.build.FILE_SECONDS", 1.0)
    (folder / "x.toml").write_bytes(content)
    [line] = refused()
    assert line.startswith(f"{folder}/x.toml: ")
    assert says in line


def test_a_sparse_file_and_one_of_the_kernels(folder, refused):
    with (folder / "a.toml").open("wb") as file:
        file.truncate(1 << 40)
    (folder / "b.toml").symlink_to("/proc/kmsg")
    (folder / "c.toml").symlink_to("/proc/self/environ")
    assert len(refused()) == 3


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "[red]x[/red]", "x" * 10_000, "\u202ex", "", "A b"])
def test_a_name_that_is_none_is_one_line(folder, refused, name):
    quoted = name.replace("\n", "\\n").replace("\x1b", "\\u001b")
    (folder / "x.toml").write_text(file_of(name=quoted))
    assert all(line.isprintable() and line.startswith(f"{folder}/x.toml: ") for line in refused())
    (folder / "x.toml").write_text(file_of().replace("site.x", f"site.{quoted}"))
    assert all(line.isprintable() and len(line) < 1000 for line in refused())


def test_a_file_name_with_a_newline_is_one_line(folder, refused):
    (folder / "a\nb.toml").write_text("=")
    (folder / os.fsdecode(b"\xff.toml")).write_text("=")
    assert len(refused()) == 2


def test_says_is_one_line_of_visible_signs(folder, refused):
    (folder / "x.toml").write_text(file_of().replace('says = "x"', 'says = "a\\u001b[31mb"'))
    assert any("visible characters" in line for line in refused())


@pytest.mark.parametrize(
    "pattern",
    [
        r"abcd(?:\pL{1,100}){1,5}", r"abcd(?:a{1000}){1000}", r"abcd\pL{1000}", "abcd" + "(?:" * 2000 + "x" + ")" * 2000,
        "abcd" + "(?:x|" * 2000 + "y" + ")" * 2000, "(?P<a>abcd)(?P<a>x)", "abcd[", "abcd\\C{1000}{1000}",
    ],
)  # fmt: skip
def test_a_pattern_that_needs_too_much_is_refused(folder, refused, pattern):
    (folder / "x.toml").write_text(file_of(pattern=pattern, match="abcd"))
    lines = refused()
    assert any("site-x: match_re: " in line for line in lines), lines
    assert len(lines) <= 2


def test_many_patterns_that_need_much(folder, refused, monkeypatch):
    monkeypatch.setattr("attribution.ruleset.build.MOST_INSTRUCTIONS", 100)
    rules = "".join(RULE.format(name=f"r{n}", pattern="abcd[a-f]{20}", match="abcd" + "a" * 20) for n in range(1000))
    (folder / "x.toml").write_text("schema = 1\n" + SYMPTOM.format(id="site.x") + rules)
    assert any("all patterns together" in line for line in refused())


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr("attribution.ruleset.build.MOST_RULES", 1000)


def test_more_rules_than_any_site_has(folder, refused, few):
    for part in range(3):
        rules = "".join(RULE.format(name=f"r{part}-{n}", pattern="^FATAL ERROR", match="FATAL ERROR") for n in range(2000))
        (folder / f"{part:02}.toml").write_text("schema = 1\n" + rules)
    lines = refused()
    assert len(lines) <= 3 * 51
    assert any("there are more than 1000 rules" in line for line in lines)


def test_a_family_of_a_million(folder, refused, few):
    head = "schema = 1\n" + SYMPTOM.format(id="site.x")
    template = "[[family]]\ntemplate = { name = 'f-%k%', match_re = 'FATAL %k%', emit = { type = 'info', symptom = 'site.x' }, reads = ['app'] }\n"
    members = "".join(f"[[family.member]]\nk='{n}'\n" for n in range(30_000))
    (folder / "x.toml").write_text(head + template + members)
    lines = refused()
    assert len(lines) <= 51
    # Each value put into each other one would grow beyond any memory.
    grows = (
        "[[family]]\ntemplate = { name = '%a%' }\nmember = [{ a = '"
        + "%b%" * 5000
        + "', b = '"
        + "%c%" * 5000
        + "', c = 'x' }]\n"
    )
    (folder / "x.toml").write_text(head + grows)
    assert "makes a text longer than 16384" in refused()[0]


def test_a_members_misspelt_key_is_refused(folder, refused):
    text = "schema = 1\n" + SYMPTOM.format(id="site.x")
    text += "[[family]]\ntemplate = { name = 'f-%k%', match_re = 'FATAL %k%', emit = { type = 'info', symptom = 'site.x' }, reads = ['app'] }\n"
    text += "[[family.member]]\nk = 'one'\nunles_re = 'maintenance'\nmatch = ['FATAL one']\nno_match = ['FATAL']\n"
    (folder / "x.toml").write_text(text)
    assert "nothing uses unles_re" in refused()[0]


def test_a_file_of_ours_without_its_schema_is_no_imported_one(folder, refused):
    (folder / "x.toml").write_text(file_of().replace("schema = 1", ""))
    assert "`schema = 1` is missing" in refused()[0]


def test_a_directory_that_is_none_of_rules(folder, refused, monkeypatch):
    monkeypatch.setattr("attribution.ruleset.folder.MOST_ENTRIES", 10)
    for number in range(20):
        (folder / f"{number}.txt").write_text("")
    assert "holds more than 10 files: is it a directory of rules?" in refused()[0]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("../outside.csv", "leaves the rule directory"),
        ("/etc/passwd", "leaves the rule directory"),
        ("a/../../outside.csv", "leaves the rule directory"),
        ("link.csv", "is a link that leaves the rule directory"),
        ("gone.csv", "is no .csv file of this rule directory"),
        ("table.txt", "is no .csv file of this rule directory"),
        (".hidden.csv", "is no .csv file of this rule directory"),
        ("", "is no .csv file of this rule directory"),
        ("x\u0000.csv", "x.toml"),
    ],
)
def test_a_table_outside_of_the_rule_directory_is_refused(tmp_path, folder, refused, table, says):
    for path in (tmp_path / "outside.csv", folder / "table.txt", folder / ".hidden.csv"):
        path.write_text("code,says\n1,one\n")
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")
    (folder / "x.toml").write_text(CATALOG.format(table=table).replace("\0", "\\u0000"))
    [line] = refused()
    assert says in line
    assert "1,one" not in line


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"code,says\n1,one\n1,two\n", "line 3: key 1 is there twice"),
        (b"code,says\n1,one\n01,two\n", "line 3: key 1 is there twice"),
        (b"number,says\n1,one\n", "has no column 'code', the key"),
        (b"code,says,says\n1,one,two\n", "has the column 'says' twice"),
        (b"code,says\n1,one,two\n", "line 2 has more cells than"),
        (b"code,says\n1,o\0ne\n", "NUL"),
        (b"code,says\n1,\xff\n", "is not a UTF-8 CSV"),
        (b"code,says\n1," + b"x" * 200_000 + b"\n", "field larger than"),
        (b"code,says\n1," + b"x" * 20_000 + b"\n", "has a cell longer than"),
        (b'code,says\n1,"one\n', "unexpected end of data"),
        (b"code,says,rank\n1,one,first\n", "line 2: "),
        (b"code,says\n" + b"1,one\n" * 30_000, "more problems"),
        (b"code,says\n" + b"".join(b"%d,one\n" % n for n in range(3_000)), "more than 1000 rules"),
        (b"x" * (2 << 20), "is larger than 1 MiB"),
        (b"", "has no column 'code'"),
    ],
)  # fmt: skip
def test_a_broken_table_is_said_with_its_line(folder, refused, few, content, says):
    (folder / "x.toml").write_text(CATALOG.format(table="t.csv"))
    (folder / "t.csv").write_bytes(content)
    lines = refused()
    assert any(says in line for line in lines), lines
    assert len(lines) <= 51


@pytest.mark.parametrize(
    "change",
    ['explains = [{ symptom = "site.x", within = nan }]', 'explains = [{ symptom = "site.x", within = -1.0 }]', "rank = 99999999999999999999"],
)  # fmt: skip
def test_numbers_have_ranges(folder, refused, change):
    text = file_of().replace("rank = 5\n", "") if change.startswith("rank") else file_of()
    (folder / "x.toml").write_text(text.replace('owner = "user"', f'owner = "user"\n{change}'))
    assert len(refused()) <= 2


def test_root_and_the_units_load_only_what_root_wrote(folder, load, refused, monkeypatch):
    (folder / "x.toml").write_text(file_of())
    monkeypatch.setattr("attribution.ruleset.folder.trusts_only_root", lambda: True)
    assert load().extractors
    (folder / "x.toml").chmod(0o666)
    assert refused() == [f"{folder}/x.toml: is writable by others: chmod go-w"]
    (folder / "x.toml").chmod(0o644)
    folder.chmod(0o777)
    assert refused() == [f"{folder}/x.toml: has the parent {folder}, which is writable by others: chmod go-w"]


def test_the_bundled_rules_are_not_asked_for_their_owner(tmp_path, monkeypatch):
    monkeypatch.setattr("attribution.ruleset.folder.trusts_only_root", lambda: True)
    (tmp_path / "x.toml").write_text(file_of())
    (tmp_path / "x.toml").chmod(0o666)
    (tmp_path / "healthy").mkdir()
    assert ruleset.load(bundled=Path(tmp_path)).extractors


@pytest.mark.parametrize("needle", ["\\u001b[31m", "a\\tbcd", "\u00e9\u00e9\u00e9\u00e9", "abc"])
def test_a_needle_is_visible_ascii(folder, refused, needle):
    (folder / "x.toml").write_text(file_of().replace("reads =", f'needles = ["{needle}"]\nreads ='), encoding="utf-8")
    assert any("needles must be visible ASCII" in line for line in refused())
