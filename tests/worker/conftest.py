from __future__ import annotations

import pytest
from controller import Site


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def make_site(tmp_path):
    return lambda more: Site(tmp_path / "made", more)
