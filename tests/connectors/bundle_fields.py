"""The fields of bundle.json as docs/bundle.md tells them: made from the classes, as the JSON Schema is."""

from __future__ import annotations

from typing import Any

import msgspec

from attribution.bundle import Bundle

# Class -> where an object of it stands.
PLACES = {
    "Bundle": "bundle.json", "Attempt": "attempt", "Step": "attempt.steps[]", "AttemptEvent": "attempt.events[]",
    "AllocationFailure": "attempt.allocation_failure", "ExecutionCancellation": "attempt.execution_cancellation",
    "Source": "sources[]", "GivenCoverage": "sources[].coverage", "NodeRecord": "nodes[]", "Boot": "nodes[].boots[]",
    "Clock": "nodes[].clock", "Gpu": "nodes[].gpus[]", "Neighbour": "neighbours[]", "HistoryItem": "history[]",
}  # fmt: skip


def rows() -> dict[str, dict[str, str]]:
    """Class -> field -> "type | default", in the words of the page."""
    schema = msgspec.json.schema(Bundle)
    return {name: {f: _row(f, schema["$defs"][name]) for f in schema["$defs"][name]["properties"]} for name in PLACES}


def _row(field: str, struct: dict[str, Any]) -> str:
    shape = struct["properties"][field]
    if field in struct.get("required", ()):
        return f"{_words(shape)} | required"
    default = shape.get("default")
    return (
        f"{_words(shape)} | {'null' if default is None else default if isinstance(default, int | float) else _empty(default)}"
    )


def _empty(default: Any) -> str:
    return f"`{default}`" if default else {str: "empty", list: "none", tuple: "none", dict: "none"}[type(default)]


def _words(shape: dict[str, Any]) -> str:
    if "anyOf" in shape:
        return " or ".join(w for s in shape["anyOf"] if (w := _words(s)) != "null")
    if "$ref" in shape:
        return PLACES[shape["$ref"].rsplit("/", 1)[1]]
    if "enum" in shape:
        return ", ".join(f"`{v}`" for v in shape["enum"] if v != shape.get("not", {}).get("const"))
    kind = "time" if shape.get("description", "").startswith("ISO 8601") else shape["type"]
    if kind == "array":
        return f"list ({_words(shape['items'])}), {shape['maxItems']:,} at most"
    if kind == "object":
        return f"object ({_words(shape['additionalProperties'])}), {shape['maxProperties']:,} at most"
    if kind in ("integer", "number"):
        low, high = shape.get("minimum"), shape.get("maximum")
        word = shape.get("description") or {"integer": "whole number", "number": "number"}[kind]
        return word + (f", {low:,.0f} to {high:,.0f}" if high is not None else "")
    if kind == "string":
        low, high = shape.get("minLength"), shape.get("maxLength")
        return "text" + (f", {low or 0} to {high} characters" if high else ", not empty" if low else "")
    return {"boolean": "true or false", "null": "null", "time": "time"}[kind]
