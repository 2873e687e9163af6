"""Messages between a viewer and an agent, and the encrypted channel. PROTOCOL.md is the authority."""

from __future__ import annotations
