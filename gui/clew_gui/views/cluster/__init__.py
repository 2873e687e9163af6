"""The *Cluster* tab: what the processes of a parameter-server run do, and buttons that disturb them."""

from __future__ import annotations
