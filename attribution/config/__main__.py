"""Print docs/config.md."""

from __future__ import annotations

import sys

from attribution.config.reference import markdown

sys.stdout.write(markdown())
