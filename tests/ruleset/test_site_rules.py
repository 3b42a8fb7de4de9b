"""A site's own rules: what loads, what is refused, and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution import pipeline, ruleset
from attribution.errors import RuleError

GOOD = """
schema = 1
[[symptom]]
id = "site.leak"
says = "the site's cooling leaks"
domain = "hardware"
sub_domain = "power_thermal"
role = "root"
rank = 5
advice = "admin_first"
owner = "hw"
[[extractor]]
name = "site-leak"
match_re = '^coolantd: leak in rack (?P<rack>\\w+)'
emit = { type = "bad_node", symptom = "site.leak" }
reads = ["syslog"]
match = ["Mar  2 04:18:56 n1 coolantd: leak in rack r17"]
no_match = ["Mar  2 04:18:56 n1 coolantd: no leak in rack r17"]
"""


def load(tmp_path: Path, text: str, name: str = "site.toml"):
    folder = tmp_path / "rules.d"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return ruleset.load((folder,), samples=False)


def refused(tmp_path: Path, text: str, name: str = "site.toml") -> str:
    with pytest.raises(RuleError) as caught:
        load(tmp_path, text, name)
    return str(caught.value)


def test_a_good_file_loads_and_changes_the_hash(tmp_path):
    rules = load(tmp_path, GOOD)
    assert "site.leak" in rules.symptoms
    assert rules.hash != ruleset.load(samples=False).hash


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("^coolantd: leak in rack (?P<rack>\\w+)", "\\d+ \\w+"), "give `needles` or last_only"),
        (("^coolantd: leak in rack (?P<rack>\\w+)", "coolantd(?! ok)"), "look-around"),
        (("^coolantd: leak in rack (?P<rack>\\w+)", "coolantd(unclosed"), "does not parse: missing )"),
        (('match = ["Mar  2 04:18:56 n1 coolantd: leak in rack r17"]\n', ""), "needs at least one `match`"),
        (('no_match = ["Mar  2 04:18:56 n1 coolantd: no leak in rack r17"]\n', ""), "needs at least one `match`"),
        (("coolantd: leak in rack r17", "coolantd: fine"), "match sample 1 does not match"),
        (("coolantd: no leak in rack r17", "coolantd: leak in rack r18"), "no_match sample 1 matches"),
        (('symptom = "site.leak" }', 'symptom = "site.leek" }'), "symptom site.leek is not declared"),
        (('reads = ["syslog"]', 'reads = ["sylog"]'), "'sylog' is no source kind"),
        (("rank = 5", 'rank = "5"'), "Expected `int`"),
        (("rank = 5", "rank = 5\nrnak = 6"), "rnak"),
        (("rank = 5", "rank = 900"), "site.leak: rank 900 is not between 0 and 899"),
        (("rank = 5", "rank = -1"), "site.leak: rank -1 is not between 0 and 899"),
        (('role = "root"', 'role = "cause"'), "'cause' (known: cascade, context, root, teardown) - at `$.role`"),
        (('"bad_node"', '"bad"'), "'bad' (known: bad_node, bad_peers, info, interesting_node) - at `$.emit.type`"),
        (('owner = "hw"', 'owner = "hw"\nexplains = [{ symptom = "x", scope = "rack" }]'), "(known: gpu, job, node, pair)"),
        (
            ("coolantd: leak in rack r17", "coolantd: fine"),
            "match sample 1 does not match: 'Mar  2 04:18:56 n1 coolantd: fine', whose message is 'coolantd: fine'",
        ),
        (('name = "site-leak"', 'name = "xid"'), "used twice"),
        (("schema = 1", "schema = 2"), "schema = 2 is not known"),
        (("schema = 1", 'schema = 1\n[[extractr]]\nname = "x"'), "unknown key `extractr`"),
        (("schema = 1", "schema = = 1"), "not valid TOML"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_file_and_name(tmp_path, change, says):
    assert change[0] in GOOD
    message = refused(tmp_path, GOOD.replace(*change))
    assert says in message
    assert "site.toml" in message


def test_over_the_hit_budget_is_refused(tmp_path):
    common = "NCCL INFO"
    text = (
        GOOD.replace("^coolantd: leak in rack (?P<rack>\\w+)", common)
        .replace("coolantd: leak in rack r17", "NCCL INFO x")
        .replace("coolantd: no leak in rack r17", "nothing")
    )
    message = refused(tmp_path, text)
    assert "site-leak" in message
    assert "healthy lines" in message


def test_all_problems_at_once(tmp_path):
    broken = GOOD.replace("coolantd: leak in rack r17", "coolantd: fine")
    message = refused(
        tmp_path, broken + broken.split("schema = 1")[1].replace("site-leak", "Site Leak!").replace("site.leak", "site.leak2")
    )
    assert message.count("site.toml") >= 3


IMPORTED = r"""
[[extractor]]
name = "InjectedException"
match_re = 'inject_fault\.InjectedException'
emit = { type = "bad_node", symptom = "synthetic fault injection" }

