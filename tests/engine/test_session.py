"""Text in, verdict out: folding, accumulators, bounded memory, hostile lines."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tools import attempt, bundle, line_rule, rule_set, symptom

from attribution.bundle import Source
from attribution.engine.lines import parse
from attribution.engine.rules import Metric
from attribution.engine.select import as_text, select
from attribution.engine.session import Session
from attribution.model import Coverage
from attribution.rule import Accumulated, Example, PythonRule

LOST = symptom("gpu.lost", rank=10, explains=["app.error"], drains=True)
ERROR = symptom("app.error", "application", rank=60)
TRACE = symptom("app.trace", "application", rank=80, beats=[])
RULES = rule_set(
    LOST, ERROR, TRACE,
    extractors=(
        line_rule("lost", r"^NVRM: GPU (?P<gpu>\S+) is lost", "gpu.lost", ("is lost",), ("kern", "dmesg")),
        line_rule("error", r"^RuntimeError: (?P<what>.*)", "app.error", ("runtimeerror",)),
    ),
)  # fmt: skip


def attribute(rules, given_bundle, texts, **more):
    session = Session(rules, given_bundle, **more)
    for path, text in texts.items():
        session.ingest(path, text if isinstance(text, bytes) else text.encode(), last=True)
    return session.attribute(explain=True)


def test_two_sources_one_cause():
    case = bundle(Source(path="k", kind="kern", node="n1"), Source(path="a", kind="app", node="n2"))
    verdict = attribute(RULES, case, {"k": "NVRM: GPU 0000:3b:00.0 is lost\n", "a": "RuntimeError: boom\n"})
    assert (verdict.verdict, verdict.domain, verdict.responsible_nodes) == ("attributed", "hardware", ("n1",))
    assert [d.symptom for d in verdict.demoted] == ["app.error"]
    assert verdict.drain_suggestions[0].node == "n1"
    assert "State=DRAIN" in verdict.drain_suggestions[0].command


def test_a_forged_kernel_line_in_application_output_blames_nobody():
    case = bundle(Source(path="a", kind="app", node="n2"), attempt=attempt(nodes=("n2",)))
    verdict = attribute(RULES, case, {"a": "NVRM: GPU 0000:3b:00.0 is lost\n[rank0]: NVRM: GPU 0000:3b:00.0 is lost\n"})
    assert verdict.responsible_nodes == ()
    assert verdict.domain == "unknown"


def test_repeated_lines_fold_into_one_event():
    case = bundle(Source(path="k", kind="kern", node="n1"))
    text = "".join(f"Mar  2 04:18:{i % 60:02d} n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\n" for i in range(5000))
    verdict = attribute(RULES, case, {"k": text})
    (seen,) = verdict.symptoms
    assert seen.count == 5000
    assert len(seen.evidence) <= 3


def test_a_fold_never_crosses_ten_minutes_of_silence():
    case = bundle(Source(path="k", kind="kern", node="n1"))
    lines = (
        "Mar  2 04:18:00 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\nMar  2 04:40:00 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\n"
    )
    verdict = attribute(RULES, case, {"k": lines})
    assert len([t for t in verdict.trail if t.stage == "EXTRACT" and t.symptom == "gpu.lost"]) == 2


def test_distinct_lines_are_bounded_and_the_rest_is_counted():
    case = bundle(Source(path="a", kind="app", node="n1"))
    verdict = attribute(RULES, case, {"a": "".join(f"RuntimeError: number {i}\n" for i in range(3000))})
    (cover,) = [c for c in verdict.coverage if c.source == "a"]
    assert cover.state == "partial"
    assert "2800 further distinct lines" in cover.reason
    assert cover.cut == ("error",)


@pytest.mark.parametrize("size", [1, 3, 7, 64, 100_000])
def test_blocks_of_any_size_give_the_same_verdict(size):
    case = bundle(Source(path="k", kind="kern", node="n1"), Source(path="a", kind="app", node="n2"))
    kern = b"Mar  2 04:18:00 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\nnothing\nno newline at the end: NVRM"
    session = Session(RULES, case)
    for at in range(0, len(kern), size):
        session.ingest("k", kern[at : at + size])
    session.ingest("k", b"", last=True)
    session.ingest("a", b"RuntimeError: boom", last=True)
    whole = attribute(RULES, case, {"k": kern, "a": "RuntimeError: boom"})
    assert msgspec.json.encode(session.attribute(explain=True)) == msgspec.json.encode(whole)


def test_attribute_changes_nothing_and_ingest_may_go_on():
    case = bundle(Source(path="k", kind="kern", node="n1"), Source(path="a", kind="app", node="n2"))
    session = Session(RULES, case)
    session.ingest("a", b"RuntimeError: boom\n", last=True)
    first = session.attribute()
    assert first.domain == "application"
    assert session.attribute() == first
    session.ingest("k", b"NVRM: GPU 0000:3b:00.0 is lost\n", last=True)
    assert session.attribute().domain == "hardware"


class Collect:
    def __init__(self):
        self.taken = []

    def feed(self, text):
        self.taken.append(text)
        return text.startswith(" ")

    def result(self):
        yield Accumulated(symptom="app.trace", fields={"lines": str(len(self.taken))})


def accumulating(function):
    rule = PythonRule(
        kind="accumulator", name="trace", stage="", function=function, example=Example(given=(), expect=()),
        trigger=r"^Traceback", needles=("traceback",), reads=("app",),
    )  # fmt: skip
    return rule_set(ERROR, TRACE, extractors=RULES.extractors[:1], python=(rule,))


def test_an_accumulator_is_fed_its_own_rank_only():
    rules = accumulating(lambda fields, line: Collect())
    text = "[rank1]: Traceback\n[rank2]: other\n[rank1]:   File 1\n[rank2]: Traceback\n[rank1]:   File 2\n[rank1]: Error: x\n[rank2]:   File\n"
    verdict = attribute(rules, bundle(Source(path="a", kind="app", node="n1")), {"a": text})
    said = {t.what for t in verdict.trail if t.stage == "EXTRACT"}
    assert said == {"app.trace (bad_node, 1x)"}
    assert {r for s in verdict.symptoms for r in s.ranks} == {1, 2}


def test_a_crash_of_a_rule_is_a_diagnostic():
    def crash(fields, line):
        raise KeyError("oops")

    verdict = attribute(
        accumulating(crash), bundle(Source(path="a", kind="app", node="n1")), {"a": "Traceback\nRuntimeError: x\n"}
    )
    assert [d.rule for d in verdict.diagnostics] == ["trace"]
    assert verdict.domain == "application" or verdict.verdict == "insufficient"


def test_ranks_find_their_node_through_lines_that_name_both():
    case = bundle(Source(path="a", kind="app", node="login1"))
    text = "3: n2:55:66 [0] NCCL WARN RuntimeError: x\n[rank3]: RuntimeError: y\n"
    verdict = attribute(RULES, case, {"a": text})
    assert {n for s in verdict.symptoms for n in s.nodes} == {"n2"}


def test_a_rank_that_two_nodes_claim_belongs_to_neither():
    case = bundle(Source(path="a", kind="app", node="login1"))
    text = "3: n2:55:66 [0] RuntimeError: x\n3: n1:55:66 [0] RuntimeError: x2\n[rank3]: RuntimeError: y\n"
    verdict = attribute(RULES, case, {"a": text})
    assert all("y" not in e.text or e.node in (None, "login1") for s in verdict.symptoms for e in s.evidence)


def test_an_unread_source_lowers_confidence_and_is_named():
    case = bundle(Source(path="a", kind="app", node="n1"), attempt=attempt(nodes=("n1",)))
    verdict = attribute(RULES, case, {"a": "RuntimeError: x\n"})
    assert [m for m in verdict.missing if "kernel log of n1" in m]
    assert {c.source for c in verdict.could_change} == {"kernel log of n1"}
    assert verdict.would_flip is not None
    assert verdict.would_flip.domain == "hardware"


def test_a_source_that_could_not_be_read_is_coverage():
    case = bundle(Source(path="a", kind="app", node="n1"))
    session = Session(RULES, case)
    session.could_not_read(Coverage(source="a", kind="app", state="denied", reason="permission denied"))
    assert [c.state for c in session.attribute().coverage if c.source == "a"] == ["denied"]


HOSTILE = [
    b"RuntimeError: " + b"x" * 1_000_000 + b"\n",
    b"RuntimeError: \x00\x00 NUL\n",
    b"RuntimeError: \xff\xfe broken\n",
    b"RuntimeError: \x1b[31mred\x1b[0m [bold]markup[/]\n",
    b"RuntimeError: " + b"(a+)+" * 500 + b"\n",
    b"9999-12-31T23:59:59Z RuntimeError: the future\n",
    b"[rank99999999999999999999]: RuntimeError: rank\n",
    b"RuntimeError: x" * 20_000,
    "RuntimeError: \u202e\u200b bidi\n".encode(),
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_neither_crash_nor_blame(line):
    case = bundle(Source(path="a", kind="app", node="n1"), Source(path="k", kind="kern", node="n2"))
    verdict = attribute(RULES, case, {"a": line, "k": line})
    assert verdict.responsible_nodes == ()
    msgspec.json.encode(verdict)


@given(st.binary(max_size=400))
def test_any_bytes_attribute(data):
    case = bundle(Source(path="a", kind="app", node="n1"), Source(path="k", kind="kern", node="n2"))
    msgspec.json.encode(attribute(RULES, case, {"a": data, "k": b"NVRM: " + data}))


def flooded(make, count=6000):
    case = bundle(Source(path="k", kind="kern", node="n1"))
    lines = [f"Mar  2 04:{i // 1000:02d}:{i // 20 % 50:02d} n1 kernel: {make(i)}" for i in range(count)]
    return case, "\n".join(lines) + "\n"


def test_a_flood_of_one_line_is_counted_to_the_last():
    case, text = flooded(lambda i: "NVRM: GPU 0000:3b:00.0 is lost")
    verdict = attribute(RULES, case, {"k": text})
    assert sum(s.count for s in verdict.symptoms) == 6000
    assert verdict.symptoms[0].evidence[-1].line == 6000


def test_another_fault_inside_a_flood_is_seen():
    case, text = flooded(lambda i: "NVRM: GPU 0000:86:00.0 is lost" if i == 3333 else f"NVRM: GPU 0000:3b:00.0 is lost #{i}")
    verdict = attribute(RULES, case, {"k": text})
    assert any("0000:86" in t.what or t.line == 3334 for t in verdict.trail if t.stage == "EXTRACT")


@pytest.mark.parametrize("fast", [False, True])
def test_floods_give_the_same_with_either_prefilter(fast):
    case, text = flooded(lambda i: f"NVRM: GPU 0000:3b:00.0 is lost {i % 29}")
    verdict = attribute(RULES, case, {"k": text}, fast=fast)
    assert sum(s.count for s in verdict.symptoms) == 6000
    (cover,) = [c for c in verdict.coverage if c.source == "k"]
    assert cover.lines == 6000


def test_a_line_of_one_node_in_another_nodes_log_blames_neither():
    for kind in ("syslog", "kern", "journal"):
        case = bundle(Source(path="k", kind=kind, node="n2"))
        rules = rule_set(
            LOST, extractors=(line_rule("lost", r"^NVRM: GPU (?P<gpu>\S+) is lost", "gpu.lost", ("is lost",), (kind,)),)
        )
        verdict = attribute(rules, case, {"k": "Mar  2 04:18:00 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\n"})
        assert verdict.responsible_nodes == ()
        assert verdict.drain_suggestions == ()
        assert [d.rule for d in verdict.demoted] == ["node"]


def test_the_last_year_of_the_calendar_does_not_crash():
    case = bundle(
        Source(path="k", kind="kern", node="n1"),
        attempt=attempt(start="9999-12-31T23:50:00Z", end="9999-12-31T23:59:59Z"),
    )
    attribute(RULES, case, {"k": "Mar  2 04:18:00 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\n"})


def test_what_a_source_keeps_is_bounded_whatever_stands_in_it(monkeypatch):
    monkeypatch.setattr("attribution.engine.session.MOST_APP", 2000)
    case = bundle(Source(path="a", kind="app", node="n1"), Source(path="k", kind="kern", node="n1"))
    ranks = "".join(f"[rank{i}]: RuntimeError: number {i}\n" for i in range(9000))
    late = "NVRM: GPU 0000:3b:00.0 is lost\n"
    verdict = attribute(RULES, case, {"a": ranks, "k": late})
    kept = [t for t in verdict.trail if t.stage == "EXTRACT" and t.symptom == "app.error"]
    assert 2000 <= len(kept) <= 2100
    (cover,) = [c for c in verdict.coverage if c.source == "a"]
    assert (cover.state, cover.cut) == ("partial", ("error",))
    assert str(9000 - 2000 - 20) in cover.reason
    assert verdict.responsible_nodes == ("n1",)


def test_a_flood_of_one_kind_leaves_room_for_another(monkeypatch):
    monkeypatch.setattr("attribution.engine.session.MOST_OTHER", 1000)
    rules = rule_set(
        LOST,
        symptom("gpu.noise", role="context"),
        extractors=(
            line_rule("lost", r"^NVRM: GPU (?P<gpu>\S+) is lost", "gpu.lost", ("is lost",), ("kern",)),
            line_rule("noise", r"^noise of (?P<rank>\d+)", "gpu.noise", ("noise of",), ("kern",)),
        ),
    )
    text = "".join(f"[rank{i}]: noise of {i}\n" for i in range(5000)) + "NVRM: GPU 0000:3b:00.0 is lost\n"
    verdict = attribute(rules, bundle(Source(path="k", kind="kern", node="n1")), {"k": text})
    assert verdict.responsible_nodes == ("n1",)


@pytest.mark.parametrize(
    ("line", "sure"),
    [
        ("Mar 02 04:18:00 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost", True),
        ("Mar 02 04:18:00 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost[4711]: hello", False),
        ("                    n1 kernel: NVRM: GPU 0000:3b:00.0 is lost", False),
        ("NVRM: GPU 0000:3b:00.0 is lost", False),
    ],
)
def test_a_journal_is_trusted_where_only_the_kernel_can_have_written_the_line(line, sure):
    """Journald prints the pid of whoever sent a message, also after a tag that imitates the kernel's."""
    rules = rule_set(
        LOST, extractors=(line_rule("lost", r"NVRM: GPU (?P<gpu>\S+?) is lost", "gpu.lost", ("is lost",), ("journal",)),)
    )
    verdict = attribute(rules, bundle(Source(path="j", kind="journal", node="n1")), {"j": line + "\n"})
    (drain,) = verdict.drain_suggestions
    assert bool(drain.confirm) is not sure
    assert (verdict.confidence == "high") is sure


