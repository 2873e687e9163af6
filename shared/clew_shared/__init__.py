"""The parts that laptop and node must agree on: protocol, journal, lifecycle, parameters, cards, run specs."""

from __future__ import annotations

__version__ = "0.9.0"
"""Version of the whole distribution; also read where only the sources were uploaded and no package metadata exists."""