[[extractor]]
name = "LookAround"
match_re = 'faults?(?=bar)'
emit = { type = "bad_node", symptom = "synthetic fault injection" }
"""


def case(tmp_path: Path, line: str) -> Path:
    folder = tmp_path / "bundle"
    folder.mkdir(exist_ok=True)
    (folder / "bundle.json").write_text(
        '{"schema": 1, "attempt": {"cluster": "c", "job_id": "1", "state": "FAILED", "exit_code": "1:0", "nodes": ["n1"]},'
        '"sources": [{"path": "a.log", "kind": "app", "node": "n1"}]}'
    )
    (folder / "a.log").write_text(line)
    return folder


def test_edge_sets_are_shared(tmp_path):
    shared = (
        GOOD.replace('owner = "hw"', 'owner = "hw"\nexplains_sets = ["noise"]')
        + '[[edge_set]]\nname = "noise"\nexplains = [{ symptom = "nccl.*" }]\n'
    )
    rules = load(tmp_path, shared)
    assert [e.symptom for e in rules.symptoms["site.leak"].explains] == ["nccl.*"]
    assert "no such edge_set" in refused(tmp_path, shared.replace('["noise"]', '["nosie"]'))


def test_an_imported_file_loads_with_a_warning_and_the_rest_of_it(tmp_path):
    rules = load(tmp_path, IMPORTED)
    assert any("imported file" in w for w in rules.warnings)
    assert any("LookAround: refused" in w for w in rules.warnings)
    assert "InjectedException" in rules.matchers
    assert rules.symptoms["synthetic fault injection"].domain == "unknown"


def test_an_imported_symptom_gets_its_place_by_symptom_map(tmp_path):
    folder = case(tmp_path, "nvidia_resiliency_ext.shared_utils.inject_fault.InjectedException: now\n")
    plain = pipeline.analyze_bundle(folder, rules=load(tmp_path, IMPORTED)).verdict
    assert (plain.verdict, plain.domain) == ("insufficient", "unknown")
    mapped = IMPORTED + '\n[symptom_map]\n"synthetic fault injection" = { domain = "application", sub_domain = "config" }\n'
    verdict = pipeline.analyze_bundle(folder, rules=load(tmp_path, mapped)).verdict
    assert (verdict.verdict, verdict.domain, verdict.sub_domain) == ("attributed", "application", "config")


def test_site_python_rules_are_checked_on_the_syntax_tree(tmp_path):
    for line in (
        "import os",
        "from subprocess import run",
        "from attribution import pipeline",
        "open('/etc/passwd')",
        "().__class__",
    ):
        message = refused(tmp_path, line + "\n", "site.py")
        assert "site.py" in message
        assert "line 1" in message


RULE = """
from attribution.rule import Demote, Example, event, filter_rule

@filter_rule(name="site-quiet", stage="LATE", example=Example(given=(event("gpu.off_bus"),), expect=(%s)))
def site_quiet(view):
    for e in view.of("gpu.off_bus"):
        yield Demote(event=e.id, reason="x")