PIECES = (
    "nothing to see\n" * 45,
    "nothing to see\n" * 7,
    "Mar  2 04:18:00 n1 kernel: usb 1-1: new device\n",
    "Mar  2 04:18:01 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\n",
    "NVRM: GPU 0000:3b:00.0 is lost\n",
    "NVRM: GPU 0000:4c:00.0 is lost\n",
    "Mar  2 04:40:00 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\n" * 3,
    "x" * 9000 + "\n",
    "2026-03-02T04:20:00Z n1 kernel: fine\n",
    " 45%|####      | 45/100 [00:12<00:15]\r" * 3 + "NVRM: GPU 0000:3b:00.0 is lost\n",
    "NVRM: GPU 0000:4c:00.0 is lost\r\rNVRM: GPU 0000:3b:00.0 is lost\r\n",
    "Mar  2 04:18:01 n1 kernel: NVRM: GPU 0000:3b:00.0 is lost\r" * 3,
    " 45%|####      | 45/100 [00:12<00:15]\r" * 3 + "RuntimeError: a\rRuntimeError: a\n",
    "RuntimeError: b\r2026-03-02T04:20:00Z RuntimeError: a\nRuntimeError: a\n",
)


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(1, 700), min_size=1, max_size=6))
@example([PIECES[0]] * 3 + [PIECES[6]] * 2 + [PIECES[3]], [82])
@example([PIECES[9], PIECES[12]], [82])
@example([PIECES[6]] * 2 + [PIECES[3]], [10])
def test_where_blocks_end_changes_nothing(pieces, sizes):
    text = "".join(pieces).encode()
    for kind in ("kern", "app"):
        case = bundle(Source(path="k", kind=kind, node="n1"))
        session, at, turn = Session(RULES, case), 0, 0
        while at < len(text):
            size = sizes[turn % len(sizes)]
            session.ingest("k", text[at : at + size])
            at, turn = at + size, turn + 1
        session.ingest("k", b"", last=True)
        whole = attribute(RULES, case, {"k": text})
        assert msgspec.json.encode(session.attribute(explain=True)) == msgspec.json.encode(whole)


