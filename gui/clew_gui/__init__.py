"""The laptop side of Clew: schedulers, SSH, sites, jobs, session, charts, views and the ``clew`` command."""

from __future__ import annotations
