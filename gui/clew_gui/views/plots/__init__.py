"""The stacked convergence plots of the *Run* tab. Importing this loads NumPy, so the window does it in a thread."""

from __future__ import annotations

from clew_gui.views.plots.panel import ConvergencePlots

__all__ = ["ConvergencePlots"]
