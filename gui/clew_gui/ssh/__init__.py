"""Connections through SSH: one interface, with paramiko or with the OpenSSH of the system behind it."""

from __future__ import annotations
