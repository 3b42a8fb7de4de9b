from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A machine that is busy with something else is no failure, and two runs of the same tests try the same examples.
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("sattrib", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sattrib"))


@pytest.fixture(autouse=True)
def no_ambient_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests must not see the job, or the sattrib, of the shell that runs them."""
    for name in list(os.environ):
        # SATTRIB_CLUSTER_* are for the tests themselves (docs/test-cluster.md).
        if name.startswith(("SLURM_", "SATTRIB_")) and not name.startswith("SATTRIB_CLUSTER_"):
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
