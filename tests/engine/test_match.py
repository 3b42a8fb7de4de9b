from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.engine.match import Prefilter
from attribution.engine.needles import UnsupportedPatternError, choose, options

NEEDLES = {"xid (": ("a",), "nvrm": ("a", "b"), "timeout": ("c",), "time": ("d",), "[e1]": ("e",)}


def naive(block: bytes, needles=NEEDLES):
    """What both implementations must give: every line, or piece between carriage returns, that holds a needle."""
    found, at = [], 0
    for raw in block.replace(b"\r", b"\n").split(b"\n"):
        names = sorted({n for needle, rules in needles.items() if needle.encode() in raw.lower() for n in rules})
        if names:
            found.append((at, at + len(raw), tuple(names)))
        at += len(raw) + 1
    return found


pieces = st.sampled_from(
    [b"NVRM", b"nvrm: Xid (", b"tImEouT", b"time", b"\n", b"\n\n", b"\xff\xfe", b"\x00", b" ", b"[E1]", b"xid", b"\r\n", b"\r"]
)


@pytest.mark.parametrize("fast", [False, True])
@given(st.lists(pieces, max_size=30))
def test_candidates_are_the_lines_that_hold_a_needle(fast, parts):
    block = b"".join(parts)
    assert [tuple(c) for c in Prefilter(NEEDLES, fast=fast).candidates(block)] == naive(block)


def test_no_needles_no_candidates():
    assert list(Prefilter({}, fast=False).candidates(b"anything\n")) == []


@pytest.mark.parametrize(
    ("pattern", "best"),
    [
        (r"RmInitAdapter failed", {"rminitadapter failed"}),
        (r"(?i)GPU is lost", {"gpu is lost"}),
        (r"[Nn]on-?[Ff]atal SXid", {"fatal sxid"}),
        (r"(?:CUDA|HIP) out of memory", {" out of memory"}),
        (r"abc|defgh", None),
        (r"\d+", None),
        (r"(?:alpha\d+)?beta9", {"beta9"}),
        (r"(?:oops\d){2,}", {"oops"}),
        (r"^Xid \((?P<pci>[^)]+)\): 79\b", {"): 79"}),
    ],
)
def test_needles_are_derived(pattern, best):
    found = options(pattern)
    assert (set(found[0]) if found else None) == best


@pytest.mark.parametrize("pattern", [r"(?<!un)corrected", r"a(?=bcde)", r"(x)\1", r"(unclosed"])
def test_what_re2_lacks_is_refused(pattern):
    with pytest.raises(UnsupportedPatternError):
        options(pattern)


def test_of_several_needles_the_rarest_is_taken():
    chosen = choose({"one": options("common text .* alpha beta"), "two": options("common text .* gamma")})
    assert chosen["one"] == {" alpha beta"}
    assert chosen["two"] == {" gamma"}


@given(st.sampled_from(["NVRM: Xid", "Link (?:is )?[Dd]own", "(?i)error (?:12|five) here", "abcd(?:efg)+h"]), st.data())
def test_every_match_holds_a_needle(pattern, data):
    text = data.draw(st.from_regex(pattern, fullmatch=True))
    for option in options(pattern):
        assert any(needle in text.lower() for needle in option)
