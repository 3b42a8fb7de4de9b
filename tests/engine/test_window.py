"""What belongs to the attempt by time."""

from __future__ import annotations

from tools import attempt, event, ledger, rule_set, symptom

from attribution.bundle import Boot, NodeRecord
from attribution.engine.edges import apply_edges
from attribution.engine.window import apply_kill, apply_window, settle_lingering

START, END = 1_000_000.0, 1_003_600.0
DIES = {"symptom": "py.traceback", "scope": "job"}
BUS = symptom("gpu.bus", lingers="boot", explains=[{"symptom": "cuda.gone", "scope": "node"}, DIES])
BRIEF = symptom("ib.retry", "network")
GONE = symptom("cuda.gone", "application")
BOOT = symptom("krn.boot", role="context")
BUG = symptom("py.traceback", "application")
RULES = rule_set(BUS, BRIEF, GONE, BOOT, BUG)


def run(*events, **more):
    book = ledger(RULES, *events, start=START, end=END, **more)
    apply_window(book)
    apply_kill(book)
    settle_lingering(book)
    apply_edges(book, RULES)
    return [e.symptom for e in book.roots()], book


def test_inside_counts():
    assert run(event("ib.retry", "n1", time=START + 10))[0] == ["ib.retry"]


def test_after_the_window_is_demoted_with_the_reason():
    roots, book = run(event("ib.retry", "n1", time=END + 310))
    assert roots == []
    assert "after the end" in next(iter(book.demoted.values())).reason


def test_a_node_that_does_not_answer_has_a_longer_window_for_its_own_logs():
    silent = event("krn.boot", "n1", time=END, silent="yes")
    assert run(silent, event("ib.retry", "n1", time=END + 800))[0] == ["ib.retry"]
    assert run(silent, event("ib.retry", "n2", time=END + 800))[0] == []


def test_before_the_start_what_does_not_linger_is_context():
    roots, book = run(event("ib.retry", "n1", time=START - 60))
    assert roots == []
    assert "60 s before the start" in next(iter(book.demoted.values())).reason


def test_what_lingers_counts_only_if_the_window_shows_it():
    lost = event("gpu.bus", "n1", time=START - 3600)
    assert run(lost)[0] == []
    assert run(lost, event("cuda.gone", "n1", kind="app", source="a", time=START + 5))[0] == ["gpu.bus"]
    assert run(lost, event("cuda.gone", "n2", kind="app", source="a", time=START + 5))[0] == ["cuda.gone"]


def test_what_any_bug_of_a_job_shows_does_not_bring_back_an_old_fault():
    """A traceback is what a job may die with when a device is gone, and what it dies with for its own reasons."""
    lost = event("gpu.bus", "n1", time=START - 3600)
    roots, book = run(lost, event("py.traceback", "n1", kind="app", source="a", time=START + 5))
    assert roots == ["py.traceback"]
    assert "nothing inside the window shows" in next(iter(book.demoted.values())).reason


def test_a_boot_clears_what_lingers():
    lost, boot = event("gpu.bus", "n1", time=START - 3600), event("krn.boot", "n1", time=START - 1800, clears="boot")
    effect = event("cuda.gone", "n1", kind="app", source="a", time=START + 5)
    assert run(lost, boot, effect)[0] == ["cuda.gone"]
    other = event("krn.boot", "n2", time=START - 1800, clears="boot")
    assert run(lost, other, effect)[0] == ["gpu.bus"]


def test_a_boot_in_the_nodes_record_clears_too():
    lost = event("gpu.bus", "n1", time=START - 3600)
    effect = event("cuda.gone", "n1", kind="app", source="a", time=START + 5)
    record = NodeRecord(name="n1", boots=(Boot(id="b", start="1970-01-12T13:20:00Z"),))  # half an hour before the start
    assert run(lost, effect, nodes={"n1": record})[0] == ["cuda.gone"]


def test_after_the_kill_everything_is_teardown_unless_it_began_before():
    late = event("ib.retry", "n1", time=END + 5, kind="app", source="a")
    early = event("ib.retry", "n2", time=END - 50, kind="app", source="b")
    roots, book = run(late, early, attempt=attempt("TIMEOUT"), kill_time=END)
    assert roots == ["ib.retry"]
    assert [d.rule for d in book.demoted.values()] == ["teardown"]


def test_untimed_lines_after_the_cancel_line_are_teardown():
    mark = event("krn.boot", None, kind="app", source="a", line=5, kill="yes")
    lines = (event("ib.retry", "n1", kind="app", source="a", line=9), event("cuda.gone", "n1", kind="app", source="a", line=2))
    assert run(mark, *lines, attempt=attempt("CANCELLED by 5"))[0] == ["cuda.gone"]


def test_a_printed_cancel_line_hides_nothing_where_the_record_says_failed():
    mark = event("krn.boot", None, kind="app", source="a", line=5, kill="yes")
    after = event("ib.retry", "n1", kind="app", source="a", line=9)
    assert run(mark, after, attempt=attempt("FAILED"))[0] == ["ib.retry"]
