"""The spool: job ends that the hook recorded, and requests of people, as files whose names are their states.

SPOOL/<id>.env              a job end, waiting          SPOOL/<id>.ask      a request, waiting
SPOOL/claimed/<name>.<n>    taken; work on it was begun n times
SPOOL/failed/<name>.<why>   given up, or never a record
SPOOL/.tmp.*, SPOOL/.ask.*  being written
SPOOL/stop                  the hook writes nothing while this exists
"""

from __future__ import annotations

from attribution.spool.record import Record, dump, parse
from attribution.spool.space import measure, update_stop
from attribution.spool.store import TRIES, Claim, Entry, Spool

__all__ = ["TRIES", "Claim", "Entry", "Record", "Spool", "dump", "measure", "parse", "update_stop"]
