"""The worker: job ends become verdicts in the archive and lines in sacct. `serve` runs it.

hook's records (intake.py) and the accounting (polling.py) -> works (work.py) -> ready (readiness.py)
-> bundle (gather.py) -> a child (pool.py, child.py) -> archive (keep.py) -> sacct (comments.py)

A record leaves the spool only after its verdict is committed; what is in memory alone can be found again. So a kill at
any moment loses no attempt, and the archive's keys let none in twice.
"""

from __future__ import annotations

from attribution.worker.loop import serve

__all__ = ["serve"]
