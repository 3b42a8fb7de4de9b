from __future__ import annotations

import pytest
from tools import attempt, bundle

from attribution.bundle import NodeRecord
from attribution.engine.names import Names, pci, split_hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10],m2", ["n08", "n09", "n10", "m2"]),
        ("a[1,3]b[1-2]", ["a1b1", "a1b2", "a3b1", "a3b2"]),
        ("n[x-y]", ["n[x-y]"]),
        ("n[3-1]", ["n[3-1]"]),
    ],
)
def test_lists_of_nodes_are_split(text, names):
    assert split_hosts(text) == names


def test_a_hostile_list_is_bounded():
    assert len(split_hosts("n[0-999999999]")) == 4096
    assert len(split_hosts("a[0-99]b[0-99]c[0-99]")) <= 4096


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("PCI:0000:3b:00", "0000:3b:00"),
        ("00000000:3B:00.0", "0000:3b:00"),
        ("0009:01:00", "0009:01:00"),
        ("44857:00:00", "44857:00:00"),
        ("3b:00.0", "0000:3b:00"),
        ("nothing", None),
        (None, None),
    ],
)
def test_pci_addresses_have_one_shape(text, address):
    assert pci(text) == address


def names():
    given = attempt(nodes=("gpu-01", "gpu-02"), node_addresses={"gpu-01": "10.0.0.1", "gpu-02": ["10.0.0.2", "fe80::2"]})
    return Names(
        bundle(
            attempt=given, nodes=(NodeRecord(name="gpu-01", aliases=("r1u3",)), NodeRecord(name="gpu-02", aliases=("r1u4",)))
        )
    )


@pytest.mark.parametrize(
    ("said", "node"),
    [
        ("gpu-01", "gpu-01"), ("GPU-01.cluster.local", "gpu-01"), ("r1u4", "gpu-02"), ("10.0.0.1", "gpu-01"), ("fe80::2", "gpu-02"),
        ("::ffff:10.0.0.2", "gpu-02"), ("10.0.0.9", None), ("gpu-011", None), ("", None), (None, None), ("10", None),
    ],
)  # fmt: skip
def test_names_and_addresses_find_their_node(said, node):
    assert names().resolve(said) == node


def test_an_alias_of_two_nodes_stands_for_neither():
    given = attempt(nodes=("a1", "a2"))
    found = Names(bundle(attempt=given, nodes=(NodeRecord(name="a1", aliases=("x",)), NodeRecord(name="a2", aliases=("x",)))))
    assert found.resolve("x") is None
