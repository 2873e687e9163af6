"""What a site needs before the first job: the agent, the packages that it lacks there, and the user's files.

All of it waits for the network and is called from worker threads only. ``tell`` takes progress in sentences.
"""

from __future__ import annotations

from clew_gui.remote.bootstrap.install import Installed, ensure_agent, try_packages
from clew_gui.remote.bootstrap.staging import stage, stage_exercises

__all__ = ["Installed", "ensure_agent", "stage", "stage_exercises", "try_packages"]
