"""The data sets that Clew knows by name. Each module is one: ``CARD`` describes it, ``read`` reads its files."""

from __future__ import annotations
