"""The journal of a run: frames, files, events, lifecycle, and the curves that they fold into."""

from __future__ import annotations
