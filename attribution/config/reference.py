"""The configuration as text: what is set (`config show`) and what can be set (docs/config.md)."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from attribution.config.sections import SECTIONS, Config

HEAD = """# Configuration

`/etc/sattrib/sattrib.toml`, in TOML. Every key has a default, and without the file the defaults work on a controller.
An unknown section or key is an error. The file and its parents must be owned by root and writable by nobody else.
This page is generated from the code: `python -m attribution.config`.
"""


def show(config: Config) -> str:
    """The whole configuration as TOML, each key after a comment that says what it means."""
    blocks = []
    for name, section in _sections(config):
        lines = [f"# {_doc(type(section))}", f"[{name}]"]
        for key, value, _, description in _keys(section):
            lines += [f"# {description}", f"{key} = {_toml(value)}"]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def markdown(more: Mapping[str, type[Struct]] | None = None) -> str:
    """docs/config.md: one table a section."""
    config = Config(more={name: kind() for name, kind in (more or {}).items()})
    parts = [HEAD]
    for name, section in _sections(config):
        rows = [
            f"| `{key}` | `{_toml(value)}` | {description}{_choices(hint)} |".replace("\n", " ")
            for key, value, hint, description in _keys(section)
        ]
        parts.append(
            "\n".join(
                [f"## [{name}]", "", _doc(type(section)), "", "| key | default | what it is |", "|---|---|---|", *rows, ""]
            )
        )
    return "\n".join(parts)


def _sections(config: Config) -> Iterator[tuple[str, Struct]]:
    for name in SECTIONS:
        yield name, getattr(config, name)
    yield from config.more.items()


def _keys(section: Struct) -> Iterator[tuple[str, Any, Any, str]]:
    """Name, value, type and description of each key."""
    hints = typing.get_type_hints(type(section), include_extras=True)
    for field in msgspec.structs.fields(section):
        hint = hints[field.name]
        metas = [meta for meta in getattr(hint, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
        description = next((meta.description for meta in metas if meta.description), "")
        yield field.encode_name, getattr(section, field.name), hint, description


def _choices(hint: Any) -> str:
    """The words that a key allows, unless its description has them all anyway (one choice is none)."""
    inner = typing.get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    words = typing.get_args(inner) if typing.get_origin(inner) is typing.Literal else ()
    return f" One of {', '.join(f'`{word}`' for word in words)}." if len(words) > 1 else ""


def _doc(kind: type[Struct]) -> str:
    return " ".join((kind.__doc__ or "").split())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_escape(c) for c in value) + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    return str(value)


def _escape(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    return c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
