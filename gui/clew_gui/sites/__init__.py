"""The machines that runs can go to: their files, and a site as commands and files."""

from __future__ import annotations
