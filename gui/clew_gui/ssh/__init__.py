"""Connections through SSH: one interface, implemented with paramiko or with the system's OpenSSH."""

from __future__ import annotations
