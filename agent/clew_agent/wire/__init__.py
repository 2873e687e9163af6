"""The agent's end of the wire: the server, long polls, and where a viewer finds it."""

from __future__ import annotations
