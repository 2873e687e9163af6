"""Links to agents, the journal mirror, job records and the run model. No Qt."""

from __future__ import annotations
