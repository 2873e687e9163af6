"""SHA-256 of the beginning of a file that may grow.

Only Python's own modules here: a trainer that records fast waits for the program that hashes its journal, and what that
program imports it waits for too.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK = 1 << 18


class PrefixHash:
    """SHA-256 of the first n bytes of a file, for growing n, each byte read once. Raises ``OSError`` as it comes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._hash = hashlib.sha256()
        self.size = 0
        """Bytes that are hashed."""

    def __enter__(self) -> PrefixHash:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def sha256(self, size: int) -> str:
        """Returns the digest of the first ``size`` bytes, or of all when there are fewer."""
        while self.size < size and (data := self._file.read(min(size - self.size, _CHUNK))):
            self._hash.update(data)
            self.size += len(data)
        return self._hash.hexdigest()