BAR = "Epoch 1:  45%|####      | 450/1000 [00:12<00:15, 35.1it/s]"


def test_what_stands_behind_a_progress_bar_is_read_however_long_the_bars_are():
    """A job's bars are one line of any length; what another program prints next is that line's end."""
    text = "start\n" + (BAR + "\r") * 60_000 + BAR + "RuntimeError: one\nRuntimeError: two\n"
    case = bundle(Source(path="k", kind="app", node="n1"))
    found = []
    for size in (len(text), 1 << 20, 70_001):
        session = Session(RULES, case)
        for at in range(0, len(text), size):
            session.ingest("k", text[at : at + size].encode())
        session.ingest("k", b"", last=True)
        found.append(session.attribute(explain=True))
    assert found[0] == found[1] == found[2]
    (one,) = found[0].symptoms
    assert one.count == 2
    assert [(e.line, e.text[-30:]) for e in one.evidence] == [
        (2, "RuntimeError: one"),
        (3, "RuntimeError: two"),
    ]
    assert [c.lines for c in found[0].coverage if c.source == "k"] == [3]


@pytest.mark.parametrize(
    ("text", "body", "rank"),
    [
        (BAR + "slurmstepd: error: gone", "slurmstepd: error: gone", None),
        (BAR + BAR + "[rank3]: Traceback (most recent call last):", "Traceback (most recent call last):", 3),
        ("12: " + BAR + "RuntimeError: x", "RuntimeError: x", 12),
        ("450it [00:12, 35.1it/s]RuntimeError: x", "RuntimeError: x", None),
        (BAR, BAR, None),
        (BAR * 40 + "RuntimeError: x", "RuntimeError: x", None),
    ],
)
def test_a_progress_bar_is_peeled_off_a_programs_output(text, body, rank):
    line = parse(text, printed=True)
    assert (line.body, line.rank) == (body, rank)


