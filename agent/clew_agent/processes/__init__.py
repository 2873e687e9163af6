"""The processes around a trainer: guard, nursery, standby, sealer."""

from __future__ import annotations
