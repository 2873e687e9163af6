"""What runs on the laptop: session, remote access, plotting, views, reports and the ``clew`` command."""

from __future__ import annotations
