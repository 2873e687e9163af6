"""The links of a session: threads that talk to agents, and the copies of journals that they keep."""

from __future__ import annotations
