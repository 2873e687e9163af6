"""The doctor: every hop and need of a site looked at in order, each with a sentence that says how to mend it.

``examine`` goes through them; commands and the window show its findings as they come.
"""

from __future__ import annotations

from clew_gui.remote.doctor.examine import examine
from clew_gui.remote.doctor.finding import Finding, Verdict

__all__ = ["Finding", "Verdict", "examine"]
