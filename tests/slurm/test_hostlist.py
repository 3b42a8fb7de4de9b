from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.errors import SlurmError
from attribution.slurm.hostlist import LIMIT, compress, expand


@pytest.mark.parametrize("text", ["", "None assigned", "(null)", "None", " ", ",", "N/A"])
def test_no_nodes(text):
    assert expand(text) == ()


# What `scontrol show hostlist` of 24.11.5 printed.
@pytest.mark.parametrize(
    ("names", "hostlist"),
    [
        ("n1,n2,n3", "n[1-3]"),
        ("n01,n02,n10", "n[01-02,10]"),
        ("n1,n01", "n[1,01]"),
        ("n8,n9,n10", "n[8-10]"),
        ("n08,n9,n10", "n[08,9-10]"),
        ("n998,n999,n1000", "n[998-1000]"),
        ("n0998,n0999,n1000", "n[0998-1000]"),
        ("a1b3,a1b4,a2b3", "a1b[3-4],a2b3"),
        ("n1,n1", "n[1,1]"),
        ("n9,n010", "n[9,010]"),
        ("a,b", "a,b"),
        ("n001,n1000", "n[001,1000]"),
        ("x1-ib0,x2-ib0", "x1-ib0,x2-ib0"),
        ("n1,a1,n2", "n1,a1,n2"),
        ("n2,n1,n3", "n[2,1,3]"),
    ],
)
def test_compress_as_scontrol_does(names, hostlist):
    assert compress(names.split(",")) == hostlist
    assert expand(hostlist) == tuple(names.split(","))


@pytest.mark.parametrize("text", ["n1]", "n[[1-2]]", "n[1,[2]]", "n[+1-2]", "n[1 - 2]", "n[1-2", "]n["])
def test_stricter_than_slurm_where_it_guesses(text):
    with pytest.raises(SlurmError, match="hostlist "):
        expand(text)


@pytest.mark.parametrize(
    "text", ["n[1-200000]", "n[1-99999999999]", "n[1-400]b[1-400]", "n[1-60000],m[1-60000]", "a[1-999]b[1-999]c[1-999]"]
)
def test_too_many_names_are_refused_at_once(text):
    with pytest.raises(SlurmError, match=f"more than {LIMIT} names"):
        expand(text)


def test_the_largest_list_that_is_taken():
    assert len(expand(f"n[1-{LIMIT}]")) == LIMIT


def test_an_error_shows_the_list_but_not_all_of_it():
    with pytest.raises(SlurmError) as caught:
        expand("n[" + "1," * 10_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", ["", "a b", "a[1]", "a,b", "a\n"])
def test_compress_refuses_what_is_no_name(name):
    with pytest.raises(SlurmError, match="no node name"):
        compress([name])


numbers = st.integers(0, 1200).flatmap(lambda n: st.integers(0, 5).map(lambda width: str(n).zfill(width)))
name = st.builds("".join, st.lists(st.one_of(st.sampled_from(["n", "node-", "ib", "."]), numbers), min_size=1, max_size=4))


@given(st.lists(name.filter(lambda n: n.strip()), max_size=60))
def test_compressed_names_expand_again(names):
    assert expand(compress(names)) == tuple(names)


@given(st.text(st.sampled_from("an0189[],-_ .\n") | st.characters(), max_size=60))
def test_any_text_is_expanded_or_refused(text):
    with contextlib.suppress(SlurmError):
        names = expand(text)
        assert all(names)
        assert not any(c in name for name in names for c in "[],")
