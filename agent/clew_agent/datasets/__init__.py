"""Data sets: where they are looked for, how they are read and checked. NumPy only, no TensorFlow."""

from __future__ import annotations
