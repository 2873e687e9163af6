"""The catalogue: exercise files are described in a child process."""

from __future__ import annotations
