"""The plots of the Run tab."""

from __future__ import annotations
