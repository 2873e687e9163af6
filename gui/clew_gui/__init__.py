"""The laptop side of Clew: schedulers, SSH, sites, jobs, session, plotting, views and the ``clew`` command."""

from __future__ import annotations
