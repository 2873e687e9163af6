"""Links to agents, the mirrors of journals, and the runs and jobs that a viewer knows. No Qt."""

from __future__ import annotations
