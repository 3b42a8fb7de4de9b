"""Bundles that someone made on purpose: one line with file and key, or coverage; and the page and the schema agree."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from pathlib import Path

import jsonschema
import pytest
from bundle_fields import PLACES, rows

from attribution import pipeline, ruleset
from attribution.cli.schema import json_schema
from attribution.connectors.bundle import BLOCK, blocks, read_bundle
from attribution.errors import ConfigError

ATTEMPT = {
    "cluster": "c", "job_id": "1", "state": "FAILED", "exit_code": "1:0", "nodes": ["n1"], "start": "2026-01-01T00:00:00Z",
    "end": "2026-01-01T01:00:00Z",
}  # fmt: skip
PAGE = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text()


@pytest.fixture(scope="module")
def rules():
    return ruleset.load(samples=False)


def document(attempt=None, **more) -> dict:
    return {"schema": 1, "attempt": {**ATTEMPT, **(attempt or {})}, "sources": [], **more}


def complaint(tmp_path: Path, text: str | bytes) -> str:
    (tmp_path / "bundle.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        read_bundle(tmp_path)
    message = str(caught.value)
    assert message.isprintable()
    assert message.startswith(f"{tmp_path}/bundle.json: ")
    return message.removeprefix(f"{tmp_path}/bundle.json: ")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"schema": 1', '"schema": 1, "schema": 1', "schema"),
        ('"state": "FAILED"', '"state": "COMPLETED", "state": "FAILED"', "state"),
        ('"state": "FAILED"', '"state": "FAILED", "st\\u0061te": "FAILED"', "state"),
        ('"n1": "10.0.0.1"', '"n1": "10.0.0.1", "n1": "10.0.0.2"', "n1"),
        ('"offset": 1.0', '"offset": 1.0, "offset": 2.0', "offset"),
        ('"path": "a"', '"path": "a", "path": "b"', "path"),
    ],
)
def test_a_key_that_stands_twice_is_refused(tmp_path, old, new, key):
    good = json.dumps(
        document(
            {"node_addresses": {"n1": "10.0.0.1"}},
            nodes=[{"name": "n1", "clock": {"offset": 1.0}}],
            sources=[{"path": "a", "kind": "app"}],
        )
    )
    (tmp_path / "bundle.json").write_text(good)
    assert read_bundle(tmp_path)
    assert old in good
    assert complaint(tmp_path, good.replace(old, new)) == f"{key}: stands twice in the same object"


LONG = [f"n{i}" for i in range(100_001)]
NEIGHBOUR = {"job_id": "2", "nodes": ["n1"], "start": "2026-01-01T00:00:00Z"}


def node(**more) -> dict:
    return {"nodes": [{"name": "n1", **more}]}


RANGES = [
    (document({"uid": -1}), "attempt.uid"),
    (document({"uid": 2**32}), "attempt.uid"),
    (document({"uid": 10**30}), "attempt.uid"),
    (document({"restarts": -1}), "attempt.restarts"),
    (document({"het_offset": -1}), "attempt.het_offset"),
    (document({"nodes": LONG}), "attempt.nodes"),
    (document({"nodes": [""]}), "attempt.nodes"),
    (document({"job_id": ""}), "attempt.job_id"),
    (document({"node_addresses": {"n1": ["a"] * 1001}}), "attempt.node_addresses"),
    (document(**node(clock={"offset": -1e308})), "nodes[0].clock.offset"),
    (document(**node(clock={"offset": 4e9 + 1})), "nodes[0].clock.offset"),
    (document(**node(clock={"uncertainty": -0.1})), "nodes[0].clock.uncertainty"),
    (document(**node(clock={"uncertainty": 1e9})), "nodes[0].clock.uncertainty"),
    (document(**node(gpus=[{"index": -1, "pci": "x"}])), "nodes[0].gpus[0].index"),
    (document(**node(gpus=[{"index": 1024, "pci": "x"}])), "nodes[0].gpus[0].index"),
    (document(**node(gpus=[{"index": 0, "pci": ""}])), "nodes[0].gpus[0].pci"),
    (document(**node(boots=[{"id": "", "start": "2026-01-01T00:00:00Z"}])), "nodes[0].boots[0].id"),
    (document(**node(boots=[{"id": "x" * 129, "start": "2026-01-01T00:00:00Z"}])), "nodes[0].boots[0].id"),
    (document(sources=[{"path": "a", "kind": "app", "rank": -1}]), "sources[0].rank"),
    (document(sources=[{"path": "a", "kind": "app", "rank": 10**7}]), "sources[0].rank"),
    (document(sources=[{"path": "a", "kind": "kern", "boot_id": ""}]), "sources[0].boot_id"),
    (document(sources=[{"path": "a", "kind": "record"}]), "sources[0].kind"),
    (document(sources=[{"path": "/a", "kind": "app"}]), "sources[0].path"),
    (document(sources=[{"path": "a/../../b", "kind": "app"}]), "sources[0].path"),
    (document(sources=[{"path": "", "kind": "app"}]), "sources[0].path"),
    (document(sources=[{"path": f"s{i}", "kind": "app"} for i in range(100_001)]), "sources"),
    (document(neighbours=[{**NEIGHBOUR, "pids": [-1]}]), "neighbours[0].pids[0]"),
    (document(neighbours=[{**NEIGHBOUR, "uid": -1}]), "neighbours[0].uid"),
]


@pytest.mark.parametrize(("given", "key"), RANGES, ids=[f"{n}-{key}" for n, (_, key) in enumerate(RANGES)])
def test_what_is_out_of_range_is_refused_by_the_reader_and_by_the_schema(tmp_path, given, key):
    assert complaint(tmp_path, json.dumps(given)).startswith(f"{key}")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(given, json_schema("bundle"))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 6000, '"1"', "true"])
def test_a_number_that_is_none_is_refused(tmp_path, number):
    text = json.dumps(document(**node(clock={"offset": 7.5})))
    assert complaint(tmp_path, text.replace("7.5", number))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (document({"nodes": ["n1", "n2", "n1"]}), "attempt.nodes: lists 'n1' twice"),
        (document(nodes=[{"name": "n1"}, {"name": "n1"}]), "nodes: lists 'n1' twice"),
        (document(**node(gpus=[{"index": 0, "pci": "a"}, {"index": 0, "pci": "b"}])), "nodes[0].gpus: lists 0 twice"),
        (document(**node(boots=[{"id": "b", "start": "2026-01-01T00:00:00Z"}] * 2)), "nodes[0].boots: lists 'b' twice"),
        (document({"node_addresses": {"n1": "10.0.0.1:99999"}}), "attempt.node_addresses.n1: '10.0.0.1:99999': the port"),
        (document({"node_addresses": {"n1": ["[fe80::1]:0"]}}), "attempt.node_addresses.n1: '[fe80::1]:0': the port"),
        (document(**node(addresses=["10.0.0.1:65536"])), "nodes[0].addresses: '10.0.0.1:65536': the port"),
        (document({"log_timezone": "localtime"}), "attempt.log_timezone: is another zone on each machine"),
        (document({"log_timezone": "../../etc/passwd"}), "attempt.log_timezone: "),
        (document({"log_timezone": "x" * 5000}), "attempt.log_timezone: "),
        (document({"log_timezone": "\0"}), "attempt.log_timezone: "),
        (document({"start": "2026-01-01T00:00:00+99:99"}), "attempt.start: '2026-01-01T00:00:00+99:99' has an offset"),
        (document({"end": "2026-01-01T00:00:00-16:00"}), "attempt.end: '2026-01-01T00:00:00-16:00' has an offset"),
        (document({"start": "\uff12026-01-01T00:00:00Z"}), "attempt.start: "),
        (document({"start": "0001-01-01T00:00:00+14:00"}), "attempt.start: "),
        (
            document({"allocation_failure": {"allocation_id": "1", "state": "F", "source": "s", "time": "now"}}),
            "attempt.allocation_failure.time: ",
        ),
    ],
)  # fmt: skip
def test_what_only_the_reader_sees_is_refused_with_its_key(tmp_path, given, says):
    assert complaint(tmp_path, json.dumps(given)).startswith(says)


def test_addresses_with_and_without_a_port_are_fine(tmp_path):
    given = document({"node_addresses": {"n1": ["10.0.0.1:6817", "fe80::1", "[fe80::1]:22", "10.0.0.1", "host.example"]}})
    (tmp_path / "bundle.json").write_text(json.dumps(given))
    assert read_bundle(tmp_path)


def test_a_bundle_json_that_is_no_file(tmp_path):
    path = tmp_path / "bundle.json"
    makes = {
        "is no regular file": lambda: os.mkfifo(path),
        "can't be read: Is a directory": path.mkdir,
        "can't be read: Too many levels of symbolic links": lambda: path.symlink_to("bundle.json"),
        "is larger than 64 MiB": lambda: (path.touch(), os.truncate(path, 1 << 40)),
    }
    for says, make in [*makes.items(), ("is no regular file", lambda: path.symlink_to("/dev/zero"))]:
        make()
        with pytest.raises(ConfigError, match=re.escape(says)):
            read_bundle(tmp_path)
        path.rmdir() if path.is_dir() else path.unlink()


def test_sources_that_are_no_files_are_coverage(tmp_path, rules):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
    (tmp_path / "proc").symlink_to("/proc/kmsg")
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "loop").symlink_to(tmp_path / "loop")
    names = ["sock", "proc", "loop", "loop/" * 60 + "x", "x" * 5000, "a\nb\x1b[31m", "x/" * 3000 + "y"]
    given = document({"nodes": ["n\n1"]}, sources=[{"path": n, "kind": "app", "node": "n\n1"} for n in names])
    (tmp_path / "bundle.json").write_text(json.dumps(given))
    verdict = pipeline.analyze_bundle(tmp_path, rules=rules).verdict
    found = {c.source: c.state for c in verdict.coverage}
    assert {found[n] for n in names} == {"unreachable", "denied"}


def test_holes_are_not_read(tmp_path, rules):
    with (tmp_path / "app").open("wb") as file:
        file.write(b"Traceback (most recent call last):\n  File x\n")
        file.seek(1 << 39)
        file.write(b"\nValueError: x\n")
        file.truncate(1 << 40)
    began = time.process_time()
    with (tmp_path / "app").open("rb", buffering=0) as file:
        assert sum(map(len, blocks(file))) < 1 << 24
    (tmp_path / "bundle.json").write_text(json.dumps(document(sources=[{"path": "app", "kind": "app", "node": "n1"}])))
    assert pipeline.analyze_bundle(tmp_path, rules=rules).verdict.domain == "application"
    assert time.process_time() - began < 10


@pytest.mark.parametrize("size", [0, 1, BLOCK, BLOCK + 1])
def test_a_file_without_holes_is_read_as_it_is(tmp_path, size):
    (tmp_path / "x").write_bytes(b"x" * size)
    with (tmp_path / "x").open("rb", buffering=0) as file:
        assert b"".join(blocks(file)) == b"x" * size


def test_many_sources(tmp_path, rules):
    given = document(sources=[{"path": f"s{i}", "kind": "kern", "node": "n1"} for i in range(20_000)])
    (tmp_path / "bundle.json").write_text(json.dumps(given))
    assert len(pipeline.analyze_bundle(tmp_path, rules=rules).verdict.coverage) > 20_000


@pytest.mark.parametrize("place", PLACES)
def test_the_page_tells_type_and_default_of_every_field(place):
    section = PAGE.split(f"\n**{PLACES[place]}**\n")[1].split("\n**")[0]
    told = [row.rsplit(" | ", 1)[0] for row in section.splitlines() if row.startswith("| ")][1:]
    assert told == [f"| {field} | {row}" for field, row in rows()[place].items()]


def test_every_case_fits_the_schema():
    validator = jsonschema.Draft202012Validator(json_schema("bundle"))
    cases = sorted(Path(__file__).parents[1].glob("cases/*/bundle.json"))
    assert len(cases) > 100
    for case in cases:
        validator.validate(json.loads(case.read_text()))
