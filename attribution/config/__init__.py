"""The configuration of sattrib: one TOML file, checked strictly; without it the defaults work on a controller."""

from __future__ import annotations

from attribution.config.ownership import check_ownership
from attribution.config.reading import DEFAULT_PATH, load, parse
from attribution.config.reference import markdown, show
from attribution.config.sections import Config

__all__ = ["DEFAULT_PATH", "Config", "check_ownership", "load", "markdown", "parse", "show"]