LOST_LINE = "NVRM: GPU 0000:3b:00.0 is lost"


@pytest.mark.parametrize("kind", ["kern", "syslog", "journal", "dmesg", "slurmctld", "slurmd", "fabricmanager"])
@pytest.mark.parametrize(
    "text",
    [
        "Mar  2 04:18:00 n1 python[77]: x\rMar  2 04:18:00 n1 kernel: " + LOST_LINE,
        "Mar  2 04:18:00 n1 python[77]: x\r" + LOST_LINE,
        "[ 8000.123456] process '/tmp/x: 5%|| 1/2 [] " + LOST_LINE + "' started",
        "[2026-03-02T04:18:00.123] _update_job: setting comment to x: 5%|| 1/2 [] " + LOST_LINE + " for JobId=1",
        '{"message": "' + LOST_LINE + '", "time": "2026-03-02T04:18:00Z"}',
        "Mar  2 04:18:00 n1 ERROR: " + LOST_LINE,
        "ERROR: " + LOST_LINE,
    ],
)
def test_only_a_programs_output_has_bars_pieces_loggers_and_records(kind, text):
    """In the system's logs these are words that somebody made it say."""
    rules = rule_set(LOST, extractors=(line_rule("lost", "^" + LOST_LINE, "gpu.lost", ("is lost",), (kind, "app")),))
    assert attribute(rules, bundle(Source(path="k", kind=kind, node="n1")), {"k": text + "\n"}).symptoms == ()


