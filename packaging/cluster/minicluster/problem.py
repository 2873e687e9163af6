"""What a person can meet as a refusal."""

from __future__ import annotations

import sys


class ClusterError(Exception):
    """Something that cannot be done, and what to do about it."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint

    def tell(self) -> int:
        """Say it on standard error; the exit status to end with."""
        print(f"cluster: {self}", file=sys.stderr)
        if self.hint:
            print(f"    {self.hint}", file=sys.stderr)
        return 1
