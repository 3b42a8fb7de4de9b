"""Templates of families and catalogs: text that holds %key%, filled with a member's or a row's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from attribution.ruleset.files import MOST_TEXT

_PLACE = re.compile(r"%([A-Za-z_]\w*)%")


def fill(value: Any, member: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        if "%" not in value:
            return value
        for key, word in member.items():
            if isinstance(word, (str, int)):
                value = value.replace(f"%{key}%", str(word))
                if len(value) > MOST_TEXT:
                    raise ValueError(f"%{key}% makes a text longer than {MOST_TEXT} characters")
        return value
    if isinstance(value, dict):
        return {k: fill(v, member) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, member) for v in value]
    return value


def needed(value: Any) -> set[str]:
    """The keys that a template's text asks for."""
    if isinstance(value, str):
        return set(_PLACE.findall(value))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(needed, inner))


def filled(template: Mapping[str, Any], member: Mapping[str, Any], own: Iterable[str]) -> dict[str, Any]:
    """The template with a member's words, and its own values of the keys in `own` instead. Raises ValueError."""
    instead = {k: v for k, v in member.items() if k in own}
    missing = needed({k: v for k, v in template.items() if k not in instead}) - set(member)
    if missing:
        raise ValueError(f"the template needs {', '.join(f'%{k}%' for k in sorted(missing))}")
    return {**fill(template, member), **instead}
