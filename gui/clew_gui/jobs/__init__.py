"""Jobs on sites: sent, watched, reached, ended, and the record of them on this computer."""

from __future__ import annotations