"""


def test_a_python_rules_example_is_run(tmp_path):
    assert load(tmp_path, RULE % '"demote gpu.off_bus",', "site.py").python_rules("filter", "LATE")
    assert "site-quiet" in refused(tmp_path, RULE % "", "site.py")


def test_a_missing_directory_is_said(tmp_path):
    with pytest.raises(RuleError, match="no directory of rules"):
        ruleset.load((tmp_path / "nowhere",))


def test_rules_do_not_depend_on_the_directory_order(tmp_path):
    folder = tmp_path / "rules.d"
    folder.mkdir()
    (folder / "b.toml").write_text(GOOD)
    (folder / "a.toml").write_text(
        'schema = 1\n[[symptom]]\nid = "site.z"\nsays = "z"\ndomain = "storage"\nsub_domain = "quota"\nrole = "context"\nrank = 9\nadvice = "ask"\nowner = "fs"\n'
    )
    first, second = ruleset.load((folder,), samples=False), ruleset.load((folder,), samples=False)
    assert first.hash == second.hash
    assert list(first.symptoms) == list(second.symptoms)


def test_bundled_files_are_taken_as_checked_and_a_sites_never_are(tmp_path):
    broken = GOOD.replace("rack r17", "rack").replace("(?P<rack>", "(?P<rack>\\\\Z")
    bundled, site = tmp_path / "bundled", tmp_path / "rules.d"
    bundled.mkdir()
    site.mkdir()
    (bundled / "a.toml").write_text(broken)
    assert ruleset.load(bundled=bundled, samples=False).symptoms
    with pytest.raises(RuleError, match="site-leak"):
        ruleset.load(bundled=bundled)
    (bundled / "a.toml").unlink()
    (site / "a.toml").write_text(broken)
    with pytest.raises(RuleError, match="site-leak"):
        ruleset.load((site,), bundled=bundled, samples=False)


def test_a_pattern_is_compiled_when_a_line_asks_for_it(monkeypatch):
    def refuse(pattern: str):
        raise AssertionError(pattern)

    monkeypatch.setattr("attribution.ruleset.build.compile_pattern", refuse)
    monkeypatch.setattr("attribution.engine.rules.compile_pattern", refuse)
    assert ruleset.load(samples=False).matchers


def test_sessions_share_the_prefilter_of_a_kind():
    rules = ruleset.load(samples=False)
    assert rules.prefilter("app") is rules.prefilter("app")
    assert rules.prefilter("app") is not rules.prefilter("kern")


def test_also_needs_a_known_kind(tmp_path):
    assert load(tmp_path, GOOD.replace("reads =", 'also = { tag = "any daemon says it" }\nreads ='))
    assert "also" in refused(tmp_path, GOOD.replace("reads =", 'also = { anything = "it is so" }\nreads ='))


def test_the_same_fault_of_many_symptoms_is_said_once(tmp_path):
    edge = 'explains = [{ symptom = "gone.*" }]\n'
    head, rest = GOOD.split("[[extractor]]")
    several = [head.replace("schema = 1", "").replace("site.leak", f"site.leak{n}") + edge for n in range(5)]
    message = refused(
        tmp_path, "schema = 1\n" + head.replace("schema = 1", "") + edge + "".join(several) + "[[extractor]]" + rest
    )
    assert message.splitlines() == [f"{tmp_path}/rules.d/site.toml: site.leak (and 5 more): explains gone.*: no such symptom"]


def test_a_sample_that_only_quotes_says_so(tmp_path):
    quoting = GOOD.replace('["syslog"]', '["app"]').replace("^coolantd", "coolantd").replace("Mar  2 04:18:56 n1 ", "+ ")
    assert "it is read as quoted text (a comment" in refused(tmp_path, quoting)


FAMILY = """
schema = 1
[[family]]
template = { name = "mount-%fs%", match_re = "%fs%: lost the server of %what%", reads = ["syslog"], emit = { type = "bad_node", symptom = "fs.%fs%" } }
symptom = { id = "fs.%fs%", says = "%fs%%more%", domain = "storage", sub_domain = "quota", role = "root", rank = 7, advice = "ask", owner = "fs" }
member = [{ fs = "scratch", what = "files", more = "", match = ["scratch: lost the server of files"], no_match = ["100 %more% x"] }]
"""


@pytest.mark.parametrize(
    ("gone", "says"), [('what = "files", ', "the template needs %what%"), ('more = "", ', "the template needs %more%")]
)
def test_a_member_gives_what_its_template_needs(tmp_path, gone, says):
    assert load(tmp_path, FAMILY).symptoms["fs.scratch"]
    message = refused(tmp_path, FAMILY.replace(gone, ""))
    assert message.startswith(f"{tmp_path}/rules.d/site.toml: mount-")
    assert says in message


CATALOG = r"""
schema = 1
[[catalog]]
name = "cdu"
match_re = '^coolantd: fault (?P<key>F\d+)'
reads = ["syslog"]
table = "cdu.csv"
key = "code"
symptom = "cdu.%short%"
says = "%text%"
defaults = { domain = "hardware", sub_domain = "power_thermal", role = "root", rank = 60, advice = "ask", owner = "hw" }
match = ["coolantd: fault F12"]
no_match = ["coolantd: fault cleared"]
"""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("(?P<key>", "("), "match_re needs a group named key: (?P<key>...)"),
        (("%short%", "%shrt%"), "cdu.csv has no column `shrt`"),
        (
            ("%short%", "%code%"),
            "cdu.csv line 2: symptom 'cdu.F12' is not lower-case words (domain.name): use a lower-case column for it",
        ),
    ],
)
def test_a_wrong_catalog_is_one_line(tmp_path, change, says):
    folder = tmp_path / "rules.d"
    folder.mkdir()
    (folder / "cdu.csv").write_text("code,short,text\nF12,leak,a leak\n")
    (folder / "a.py").write_text((RULE % "").replace("gpu.off_bus", "cdu.leak"))
    lines = refused(tmp_path, CATALOG.replace(*change)).splitlines()
    assert lines == [
        f"{folder}/a.py: its examples name symptoms that are not declared: put the .toml files right first",
        f"{folder}/site.toml: cdu: {says}",
    ]
