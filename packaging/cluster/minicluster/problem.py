"""What a person can meet as a refusal."""

from __future__ import annotations


class ClusterError(Exception):
    """Something that cannot be done, and what to do about it."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint
