"""Where several rules say different things of one line, the rules must say which is the more precise."""

from __future__ import annotations

from firing import fired, rules, sampled


def ordered(a: str, b: str) -> bool:
    """Whether one of the symptoms beats or explains the other."""
    all_ = rules()
    for winner, loser in ((a, b), (b, a)):
        symptom = all_.symptoms[winner]
        if any(loser in all_.expand(p) for p in (*symptom.beats, *(e.symptom for e in symptom.explains))):
            return True
    return False


def test_overlaps_of_roots_are_ordered():
    found: dict[tuple[str, str], str] = {}
    for rule, sample in sampled():
        hits = [(r, s) for r, s in fired(sample) if rules().symptoms[s].role == "root" and set(r.reads) & set(rule.reads)]
        for first, a in hits:
            for second, b in hits:
                if a < b and set(first.reads) & set(second.reads) and not ordered(a, b):
                    found.setdefault((a, b), f"{a} ({first.name}) and {b} ({second.name}): {sample[:160]}")
    assert not found, "\n" + "\n".join(sorted(found.values()))


def test_no_two_symptoms_beat_each_other():
    pairs = {(s.id, loser) for s in rules().symptoms.values() for p in s.beats for loser in rules().expand(p) if loser != s.id}
    assert sorted((a, b) for a, b in pairs if a < b and (b, a) in pairs) == []
