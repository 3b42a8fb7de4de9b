from attribution.rule import Accumulated, Demote, Example, accumulator, collector, event, filter_rule


class _Traceback:
    def __init__(self):
        self.last = ""

    def feed(self, text):
        self.last = text.strip()
        return text.startswith("  ")

    def result(self):
        yield Accumulated(symptom="app.exception", fields={"said": self.last})


@accumulator(
    name="traceback",
    trigger=r"^Traceback \(most recent call last\)",
    reads=("app",),
    example=Example(given=("Traceback (most recent call last):", "  File", "ValueError: x"), expect=("app.exception",)),
)
def traceback(fields, line):
    """A traceback's last line."""
    return _Traceback()


@filter_rule(
    name="lost-twice",
    stage="LATE",
    example=Example(
        given=(event("gpu.off_bus", "n1", time=1.0), event("gpu.lost", "n1", time=2.0)), expect=("demote gpu.lost",)
    ),
)
def lost_twice(view):
    """A GPU that is off the bus can't be reached either."""
    for off in view.of("gpu.off_bus"):
        for lost in view.of("gpu.lost"):
            if lost.node == off.node:
                yield Demote(event=lost.id, reason="it is off the bus", by=off.id)


@collector(name="steps", example=Example(given=(event("app.progress", step="7"),), expect={"last_step": "7"}))
def steps(view):
    """The last step."""
    return {"last_step": next((e.fields["step"] for e in view.of("app.progress", live=False)), None)}
