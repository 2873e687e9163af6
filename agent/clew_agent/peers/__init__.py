"""The other processes of a run that spreads over several: how they are started, meet, are led, watched and ended."""

from __future__ import annotations
