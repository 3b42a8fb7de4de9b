"""A TOML file into a `Config`; every mistake is one line with file and key."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from attribution.config.ownership import check_ownership, trusts_only_root
from attribution.config.sections import SECTIONS, Config
from attribution.errors import ConfigError

DEFAULT_PATH = "/etc/sattrib/sattrib.toml"


def load(path: str | None = None, more: Mapping[str, type[Struct]] | None = None) -> Config:
    """Read the configuration. `path` None means the default file, which may be missing; a file that was named may not.

    `more` declares the sections of connectors and sinks (section name to struct). Raises ConfigError. As root and as
    user sattrib the file and its parents must be owned by root (or the caller) and writable by nobody else.
    """
    file = Path(path or DEFAULT_PATH)
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        if path is None:
            return parse("", str(file), more)
        raise ConfigError("no such file", str(file)) from None
    except OSError as problem:
        raise ConfigError(f"can't be read: {problem.strerror}", str(file)) from None
    if trusts_only_root():
        check_ownership(file)
    try:
        return parse(text.decode(), str(file), more)
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", str(file)) from None


def parse(text: str, file: str = "", more: Mapping[str, type[Struct]] | None = None) -> Config:
    """The configuration that `text` (TOML) says; `file` only names it in errors. Raises ConfigError."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise ConfigError(f"is not TOML: {problem}", file) from None
    known = {**SECTIONS, **(more or {})}
    found: dict[str, Any] = {}
    for name, table in tables.items():
        if name not in known:
            raise ConfigError(f"unknown section{_suggest(name, known)}", file, name)
        if not isinstance(table, dict):
            raise ConfigError(f"is a section: write [{name}]", file, name)
        found[name] = _section(known[name], name, table, file)
    others = {name: found.pop(name, None) or _section(kind, name, {}, file) for name, kind in (more or {}).items()}
    config = Config(**found, more=others)
    if config.spool.resume_percent >= config.spool.stop_percent:
        raise ConfigError("must be less than stop_percent", file, "spool.resume_percent")
    return config


def _section(kind: type[Struct], name: str, table: dict[str, Any], file: str) -> Struct:
    keys = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in table:
        if key not in keys:
            raise ConfigError(f"unknown key{_suggest(key, keys)}", file, f"{name}.{key}")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as problem:
        match = re.fullmatch(r"(?s)(.*?)(?: - at (?:`key` in )?`\$(.*)`)?", str(problem))
        what, key = (match[1], match[2] or "") if match else (str(problem), "")
        raise ConfigError(what[:1].lower() + what[1:], file, f"{name}{key}") from None


def _suggest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
