from __future__ import annotations

import json

import pytest
import sample_verdicts as samples
from hypothesis import given
from hypothesis import strategies as st

from attribution.archive.rewrite import masked, masked_input, rewrite

TEXT = st.text(max_size=30) | st.sampled_from(
    ['password="a b', "token=abc123def'", "https://a:b@c/", "\\", '"', "Authorization: Bearer x1y2z3w4"]
)
DOCUMENT = st.recursive(
    TEXT | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


@pytest.mark.parametrize("make", [samples.attributed, samples.ambiguous, samples.insufficient, samples.no_failure])
def test_a_verdict_without_secrets_stays_as_it_is(make) -> None:
    assert masked(make()) == make()


def test_every_text_of_a_verdict_is_reached() -> None:
    """Whatever field a secret comes in by."""
    verdict = samples.attributed(
        facts={"env": {"password": "tr0ub4dor", "list": ["x password=tr0ub4dor"]}, "password=tr0ub4dor": 1}
    )
    dirty = rewrite(verdict, lambda item: item + " password=tr0ub4dor" if isinstance(item, str) and " " in item else item)
    assert str(dirty).count("tr0ub4dor") > 25
    assert "tr0ub4dor" not in str(masked(dirty))


@given(st.dictionaries(TEXT, DOCUMENT, min_size=1))
def test_json_stays_json_of_the_same_form(document: dict) -> None:
    kept = json.loads(masked_input(json.dumps(document).encode()))
    assert type(kept) is dict
    assert len(kept) <= len(document)


def test_json_lines_and_plain_lines_are_masked_each_in_its_form() -> None:
    raw = b'{"password": "x1", "n": 1}\nplain password=x2 end\n{"broken": "password=x3\n["token=abc123def"]\n'
    kept = masked_input(raw).split(b"\n")
    assert json.loads(kept[0]) == {"password": "[masked]", "n": 1}
    assert kept[1] == b"plain password=[masked] end"
    assert b"x3" not in kept[2]
    assert json.loads(kept[3]) == ["token=[masked]"]


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"a": [1, 2.5, "x"]}', b"plain", b"\x00\xff\xfe", b"[" * 100_000, b"NaN"])
def test_what_holds_no_secret_is_the_same_bytes(raw: bytes) -> None:
    assert masked_input(raw) == raw
