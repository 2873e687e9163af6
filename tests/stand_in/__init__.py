"""A trainer without TensorFlow, for tests of what is around a training: a folder to be put on ``PYTHONPATH``."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
