"""The plots of the Run tab. Importing this loads NumPy, so the window does it later."""

from __future__ import annotations
