"""Selection while blocks come in: the same whatever the blocks are, bounded, and enough for the same verdict."""

from __future__ import annotations

import random

import pytest

from attribution import ruleset
from attribution.bundle import Attempt, Bundle, Source
from attribution.engine.lines import MAX_LINE
from attribution.engine.select import Selector, as_text, select
from attribution.engine.session import Session

XID = b"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."


BAR = b"Epoch 1:  45%|####      | 450/1000 [00:12<00:15, 35.1it/s]\r"
HEALTHY = [
    *(f"step {n} | loss {n / 7:.3f} | 412 ms" for n in range(40)),
    *(f"[rank{n}]: step {n * 10}: throughput 1234 tokens/s" for n in range(8)),
    *(f"Nov 29 11:{n:02d}:07 n1 systemd[1]: Started Session {n} of User root." for n in range(20)),
    *(f"[2026-11-29T11:{n:02d}:01.123] sched: Allocate JobId={n} NodeList=n1" for n in range(20)),
    *(f"n1:12:34 [{n}] NCCL INFO Channel 00/0 : {n}[0] -> 1[1] via P2P/IPC" for n in range(8)),
]


@pytest.fixture(scope="module")
def rules():
    return ruleset.load(samples=False)


def in_pieces(rules, kind, text, size, **more):
    selector = Selector(rules, kind, **more)
    for at in range(0, len(text), size):
        selector.feed(text[at : at + size])
    return selector.finish()


def noisy(seed, count=4000):
    """Healthy lines with faults, tracebacks and NCCL's complaints among them."""
    chance = random.Random(seed)
    lines = [line.encode() for line in chance.choices(HEALTHY, k=count)]
    for _ in range(20):
        at = chance.randrange(count)
        lines[at:at] = chance.choice([
            [b"Nov 29 12:00:00 n1 kernel: " + XID],
            [b"[rank3]: Traceback (most recent call last):", b'[rank3]:   File "a.py", line 1, in <module>', b"[rank3]: RuntimeError: x"],
            [b"n1:12:34 [2] NCCL WARN Call to ibv_reg_mr failed"],
            [XID],
        ])  # fmt: skip
    for at in chance.sample(range(count), count // 20):
        lines[at] = BAR * chance.randrange(1, 30) + chance.choice([b"", BAR[:-1], XID + b"\r"]) + lines[at]
    return b"\n".join(lines) + b"\n"


@pytest.mark.parametrize("kind", ["app", "kern", "slurmctld"])
@pytest.mark.parametrize("size", [1, 13, 4096, 100_000])
def test_the_size_of_blocks_does_not_matter(rules, kind, size):
    text = noisy(kind, 300 if size == 1 else 4000)
    assert in_pieces(rules, kind, text, size).lines == select(rules, kind, text).lines


@pytest.mark.parametrize("kind", ["app", "kern"])
@pytest.mark.parametrize("seed", range(4))
def test_the_verdict_from_the_selection_is_the_verdict_from_the_whole(rules, kind, seed):
    text = noisy(seed)
    attempt = Attempt(
        cluster="c",
        job_id="1",
        state="FAILED",
        exit_code="1:0",
        nodes=("n1",),
        start="2026-11-29T11:00:00Z",
        end="2026-11-29T12:10:00Z",
    )
    bundle = Bundle(schema=1, attempt=attempt, sources=(Source(path="x", kind=kind, node="n1"),))

    def heads(data):
        session = Session(rules, bundle)
        session.ingest("x", data, last=True)
        found = session.attribute()
        return found.verdict, found.domain, found.sub_domain, found.responsible_nodes, found.terminal_state

    selected = as_text(in_pieces(rules, kind, text, 5000))
    assert heads(selected) == heads(text)


def test_kept_lines_are_the_logs_own_under_their_own_numbers(rules):
    text = noisy("numbers")
    whole = text.split(b"\n")
    found = in_pieces(rules, "kern", text, 999)
    assert all(set(line.split(b"\r")) <= {*whole[number].split(b"\r")} for number, line in found.lines)
    assert all(whole[number] == line for number, line in found.lines if b"\r" not in whole[number])
    assert [n for n, line in enumerate(whole) if XID in line] == [n for n, line in found.lines if XID in line]
    assert (found.total, found.bytes) == (len(whole) - 1, len(text))


def test_a_flood_leaves_the_first_the_last_and_the_word_that_it_was_cut(rules):
    text = b"".join(b"%s %d\n" % (XID, n) for n in range(5000))
    found = in_pieces(rules, "kern", text, 1000)
    numbers = [n for n, line in found.lines]
    assert numbers == [*range(200), *range(4980, 5000)]
    assert found.cut


def test_each_rank_has_its_own_share(rules):
    text = b"".join(
        b"[rank%d]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n" % (n % 4) for n in range(4000)
    )
    text += b"end\n" * 5000
    found = in_pieces(rules, "app", text, 10_000)
    for rank in range(4):
        assert sum(b"[rank%d]" % rank in line for _, line in found.lines) >= 220


def test_memory_is_bounded_whatever_comes(rules):
    import tracemalloc

    selector = Selector(rules, "app", most=1 << 20)
    block = b"".join(b"[rank%d]: Traceback (most recent call last): %s\n" % (n, b"x" * 500) for n in range(2000))
    tracemalloc.start()
    for _ in range(40):
        selector.feed(block)
    selector.feed(b"y" * (30 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    found = selector.finish()
    assert sum(len(line) for _, line in found.lines) < 4 << 20
    assert peak < 200 << 20
    assert found.cut


def test_a_line_without_end_is_cut_and_what_follows_counts(rules):
    text = b"a" * 5_000_000 + b"\n" + XID + b"\n"
    found = in_pieces(rules, "kern", text, 1 << 16)
    assert [len(line) for _, line in found.lines] == [MAX_LINE + 1, len(XID)]


def test_the_last_line_with_a_time_comes_with_a_line_that_has_none(rules):
    stamped = b"2026-11-29T12:00:00+00:00 n1 systemd[1]: fine"
    text = b"first\n" * 500 + stamped + b"\n" + b"\tx\n" * 30 + XID + b"\n" + b"more\n" * 20
    for size in (100, 1 << 20):
        lines = [line for _, line in in_pieces(rules, "kern", text, size).lines]
        assert lines.index(stamped) < lines.index(XID)


def test_what_is_foreign_is_no_hit_and_a_restart_forgets(rules):
    selector = Selector(rules, "kern", foreign=lambda line: b"other" in line)
    selector.feed(b"x\n" + XID + b" old\n")
    selector.restart()
    selector.feed(b"y\n" + XID + b" other\n" + XID + b" mine\nz\n")
    assert [line for _, line in selector.finish().lines] == [b"y", XID + b" mine", b"z"]
