"""The base of all other packages: problems, places, private files, bytes from elsewhere, words for people."""

from __future__ import annotations
