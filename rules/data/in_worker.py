"""Exceptions that a data loader's worker raised: what failed is reading or preparing the data."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Example, Retag, View, event, filter_rule

PLAIN = ("py.traceback", "py.type_attr", "py.value", "py.runtime", "py.arith", "py.oserror", "py.notfound", "pt.shape")


@filter_rule(
    name="raised-in-a-loader-worker",
    stage="STANDARD",
    example=Example(
        given=(event("py.type_attr", kind="app", loader="yes", exception="KeyError"),),
        expect=("retag py.type_attr ds.worker_error",),
        quiet=(event("py.type_attr", kind="app", exception="KeyError"),),
    ),
)
def raised_in_a_loader_worker(view: View) -> Iterable[Change]:
    """A plain exception says little; that a worker of the data loader raised it says where."""
    for e in view.of(*PLAIN):
        if e.fields.get("loader") == "yes":
            yield Retag(event=e.id, symptom="ds.worker_error", reason="a worker of the data loader raised it")
