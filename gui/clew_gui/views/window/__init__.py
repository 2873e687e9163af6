"""The main window and its bars."""

from __future__ import annotations