def test_pieces_of_a_line_beat_only_what_stands_in_the_same_piece():
    better = symptom("app.better", "application", beats=["app.error"])
    rules = rule_set(better, ERROR, extractors=(*RULES.extractors[:1], line_rule("better", "^Pin", "app.better", ("pin m",))))
    case = bundle(Source(path="a", kind="app", node="n1"))
    apart = attribute(rules, case, {"a": "RuntimeError: boom\rPin memory\n"})
    assert [d.rule for d in apart.demoted if d.rule.startswith("beats")] == []


def test_what_users_can_write_clears_no_fault_that_they_cannot():
    lasting = symptom("gpu.lost", drains=True, lingers="boot", explains=[{"symptom": "app.error", "scope": "node"}])
    boot = symptom("krn.boot", "none", role="context")
    rules = rule_set(
        lasting, boot, ERROR,
        extractors=(
            *RULES.extractors[:1],
            line_rule("lost", LOST_LINE, "gpu.lost", ("is lost",), ("dmesg",)),
            line_rule("boot", "Linux version", "krn.boot", ("linux version",), ("syslog", "dmesg"), fields={"clears": "boot"}, emit="info"),
        ),
    )  # fmt: skip
    for kind, domain in (("syslog", "hardware"), ("dmesg", "application")):
        sources = (
            Source(path="d", kind="dmesg", node="n1"),
            Source(path="s", kind=kind, node="n1"),
            Source(path="a", kind="app", node="n1"),
        )
        case = bundle(*sources, attempt=attempt(start="2026-03-02T04:00:00Z", end="2026-03-02T04:20:00Z"))
        texts = {
            "d": f"2026-03-02T03:50:00Z n1 kernel: {LOST_LINE}\n",
            "s": "2026-03-02T03:55:00Z n1 kernel: Linux version 6.8\n",
            "a": "[n1:77] RuntimeError: boom\n",
        }
        assert attribute(rules, case, texts).domain == domain


