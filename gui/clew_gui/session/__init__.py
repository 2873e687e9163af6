"""Links to agents, the journal mirror, job records and the run model. No Qt."""

from __future__ import annotations

from clew_gui.session.changes import Changes
from clew_gui.session.job_model import JobModel, Place
from clew_gui.session.run_model import RunModel
from clew_gui.session.session import Session
from clew_gui.session.states import LinkState, LinkStatus

__all__ = ["Changes", "JobModel", "LinkState", "LinkStatus", "Place", "RunModel", "Session"]
