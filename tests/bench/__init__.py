"""Measurements; run by make bench, never by make test."""

from __future__ import annotations
