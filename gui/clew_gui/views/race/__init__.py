"""The race: its dialog and the line of places above the plots."""

from __future__ import annotations
