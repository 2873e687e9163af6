"""Journal in, files out: CSV, JSONL, TensorBoard and Parquet. Heavy imports stand inside the functions."""

from __future__ import annotations