def test_a_program_that_speaks_of_the_whole_job_undoes_no_word_of_the_kernel():
    wide = symptom("net.wide", "network", rank=1, explains=[{"symptom": "gpu.lost", "scope": "job"}])
    rules = rule_set(
        LOST, wide, extractors=(line_rule("lost", LOST_LINE, "gpu.lost", ("is lost",), ("dmesg",)), line_rule("wide", "^wide", "net.wide", ("wide",)))
    )  # fmt: skip
    case = bundle(Source(path="d", kind="dmesg", node="n1"), Source(path="a", kind="app", node="n2"))
    found = attribute(rules, case, {"d": f"[ 77.123456] {LOST_LINE}\n", "a": "wide\n"})
    assert "gpu.lost" in {c.symptom for c in found.candidates}


def test_a_line_has_one_time_wherever_blocks_end_and_whatever_was_selected():
    head = "2026-03-02T03:00:00+00:00 n1 python: "
    text = head + "z\r" * 600_000 + "z\nRuntimeError: boom\n\r[2026-03-02 04:30:00] late\nRuntimeError: again\n"
    case = bundle(Source(path="a", kind="app", node="n1"))
    found = []
    for size in (len(text), 65_536):
        session = Session(RULES, case)
        for at in range(0, len(text), size):
            session.ingest("a", text[at : at + size].encode())
        session.ingest("a", b"", last=True)
        found.append(session.attribute(explain=True))
    assert found[0] == found[1]
    assert found[0].symptoms[0].first_seen is not None
    kept = as_text(select(RULES, "app", text.encode()))
    assert attribute(RULES, case, {"a": kept}).symptoms[0].first_seen == found[0].symptoms[0].first_seen


