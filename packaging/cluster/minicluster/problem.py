"""The error that a person sees."""

from __future__ import annotations

import sys


class ClusterError(Exception):
    """What cannot be done, and what to do about it."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint

    def report(self) -> int:
        """Print it on standard error; returns the exit status."""
        print(f"cluster: {self}", file=sys.stderr)
        if self.hint:
            print(f"    {self.hint}", file=sys.stderr)
        return 1
