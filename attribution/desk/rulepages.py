"""The symptoms as pages for people: one Markdown page a domain, and an index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from attribution.desk.rulebook import ADVICE, ROLES, brief, followed, symptoms_of
from attribution.engine.rules import RuleSet
from attribution.model import DOMAINS, Symptom
from attribution.report.escape import escape

INDEX = "README.md"
_MOST_SAMPLES, _WIDEST = 3, 200
_ORDER = {"root": 0, "cascade": 1, "teardown": 2, "context": 3}
_DOMAINS = {
    "hardware": "a device or node broke",
    "network": "fabric, network card, RDMA, routes, and their set-up",
    "storage": "file systems, quotas, and their set-up",
    "platform": "node software: driver, Fabric Manager, daemons, site configuration",
    "container": "image, mount, runtime, arguments of pyxis, enroot, apptainer, docker",
    "scheduler": "Slurm itself: limits, cancel, preemption, prolog, launch",
    "application": "the user's code, data, configuration, memory need",
    "unknown": "it failed, and the evidence does not say why",
    "none": "it did not fail",
}


def pages(rules: RuleSet) -> dict[str, str]:
    """File name -> text. The same rules give the same pages."""
    found = {f"{domain}.md": _Page(rules, domain).text() for domain in DOMAINS if _of(rules, domain)}
    return {INDEX: _index(rules), **found}


def write_pages(rules: RuleSet, folder: Path) -> list[Path]:
    """Write all pages; those of domains that have no symptom any more are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages(rules)
    for domain in DOMAINS:
        if f"{domain}.md" not in wanted:
            (folder / f"{domain}.md").unlink(missing_ok=True)
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in wanted]


def anchor(heading: str) -> str:
    """What a heading is called in a link: lower case, no dots."""
    return "".join(ch for ch in heading.lower().replace(" ", "-") if ch.isalnum() or ch in "-_")


def _of(rules: RuleSet, domain: str) -> list[Symptom]:
    return sorted(
        (s for s in rules.symptoms.values() if s.domain == domain), key=lambda s: (_ORDER[s.role], s.sub_domain, s.rank, s.id)
    )


def _index(rules: RuleSet) -> str:
    text = [
        "# Symptoms",
        "",
        "What sattrib recognises, what it usually follows and causes, and what to do. These pages are made from the rules by",
        "`sattrib rules docs docs/symptoms`; `sattrib rules show NAME` says the same of one.",
        "",
        "| domain | means | symptoms | of which can be the cause |",
        "|---|---|---|---|",
    ]
    for domain in DOMAINS:
        members = _of(rules, domain)
        if members:
            roots = sum(s.role == "root" for s in members)
            text.append(f"| [{domain}]({domain}.md) | {_DOMAINS[domain]} | {len(members)} | {roots} |")
    text += ["", "## Words", ""]
    text += [f"* **{role}**: {words}." for role, words in ROLES.items()]
    text += [f"* advice **{action}**: {words}." for action, words in ADVICE.items()]
    return "\n".join(text) + "\n"


class _Page:
    """One domain's page."""

    def __init__(self, rules: RuleSet, domain: str) -> None:
        self.rules, self.domain = rules, domain
        self.samples = _samples(rules)

    def text(self) -> str:
        found = [f"# {self.domain}: {_DOMAINS[self.domain]}", "", f"[All domains]({INDEX})", ""]
        for symptom in _of(self.rules, self.domain):
            found += self.section(symptom)
        return "\n".join(found).rstrip("\n") + "\n"

    def section(self, symptom: Symptom) -> list[str]:
        place = f"{symptom.domain}/{symptom.sub_domain}, {symptom.role}"
        drain = "; a drain is suggested" if symptom.drains else ""
        rows = [
            ("do", f"{ADVICE[symptom.advice]} ({symptom.advice}{drain}); owner {symptom.owner}"),
            ("follows", self.links(followed(self.rules, symptom))),
            ("causes", self.links(dict.fromkeys(e.symptom for e in symptom.explains))),
            ("more precise than", self.links(symptom.beats)),
            ("lingers", "" if symptom.lingers == "no" else f"from before the start, until {symptom.lingers}"),
            ("also called", ", ".join(symptom.aliases)),
            ("see", ", ".join(f"<{r}>" if r.startswith("https://") and " " not in r else _plain(r) for r in symptom.refs)),
        ]
        found = [f"## {symptom.id}", "", f"**{_plain(symptom.says)}** ({place})", ""]
        if symptom.detail:
            found += [_plain(" ".join(symptom.detail.split())), ""]
        found += [f"* {heading}: {words}" for heading, words in rows if words] + [""]
        samples = self.samples.get(symptom.id, [])[:_MOST_SAMPLES]
        shown = [escape(line)[:_WIDEST] for line in samples]
        return [*found, "```text", *shown, "```", ""] if shown else found

    def links(self, names: Iterable[str]) -> str:
        """Symptoms as links, globs as they are; a long list is counted."""
        return ", ".join(brief([self._link(n) for n in names]))

    def _link(self, name: str) -> str:
        symptom = self.rules.symptoms.get(name)
        return f"[{name}]({symptom.domain}.md#{anchor(name)})" if symptom else f"`{name}`"


def _samples(rules: RuleSet) -> Mapping[str, list[str]]:
    """Symptom -> lines that give it; a few from each rule."""
    found: dict[str, list[str]] = {}
    for rule in rules.extractors:
        if rule.metric is not None:
            for name in symptoms_of(rule):
                found.setdefault(name, []).append(f"{rule.metric.query} {rule.metric.op} {rule.metric.value:g}")
            continue
        given: dict[str, int] = {}
        for sample in rule.match:
            matcher = rules.matchers[rule.name]
            hit = matcher.match(matcher.body(sample))
            if hit is not None and given.setdefault(hit[1].symptom, 0) < 2:
                given[hit[1].symptom] += 1
                found.setdefault(hit[1].symptom, []).append(sample.rstrip("\n"))
    return found


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return "".join("\\" + ch if ch in "\\*<>[]_`|#" else ch for ch in escape(text))
