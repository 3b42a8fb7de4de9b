from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.report.escape import clip, columns, escape, json_escape, wrap

ANY = st.text(st.characters(codec=None), max_size=200) | st.text(
    "\x00\x1b[31m\n\r\t\x9b\u202e\u2066\u200b\ufeff\ud800\U000e0041a\u0301 \ufe0f"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [/] {x} é 漢字 ✓", "plain [/] {x} é 漢字 ✓"),
        ("a\nb\r\n\tc", r"a\nb\r\n\tc"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b31m\x00\x7f", r"\x9b31m\x00\x7f"),
        ("\u202egnp.exe\u2066", r"\u202egnp.exe\u2066"),
        ("ze\u200bro\ufeff\u00ad\u2060", r"ze\u200bro\ufeff\xad\u2060"),
        ("\ud800 \udcff", r"\ud800 \udcff"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("hidden \u3164 \u2800 \ufe0f", r"hidden \u3164 \u2800 \ufe0f"),
        ("line\u2028para\u2029", r"line\u2028para\u2029"),
    ],
)
def test_escape(text: str, shown: str) -> None:
    assert escape(text) == shown


@given(ANY)
def test_escaped_text_is_plainly_visible_and_stays_so(text: str) -> None:
    shown = escape(text)
    shown.encode()
    assert escape(shown) == shown
    for char in shown:
        assert unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@given(ANY, st.integers(1, 40))
def test_clip_keeps_to_the_width(text: str, width: int) -> None:
    shown = clip(text, width)
    assert columns(shown) <= width
    assert escape(shown) == shown
    assert shown == escape(text) or shown.endswith("…")


@given(ANY, st.integers(8, 60), st.integers(1, 5))
def test_wrap_keeps_to_its_lines_and_loses_nothing_in_silence(text: str, width: int, most: int) -> None:
    lines = wrap(text, width, most)
    assert len(lines) <= most
    assert all(columns(line) <= width for line in lines)
    whole = "".join(lines).replace(" ", "")
    assert whole == escape(text).replace(" ", "") or whole.endswith("…")


@given(
    st.recursive(
        ANY | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3)
    )
)
def test_json_says_the_same_after_escaping(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False, indent=1)
    shown = json_escape(document)
    assert json.loads(shown) == json.loads(json.dumps(value))
    assert escape(shown.replace("\n", "")) == shown.replace("\n", "")


def test_a_long_line_costs_no_more_than_what_is_shown() -> None:
    assert clip("\x00" * 50_000_000, 20) == r"\x00\x00\x00\x00\x0" + "…"
    assert len(wrap("x" * 50_000_000, 70, 2)) == 2