@pytest.mark.parametrize(
    "before",
    [
        "2026-05-01 10:00:00,123 - trainer - ERROR - ",
        "2026-05-01 10:00:00.123 | ERROR    | pkg.train:main:120 - ",
        "ERROR:root:",
        "[2026-05-01 10:00:00,123] [ERROR] [engine.py:120:train] ",
        "[2026-05-01 10:00:00,123][__main__][ERROR] - ",
        "E0501 10:00:00.123456 140000 train.py:120] ",
        "[NeMo E 2026-05-01 10:00:00 train:120] ",
        "(EngineCore_0 pid=17) ERROR 05-01 10:00:00 [core.py:390] ",
        "[rank: 3] ",
        "ERROR: ",
    ],
)
def test_what_a_logger_reports_as_an_error_is_read_as_if_it_stood_alone(before):
    case = bundle(Source(path="a", kind="app", node="n1"))
    (one,) = attribute(RULES, case, {"a": before + "RuntimeError: boom\n"}).symptoms
    assert one.symptom == "app.error"


@pytest.mark.parametrize(
    "before", ["2026-05-01 10:00:00,123 - trainer - INFO - ", "WARNING:root:", "the word ERROR: ", "ERROR - # "]
)
def test_other_words_before_an_error_are_no_logger(before):
    case = bundle(Source(path="a", kind="app", node="n1"))
    assert attribute(RULES, case, {"a": before + "RuntimeError: boom\n"}).symptoms == ()


@pytest.mark.parametrize(
    ("text", "body", "rank", "time"),
    [
        (
            '{"log":"[rank3]: RuntimeError: x\\n","stream":"stderr","time":"2026-03-02T04:18:00.5Z"}',
            "RuntimeError: x",
            3,
            1772425080.5,
        ),
        ('{"level": "error", "msg": "RuntimeError: x"}', "RuntimeError: x", None, None),
        ('{"message": "2026-03-02T04:18:00Z kernel: x", "ts": "2026-03-02T05:00:00Z"}', "x", None, 1772425080.0),
        ('{"message": 7, "msg": ["x"]}', '{"message": 7, "msg": ["x"]}', None, None),
        ('{"message": "RuntimeError: x", "loss": NaN}', "RuntimeError: x", None, None),
    ],
)
def test_the_message_of_a_record_in_json_is_read(text, body, rank, time):
    line = parse(text, printed=True)
    assert (line.body, line.rank, line.stamp.value if line.stamp else None, line.kernel) == (body, rank, time, False)


@pytest.mark.parametrize("reads", ["app", "record", "metric"])
def test_a_rule_on_trial_is_recorded_and_changes_nothing(reads):
    """Its event would win the same line, explain the error and be the cause, if it took part."""
    better = symptom("app.better", "hardware", rank=1, explains=["app.error"], beats=["app.error"])
    rule = {
        "app": line_rule("try", "boom", "app.better", ("boom",), maturity="sandbox"),
        "record": line_rule("try", "State=FAILED", "app.better", ("state=failed",), ("record",), maturity="sandbox"),
        "metric": line_rule(
            "try", "", "app.better", (), ("metric",), maturity="sandbox", metric=Metric(query="q", op=">=", value=1, hold=0)
        ),
    }[reads]
    case = bundle(Source(path="a", kind="app", node="n1"), Source(path="m", kind="metric", node="n1"))
    texts = {"a": "RuntimeError: boom\n", "m": '{"rule": "try", "series": [{"points": [[1, 2.0]], "node": "n1"}]}'}
    if reads != "metric":
        del texts["m"]
    plain = attribute(rule_set(LOST, ERROR, better, extractors=RULES.extractors), case, {"a": texts["a"]})
    tried = attribute(rule_set(LOST, ERROR, better, extractors=(*RULES.extractors, rule)), case, texts)
    assert [s.symptom for s in tried.interesting] == ["app.better"]
    assert any(step.rule == "try" for step in tried.trail)
    assert [c.state for c in tried.coverage if c.kind == "app"] == ["read"]
    same = ("verdict", "domain", "root_cause", "symptoms", "demoted", "candidates", "responsible_nodes", "terminal_state")
    assert [getattr(tried, name) for name in same] == [getattr(plain, name) for name in same]


