"""The choice of the cause, on edges and events alone."""

from __future__ import annotations

import itertools

import pytest
from tools import event, ledger, rule_set, symptom

from attribution.engine.choose import blame, choose
from attribution.engine.edges import apply_edges, apply_same_line

HW = symptom(
    "hw.bus",
    rank=10,
    explains=["net.retry", {"symptom": "gpu.noise", "scope": "gpu"}, {"symptom": "dev.near", "scope": "node", "within": 60}],
)
NET = symptom("net.retry", "network", rank=50, sub_domain="rdma", blames="peers")
APP = symptom("app.error", "application", rank=60)
NOISE = symptom("gpu.noise", rank=300)
NEAR = symptom("dev.near", rank=300)
STORAGE = symptom("fs.hang", "storage", rank=40)


def kept(rules, *events, **more):
    book = ledger(rules, *events, **more)
    apply_edges(book, rules)
    return [g.symptom.id for g in choose(book, rules).kept], book


def test_an_edge_demotes_its_effect_and_keeps_it():
    rules = rule_set(HW, NET)
    ids, book = kept(rules, event("hw.bus", "n1", time=100.0), event("net.retry", "n2", time=101.0))
    assert ids == ["hw.bus"]
    (gone,) = book.demoted.values()
    assert gone.rule == "edge:hw.bus"
    assert gone.by == "hw.bus@n1@100.0@1"


def test_time_refutes_an_edge_only_for_certain():
    rules = rule_set(HW, NET)
    before = event("net.retry", "n2", time=90.0)
    ids, _ = kept(rules, event("hw.bus", "n1", time=100.0), before)
    assert ids == ["net.retry"]  # ten seconds earlier: it can't be a consequence, and it began first
    ids, _ = kept(rules, event("hw.bus", "n1", time=100.0), event("net.retry", "n2", time=98.5))
    assert ids == ["hw.bus"]  # within the clocks' uncertainty between nodes
    ids, _ = kept(rules, event("hw.bus", "n1", time=100.0), event("net.retry", "n2", time=90.0, own_time=False))
    assert ids == ["hw.bus"]  # a time taken from another line refutes nothing


def test_within_a_source_time_is_exact_to_the_stamp():
    rules = rule_set(HW, NET)
    same = {"source": "one.log"}
    cause = event("hw.bus", "n1", time=100.0, grain=0.001, **same)
    ids, _ = kept(rules, cause, event("net.retry", "n1", time=99.99, grain=0.001, line=2, **same))
    assert ids == ["net.retry"]


def test_scope_gpu_needs_the_same_gpu():
    rules = rule_set(HW, NOISE)
    cause = event("hw.bus", "n1", gpu="0000:3b:00", time=1.0)
    _, book = kept(
        rules, cause, event("gpu.noise", "n1", gpu="0000:3b:00", time=2.0), event("gpu.noise", "n1", gpu="0000:86:00", time=2.5)
    )
    assert [book.events[e].gpu for e in book.demoted] == ["0000:3b:00"]


def test_scope_node_and_within():
    rules = rule_set(HW, NEAR)
    cause = event("hw.bus", "n1", time=100.0)
    _, book = kept(
        rules,
        cause,
        event("dev.near", "n1", time=150.0),
        event("dev.near", "n1", time=400.0, line=3),
        event("dev.near", "n2", time=110.0),
    )
    assert sorted(book.events[e].time for e in book.demoted) == [150.0]


def test_a_circle_of_edges_keeps_its_strongest_member():
    a = symptom("x.a", rank=10, explains=["x.b"])
    b = symptom("x.b", rank=20, explains=["x.a"])
    ids, book = kept(rule_set(a, b), event("x.a", "n1"), event("x.b", "n1"))
    assert ids == ["x.a"]
    assert len(book.demoted) == 1


def test_a_chain_demotes_all_but_its_head():
    a = symptom("x.a", rank=10, explains=["x.b"])
    b = symptom("x.b", rank=20, explains=["x.c"])
    c = symptom("x.c", rank=30)
    ids, book = kept(rule_set(a, b, c), event("x.a", "n1"), event("x.b", "n1"), event("x.c", "n1"))
    assert ids == ["x.a"]
    assert len(book.demoted) == 2


def test_stated_beats_earlier():
    rules = rule_set(APP, STORAGE)
    ids, _ = kept(rules, event("app.error", "n1", time=10.0), event("fs.hang", "n1", time=500.0, stated=True))
    assert ids == ["fs.hang"]


def test_the_earlier_onset_wins_only_between_own_times():
    rules = rule_set(APP, STORAGE)
    ids, _ = kept(rules, event("app.error", "n1", time=10.0), event("fs.hang", "n2", time=500.0))
    assert ids == ["app.error"]
    ids, _ = kept(rules, event("app.error", "n1", time=10.0, own_time=False), event("fs.hang", "n2", time=500.0))
    assert ids == ["fs.hang", "app.error"] or sorted(ids) == ["app.error", "fs.hang"]


