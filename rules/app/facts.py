"""Facts about the run: how far it came, how it is laid out, with which versions, and each rank's first exception."""

from __future__ import annotations

from collections.abc import Mapping

import re2

from attribution.rule import Event, Example, View, collector, event

PYTHON = re2.compile(r"python(3\.\d{1,2})/")
MOST = 64


def step_of(e: Event) -> str:
    return next((e.fields[k] for k in ("step", "step2", "step3") if k in e.fields), "")


@collector(
    name="progress",
    example=Example(
        given=(
            event("app.progress", kind="app", source="out", line=9, emit="info", step="4120", text="step: 4120 loss"),
            event("app.checkpoint_saved", kind="app", source="out", line=7, emit="info", step="4000", path="/ckpt/4000"),
        ),
        expect={
            "progress": {"last_step": "4120", "epoch": "", "source": "out", "line": 9, "text": "step: 4120 loss"},
            "checkpoint": {"saved": {"step": "4000", "path": "/ckpt/4000", "source": "out", "line": 7, "text": ""}},
        },
        quiet=(event("py.value", kind="app"),),
    ),
)
def progress(view: View) -> Mapping[str, object]:
    """The last step and the last checkpoint that the output shows: what is lost, and from where to go on."""
    facts: dict[str, object] = {}
    seen = view.of("app.progress", live=False)
    if seen:
        last = max(seen, key=lambda e: (number(step_of(e)), e.time or 0.0, e.source, e.line))
        epoch = next((last.fields[k] for k in ("epoch", "epoch2", "epoch3") if k in last.fields), "")
        facts["progress"] = {
            "last_step": step_of(last),
            "epoch": epoch,
            "source": last.source,
            "line": last.line,
            "text": last.text[:200],
        }
    checkpoint = {}
    for word in ("saved", "loaded"):
        found = view.of(f"app.checkpoint_{word}", live=False)
        if found:
            e = max(found, key=lambda e: (number(step_of(e)), e.source, e.line))
            checkpoint[word] = {
                "step": step_of(e), "path": e.fields.get("path", ""), "source": e.source, "line": e.line, "text": e.text[:200]
            }  # fmt: skip
    if checkpoint:
        facts["checkpoint"] = checkpoint
    return facts


def number(text: str) -> int:
    return int(text) if text.isdigit() else -1


SHORT = {"tensor": "tp", "pipeline": "pp", "context": "cp", "expert": "ep", "data": "dp", "world_size": "world_size"}


@collector(
    name="layout",
    example=Example(
        given=(
            event("app.layout", kind="app", emit="info", name="tensor_model_parallel_size", value="8"),
            event("app.layout", kind="app", emit="info", world_size="64", dp="4", line=2),
        ),
        expect={"parallel": {"tp": 8, "world_size": 64, "dp": 4}},
        quiet=(event("py.value", kind="app"),),
    ),
)
def layout(view: View) -> Mapping[str, object]:
    """World size and parallel sizes, where the program prints them."""
    found: dict[str, int] = {}
    for e in view.of("app.layout", live=False):
        name = e.fields.get("name", "")
        key = SHORT.get(name) or SHORT.get(name.split("_")[0], "")
        if key and e.fields.get("value", "").isdigit():
            found[key] = int(e.fields["value"])
        for direct in ("world_size", "dp", "tp", "pp"):
            if e.fields.get(direct, "").isdigit():
                found[direct] = int(e.fields[direct])
    return {"parallel": found} if found else {}


@collector(
    name="software",
    example=Example(
        given=(event("app.version", kind="app", emit="info", torch="2.6.0+cu124"),),
        expect={"software": {"torch": "2.6.0+cu124"}},
        quiet=(event("nat.segv", kind="app"),),
    ),
)
def software(view: View) -> Mapping[str, object]:
    """Versions that the program prints, and Python's from the paths in its tracebacks."""
    found: dict[str, str] = {}
    for e in view.of("app.version", live=False):
        found.update({k: v for k, v in e.fields.items() if k in ("torch", "cuda", "python") and k not in found})
    for e in view.of("py.*", live=False):
        said = PYTHON.search(e.fields.get("file", "") + " " + e.fields.get("raised_in", ""))
        if said is not None and "python" not in found:
            found["python"] = said.group(1)
    return {"software": found} if found else {}


@collector(
    name="first-exceptions",
    example=Example(
        given=(
            event(
                "py.value",
                kind="app",
                source="out",
                line=4,
                rank=3,
                exception="ValueError",
                message="bad",
                file="t.py",
                lineno="7",
            ),
            event("py.runtime", kind="app", source="out", line=9, rank=3, exception="RuntimeError", message="later"),
        ),
        expect={"first_exceptions": [{"rank": 3, "source": "out", "line": 4, "exception": "ValueError: bad", "at": "t.py:7"}]},
        quiet=(event("nat.segv", kind="app"),),
    ),
)
def first_exceptions(view: View) -> Mapping[str, object]:
    """For each rank the first exception that its output shows, with the user's last frame."""
    found: dict[tuple[str, int | None], dict[str, object]] = {}
    for e in sorted(view.events, key=lambda e: (e.source, e.line)):
        if e.kind != "app" or not e.fields.get("exception"):
            continue
        key = ("" if e.rank is not None else e.source, e.rank)
        if key in found or len(found) >= MOST:
            continue
        at = f"{e.fields['file']}:{e.fields.get('lineno', '')}" if "file" in e.fields else ""
        text = f"{e.fields['exception']}: {e.fields.get('message', '')}".rstrip(": ")[:240]
        found[key] = {"rank": e.rank, "source": e.source, "line": e.line, "exception": text, "at": at}
    return {"first_exceptions": list(found.values())} if found else {}
