"""The node: the operating system, the allocation, the devices."""

from __future__ import annotations
