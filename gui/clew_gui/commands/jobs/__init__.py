"""Commands for jobs on sites: `clew jobs`, `attach`, `cancel`, `hold`, `open`, `shell`, `fetch`."""

from __future__ import annotations