def test_an_untimed_root_stays_a_candidate():
    rules = rule_set(APP, STORAGE)
    ids, _ = kept(rules, event("app.error", "n1"), event("fs.hang", "n2", time=500.0))
    assert sorted(ids) == ["app.error", "fs.hang"]


def test_clocks_that_can_not_be_compared_order_nothing():
    rules = rule_set(APP, STORAGE)
    ids, _ = kept(rules, event("app.error", "n1", time=1e9), event("fs.hang", "n2", time=500.0, clock="uptime:n2"))
    assert sorted(ids) == ["app.error", "fs.hang"]


def test_beats_decides_between_candidates():
    special = symptom("app.special", "application", rank=80, beats=["app.error"])
    ids, _ = kept(rule_set(APP, special), event("app.error", "n1"), event("app.special", "n1"))
    assert ids == ["app.special"]


def test_a_second_source_decides_between_domains():
    other = symptom("hw.echo", rank=90)
    rules = rule_set(symptom("hw.x", rank=10), other, APP)
    ids, _ = kept(
        rules,
        event("hw.x", "n1"),
        event("hw.echo", "n1", kind="app", source="a"),
        event("app.error", "n1", kind="app", source="a", line=4),
    )
    assert "app.error" not in ids


def test_rank_never_prefers_one_domain_to_another():
    rules = rule_set(symptom("hw.x", rank=1), symptom("app.y", "application", rank=800))
    ids, _ = kept(rules, event("hw.x", "n1"), event("app.y", "n1", kind="app"))
    assert sorted(ids) == ["app.y", "hw.x"]


def test_same_line_read_twice_means_the_more_precise():
    broad, narrow = symptom("os.broad", "storage"), symptom("os.narrow", "container", beats=["os.broad"])
    rules = rule_set(broad, narrow)
    book = ledger(
        rules, event("os.broad", "n1", line=9), event("os.narrow", "n1", line=9), event("os.broad", "n1", line=10, source="z")
    )
    apply_same_line(book, rules)
    assert [book.events[e].line for e in book.demoted] == [9]


@pytest.mark.parametrize("role", ["cascade", "teardown", "context"])
def test_only_root_symptoms_are_candidates(role):
    ids, _ = kept(rule_set(symptom("x.y", role=role)), event("x.y", "n1", time=1.0))
    assert ids == []


@pytest.mark.parametrize("emit", ["info", "interesting_node"])
def test_emit_type_can_take_candidacy_away(emit):
    ids, _ = kept(rule_set(HW), event("hw.bus", "n1", emit=emit))
    assert ids == []


def blamed(rules, *events):
    book = ledger(rules, *events)
    return blame(choose(book, rules).kept[0], book)


def test_one_node_with_its_own_proof():
    assert blamed(rule_set(HW), event("hw.bus", "n2", time=1.0)).nodes == ("n2",)


def test_two_nodes_each_with_its_own_proof():
    assert blamed(rule_set(HW), event("hw.bus", "n2", own_time=False), event("hw.bus", "n1", own_time=False)).nodes == (
        "n1",
        "n2",
    )


def test_the_node_where_it_began():
    assert blamed(rule_set(HW), event("hw.bus", "n2", time=1.0), event("hw.bus", "n1", time=50.0)).nodes == ("n2",)


def test_three_at_once_are_a_wide_incident():
    found = blamed(rule_set(HW), *(event("hw.bus", n, time=100.0 + i) for i, n in enumerate(("n1", "n2", "n3"))))
    assert found.nodes == ()
    assert found.wide


def test_application_text_alone_names_no_node():
    assert blamed(rule_set(HW), event("hw.bus", "n2", kind="app", source="a")).nodes == ()


def test_a_pair_needs_a_side():
    rules = rule_set(NET)
    assert blamed(rules, event("net.retry", "n1", emit="bad_peers", peers=("n2",))).nodes == ()
    assert blamed(rules, event("net.retry", "n1", emit="bad_peers", peers=("n2",), culprit="n2")).nodes == ("n2",)
    alone = event("net.retry", "n1", emit="bad_peers", peers=("n2",), culprit="n2", kind="app", source="a")
    assert blamed(rules, alone).nodes == ()
    second = event("net.retry", "n3", emit="bad_peers", peers=("n2",), culprit="n2", kind="app", source="a", line=2)
    assert blamed(rules, alone, second).nodes == ("n2",)


def test_the_order_of_events_does_not_matter():
    rules = rule_set(HW, NET, APP, NOISE, NEAR, STORAGE)
    events = [
        event("hw.bus", "n1", gpu="0000:3b:00", time=100.0),
        event("net.retry", "n2", time=101.0),
        event("app.error", "n3", time=103.0, kind="app"),
        event("fs.hang", "n2", time=100.5),
        event("gpu.noise", "n1", gpu="0000:3b:00", time=100.2),
    ]
    answers = set()
    for order in itertools.permutations(events):
        ids, book = kept(rules, *order)
        answers.add((tuple(ids), next(iter(sorted(book.demoted.items())))[0], tuple(t.what for t in book.trail)))
    assert len(answers) == 1
