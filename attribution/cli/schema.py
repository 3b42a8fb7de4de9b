"""`sattrib schema verdict|bundle`: the JSON Schema of what goes out and what comes in."""

from __future__ import annotations

from typing import Any

import click

from attribution.cli.output import write

_TITLES = {
    "verdict": "The verdict of sattrib on one attempt of a Slurm job",
    "bundle": "The evidence bundle (bundle.json) that sattrib reads",
}


@click.command()
@click.argument("what", type=click.Choice(sorted(_TITLES)))
def schema(what: str) -> None:
    """Print the JSON Schema of the verdict, or of bundle.json."""
    import json

    write(json.dumps(json_schema(what), indent=2, ensure_ascii=True) + "\n")


def json_schema(what: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `verdict` or `bundle`: the same on every call."""
    import msgspec

    from attribution.bundle import Bundle
    from attribution.model import Verdict

    kind: type[Any] = {"verdict": Verdict, "bundle": Bundle}[what]
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:sattrib:{what}:1",
        "title": _TITLES[what],
        **root,
        "$defs": {name: parts[name] for name in sorted(parts)},
    }