def test_pieces_of_one_line_are_events_of_their_own():
    text = "RuntimeError: a\rRuntimeError: b\r" + BAR + "RuntimeError: a\n"
    verdict = attribute(RULES, bundle(Source(path="a", kind="app", node="n1")), {"a": text})
    (one,) = verdict.symptoms
    assert (one.count, sorted({e.text for e in one.evidence})) == (3, ["RuntimeError: a", "RuntimeError: b"])
    assert verdict.coverage[0].lines == 1


def test_a_time_counts_for_forty_lines_and_no_further():
    case = bundle(Source(path="k", kind="kern", node="n1"))
    for between, seen in ((39, True), (40, False)):
        text = "2026-03-02T04:18:00Z n1 kernel: fine\n" + "noise\n" * between + "NVRM: GPU 0000:3b:00.0 is lost\n"
        (symptom_seen,) = attribute(RULES, case, {"k": text}).symptoms
        assert (symptom_seen.first_seen is not None) is seen


def test_addresses_that_end_in_digits_are_no_fraction_of_a_second():
    made = bundle(
        Source(path="k", kind="syslog"),
        attempt=attempt(nodes=("n1", "n2"), node_addresses={"n1": "10.0.0.1", "n2": "10.0.0.2"}),
    )
    rules = rule_set(
        LOST, extractors=(line_rule("lost", r"^NVRM: GPU (?P<gpu>\S+) is lost", "gpu.lost", ("is lost",), ("syslog",)),)
    )
    text = "".join(f"Mar  2 04:10:00 10.0.0.{1 + i % 2} kernel: NVRM: GPU 0000:3b:00.0 is lost\n" for i in range(9))
    assert attribute(rules, made, {"k": text}).responsible_nodes == ("n1", "n2")


def test_digits_that_are_no_ascii_crash_nothing():
    case = bundle(Source(path="a", kind="app", node="n1"))
    verdict = attribute(RULES, case, {"a": '{"MESSAGE":"x","__REALTIME_TIMESTAMP":"²"}\nRuntimeError: boom\n'})
    assert verdict.domain == "application"


def test_a_series_of_a_machine_outside_the_attempt_is_demoted():
    found = metered('{"rule": "inlet-hot", "series": [{"node": "c99", "points": [[0, 50.0], [90, 51.0]]}]}')
    assert (found.verdict, [d.reason[:6] for d in found.demoted]) == ("insufficient", ["it is "])


def metered(text: str, **metric):
    condition = Metric(query="inlet", op=">=", value=48, hold=60, **metric)
    rule = line_rule("inlet-hot", "", "gpu.lost", (), ("metric",), metric=condition)
    case = bundle(Source(path="m", kind="metric", node="n1"))
    return attribute(rule_set(LOST, ERROR, extractors=(rule,)), case, {"m": text})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"rule": "inlet-hott", "series": []}', "no metric rule is called 'inlet-hott'"),
        (
            '{"rule": "inlet-hot", "series": [{"instance": "n1", "points": [[1, 50], [99, 50]]}]}',
            "not a series file: Object contains unknown field `instance` - at `$.series[0]`",
        ),
        ('{"rule": "inlet-hot", "serie": [], "series": []}', "not a series file: Object contains unknown field `serie`"),
    ],
)
def test_a_metric_source_that_fits_no_rule_is_not_read(text, reason):
    verdict = metered(text)
    [cover] = [c for c in verdict.coverage if c.source == "m"]
    assert (cover.state, cover.reason, cover.node) == ("partial", reason, "n1")
    assert verdict.symptoms == ()


@pytest.mark.parametrize(
    ("mode", "points", "says"),
    [
        ("value", [[0, 49], [60, 55]], "49 to 55, limit >= 48"),
        ("value", [[0, 49], [60, 49]], "49, limit >= 48"),
        ("increase", [[0, 5], [60, 55], [120, 60]], "grown by 50 to 55, limit >= 48"),
    ],
)
def test_a_metrics_evidence_gives_the_values_and_the_limit(mode, points, says):
    file = {"rule": "inlet-hot", "series": [{"node": "n1", "points": points}]}
    [seen] = metered(msgspec.json.encode(file), mode=mode).symptoms
    assert seen.evidence[0].text.startswith(f"inlet-hot: {says}, from 1970-01-01T00:0")
