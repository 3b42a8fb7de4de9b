from __future__ import annotations

import contextlib
import os
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from attribution.config import Config, check_ownership, load, markdown, parse, show
from attribution.config.sections import SECTIONS
from attribution.errors import ConfigError
from attribution.model import Strict


class Loki(Strict, frozen=True):
    """Where Loki answers."""

    url: Annotated[str, Meta(description="Its address.")] = ""


def test_without_a_file_the_defaults_hold():
    config = parse("")
    assert config.spool.dir == "/var/spool/sattrib"
    assert config.comment.on == "failed"
    assert config.slurm.backend == "cli"
    assert config == Config()


def test_values_are_read():
    config = parse('[app]\nvia = "host login-01"\n[local.nodes]\nkern = ["/logs/{node}/kern.log"]\n[comment]\nper_second = 2')
    assert config.app.via == "host login-01"
    assert config.local.nodes == {"kern": ("/logs/{node}/kern.log",)}
    assert config.comment.per_second == 2.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[spol]\n", "f.toml: spol: unknown section; did you mean spool?"),
        ("[spool]\ndri = 1\n", "f.toml: spool.dri: unknown key; did you mean dir?"),
        ("[spool]\nzzz = 1\n", "f.toml: spool.zzz: unknown key; known are dir, stop_percent, resume_percent"),
        ("spool = 3\n", "f.toml: spool: is a section: write [spool]"),
        ("[worker]\nslots = 'two'\n", "f.toml: worker.slots: expected `int`, got `str`"),
        ("[worker]\nslots = 0\n", "f.toml: worker.slots: expected `int` >= 1"),
        ("[comment]\non = 'never'\n", "f.toml: comment.on: invalid enum value 'never'"),
        ("[rules]\ndirs = ['rules']\n", "f.toml: rules.dirs[0]: expected `str` matching regex '^/'"),
        ("[collect]\nsources = ['kernel']\n", "f.toml: collect.sources[0]: invalid enum value 'kernel'"),
        ("[app]\nvia = 'host -oProxyCommand=x'\n", "f.toml: app.via: expected `str` matching regex"),
        ("[spool]\nresume_percent = 95\n", "f.toml: spool.resume_percent: must be less than stop_percent"),
        ("[local.nodes]\nbogus = ['/x']\n", "f.toml: local.nodes: invalid enum value 'bogus'"),
        ("a = ", "f.toml: is not TOML: Invalid value (at end of document)"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(text, says):
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.toml")
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_other_rooms_declare_their_sections():
    more = {"loki": Loki}
    assert parse("", more=more).more == {"loki": Loki()}
    assert parse("[loki]\nurl = 'http://l'", more=more).more == {"loki": Loki(url="http://l")}
    with pytest.raises(ConfigError, match=r"loki\.urll: unknown key; did you mean url\?"):
        parse("[loki]\nurll = 'x'", more=more)
    with pytest.raises(ConfigError, match="unknown section"):
        parse("[loki]")
    assert "[loki]" in markdown(more)


def test_a_missing_file_is_fine_only_by_default(monkeypatch, tmp_path):
    monkeypatch.setattr("attribution.config.reading.DEFAULT_PATH", str(tmp_path / "none.toml"))
    assert load() == Config()
    with pytest.raises(ConfigError, match="no such file"):
        load(str(tmp_path / "none.toml"))


def test_a_file_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr("attribution.config.reading.trusts_only_root", lambda: False)
    file = tmp_path / "s.toml"
    file.write_bytes(b"[worker]\nslots = 7\n")
    assert load(str(file)).worker.slots == 7
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(str(file))
    with pytest.raises(ConfigError, match="can't be read"):
        load(str(tmp_path))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A directory whose parents count as safe: /tmp itself never does, being writable by all."""
    real_lstat = Path.lstat
    outside = set(tmp_path.parents)

    def lstat(self):
        state = real_lstat(self)
        return os.stat_result((0o40755, *list(state)[1:4], os.geteuid(), *list(state)[5:])) if self in outside else state

    monkeypatch.setattr(Path, "lstat", lstat)
    tmp_path.chmod(0o755)
    return tmp_path


def test_ownership_accepts_what_only_the_caller_writes(own):
    file = own / "f"
    file.write_text("")
    file.chmod(0o644)
    check_ownership(file)
    (own / "link").symlink_to(file)
    check_ownership(own / "link")


def test_ownership_refuses_what_others_can_write(own):
    file = own / "f"
    file.write_text("")
    file.chmod(0o664)
    with pytest.raises(ConfigError, match="f: is writable by others"):
        check_ownership(file)
    file.chmod(0o644)
    own.chmod(0o777)
    with pytest.raises(ConfigError, match=f"has the parent {own}, which is writable by others"):
        check_ownership(file)


def test_ownership_checks_what_a_link_passes_through(own):
    (own / "open").mkdir()
    target = own / "open" / "f"
    target.write_text("")
    target.chmod(0o644)
    (own / "open").chmod(0o777)
    (own / "link").symlink_to(target)
    with pytest.raises(ConfigError, match=r"has the parent .*/open"):
        check_ownership(own / "link")


def test_ownership_refuses_foreign_owners_and_missing_files(own):
    file = own / "f"
    file.write_text("")
    with pytest.raises(ConfigError, match="owned by uid"):
        check_ownership(file, frozenset({os.geteuid() + 4321}))
    with pytest.raises(ConfigError, match="can't be checked: No such file"):
        check_ownership(own / "none")


def test_every_key_says_what_it_is():
    for name, section in SECTIONS.items():
        assert section.__doc__, name
        for key in msgspec.json.schema(section)["$defs"][section.__name__]["properties"].values():
            assert key.get("description") or key.get("allOf"), (name, key)


def test_show_can_be_read_back():
    config = parse('[local.nodes]\nkern = ["/l/{node}"]\n[app]\nextra = ["a\\"b\\\\", "\\u0007é"]')
    assert parse(show(config)) == config


@given(st.text())
def test_strings_survive_show(text):
    config = Config(cluster=SECTIONS["cluster"](name=text))
    assert tomllib.loads(show(config))["cluster"]["name"] == text


def test_docs_are_current():
    page = Path(__file__).parent.parent / "docs" / "config.md"
    assert page.read_text() == markdown(), "run: python -m attribution.config > docs/config.md"


@given(st.text())
def test_any_text_is_a_config_or_one_error(text):
    with contextlib.suppress(ConfigError):
        parse(text)
