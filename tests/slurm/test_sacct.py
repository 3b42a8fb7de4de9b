from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.errors import SlurmError
from attribution.slurm.fields import COMMENTS, TEXTS, choose, parse_helpformat
from attribution.slurm.sacct import by_id, check_id, ended_between, on_nodes, parse_rows, parse_texts, slices

D = "<D>"


def test_the_commands():
    assert by_id("/s", ["10_3", "11+1", "5"], ["JobID", "State"]) == [
        "/s", "-P", "-n", "-D", "--delimiter=\x1f", "-o", "JobID,State", "-j", "10_3,11+1,5",
    ]  # fmt: skip
    assert ended_between("/s", 1, 2, ["JobID"])[-6:] == ["-s", "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO", "-S", "uts1", "-E", "uts2"]
    assert on_nodes("/s", "n[1-2]", 1, 2, ["JobID"])[-6:] == ["-N", "n[1-2]", "-S", "uts1", "-E", "uts2"]


@pytest.mark.parametrize("job", ["", "-1", "1 -a", "1,2", "1.batch", "10_[1-3]", "x", "1_", "+1", "\u0661"])
def test_what_is_no_job_id_never_gets_into_a_command(job):
    with pytest.raises(SlurmError, match="is no job id"):
        check_id(job)


def test_rows_of_safe_fields():
    assert parse_rows("1\x1fFAILED\n\n2\x1f\n", ["JobID", "State"]) == [
        {"JobID": "1", "State": "FAILED"},
        {"JobID": "2", "State": ""},
    ]
    with pytest.raises(SlurmError, match="line 2 has 1 columns instead of 2"):
        parse_rows("1\x1fFAILED\nx\n", ["JobID", "State"])


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(lambda text: D not in text)
keys = st.tuples(st.integers(1, 9).map(str), st.integers(1, 10**12).map(str))


@given(st.dictionaries(keys, st.tuples(texts, texts, texts, texts)))
def test_whatever_users_write_every_row_is_read_back(rows):
    output = "".join(D.join([raw_id, *text, dbindex]) + "\n" for (raw_id, dbindex), text in rows.items())
    found = parse_texts(output, TEXTS, D)
    assert {key: tuple(row[name] for name in TEXTS[1:-1]) for key, row in found.items()} == rows


def test_who_guessed_the_delimiter_still_can_not_speak_for_others():
    honest = D.join(["1", "a", "/w", "/o", "", "11"]) + "\n"
    forged = D.join(["2", "b", "/w", "x" + D + "" + D + "22\n1" + D + "a" + D + "/w" + D + "/etc/shadow", "", "11"]) + "\n"
    assert ("1", "11") not in parse_texts(honest + forged, TEXTS, D)


@given(st.text(st.sampled_from("0123456789.\n<D>ax")))
def test_any_output_is_parsed(output):
    parse_texts(output, COMMENTS, D)


def test_fields_are_probed():
    available = parse_helpformat("JobID JobIDRaw Cluster DBIndex\n State Start End  NodeList\n")
    assert choose(("JobID", "SLUID", "State"), available) == ("JobID", "State")
    with pytest.raises(SlurmError, match=r"lacks DBIndex; sattrib needs"):
        parse_helpformat("JobID JobIDRaw Cluster State Start End NodeList")


def test_slices():
    assert slices(["3", "1", "2", "1"], 2) == [["1", "2"], ["3"]]
