"""The same value with other texts in it: how masking reaches every string of a verdict and of a stored input."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from attribution.archive.mask import MASK, is_secret_name, mask, mask_bytes
from attribution.model import Verdict

T = TypeVar("T")


def rewrite(value: T, change: Callable[[Any], Any]) -> T:
    """`value` with `change` applied to each string and each struct in it, the innermost first. Nothing is changed in place."""
    return _rewrite(value, change)  # type: ignore[no-any-return]


def _rewrite(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: new for name, old in fields.items() if (new := _rewrite(old, change)) is not old}
        return change(replace(value, **changed) if changed else value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: _rewrite(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_rewrite(item, change) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    return value


def masked(verdict: Verdict) -> Verdict:
    """The verdict with every secret in its texts masked; in its facts, the text under names such as `password` as well."""
    texts = rewrite(verdict, lambda item: mask(item) if isinstance(item, str) else item)
    return replace(texts, facts=_masked_fields(texts.facts))


def masked_input(raw: bytes) -> bytes:
    """A stored input with its secrets masked. JSON, JSON lines and plain lines keep their form.

    Inside JSON the strings are masked one by one, so that the document stays one; what is no JSON is masked as text.
    """
    whole = _masked_json(raw)
    if whole is not None:
        return whole
    lines = raw.split(b"\n")
    found = [(_masked_json(line) if line[:1] in (b"{", b"[") else None) for line in lines]
    if not any(line is not None for line in found):
        return mask_bytes(raw)
    return b"\n".join(mask_bytes(old) if new is None else new for old, new in zip(lines, found, strict=True))


def _masked_json(raw: bytes) -> bytes | None:
    """None where `raw` is not one JSON object or array; `raw` itself where it holds no secret."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict | list):
        return None
    changed = _masked_fields(document)
    return raw if changed == document else json.dumps(changed, ensure_ascii=True, separators=(",", ":")).encode()


def _masked_fields(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            mask(name): MASK if item and isinstance(item, str) and is_secret_name(name) else _masked_fields(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(_masked_fields(item) for item in value)
    return mask(value) if isinstance(value, str) else value
