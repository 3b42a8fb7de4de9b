"""The verdict as JSON: fields in the order of the schema, facts sorted by name."""

from __future__ import annotations

from typing import Any

import msgspec

from attribution.model import Verdict
from attribution.report.escape import json_escape


def verdict_json(verdict: Verdict, indent: int = 2) -> str:
    """The document, ended by a newline: the same verdict gives the same bytes. `indent` 0 puts it on one line.

    Half of a surrogate pair, which UTF-8 can't carry, becomes U+FFFD.
    """
    whole = _whole(msgspec.to_builtins(verdict, order="deterministic"))
    for name in ("facts", "rules"):
        whole[name] = _sorted(whole[name])
    document = msgspec.json.encode(whole)
    if indent:
        document = msgspec.json.format(document, indent=indent)
    return json_escape(document.decode()) + "\n"


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=str)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
