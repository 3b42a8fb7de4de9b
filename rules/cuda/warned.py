"""Why a program sees no GPU: its framework said so in a warning before."""

from __future__ import annotations

from collections.abc import Iterable

from attribution.rule import Change, Event, Example, Retag, View, event, filter_rule

MEANT = {
    "3": "cuda.unknown",
    "999": "cuda.unknown",
    "803": "cuda.mismatch",
    "804": "cuda.insufficient",
    "too old": "cuda.insufficient",
    "unknown error": "cuda.unknown",
    "CUDA_ERROR_UNKNOWN": "cuda.unknown",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "cuda.mismatch",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "cuda.insufficient",
}


def _meant(warning: Event) -> str | None:
    if warning.symptom == "fm.cuda_warned":
        return "fm.cuda_not_init"
    return MEANT.get(next((warning.fields[f] for f in ("error", "word", "old", "unknown") if warning.fields.get(f)), ""))


@filter_rule(
    name="the-warning-says-why-there-is-no-gpu",
    stage="EARLY",
    example=Example(
        given=(event("fm.cuda_warned", kind="app", line=1), event("cuda.nodevice", kind="app", line=5)),
        expect=("retag cuda.nodevice fm.cuda_not_init",),
        quiet=(event("cuda.nodevice", kind="app", line=1), event("fm.cuda_warned", kind="app", line=5)),
    ),
)
def the_warning_says_why_there_is_no_gpu(view: View) -> Iterable[Change]:
    """A framework warns with CUDA's error when it starts; that no GPU is there, which the program says later, follows."""
    warnings = view.of("fm.cuda_warned", "cuda.init_warned")
    for missing in view.of("cuda.nodevice") if warnings else ():
        for w in warnings:
            symptom = _meant(w)
            if symptom and w.source == missing.source and w.line < missing.line and w.rank in (None, missing.rank):
                yield Retag(event=missing.id, symptom=symptom, reason=f"the framework warned why (line {w.line})")
                break
