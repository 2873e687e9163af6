"""The doctor: checks every step of the way to a site and everything that runs need there."""

from __future__ import annotations
