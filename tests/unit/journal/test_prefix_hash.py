"""The hash of the beginning of a file that may still grow."""

from __future__ import annotations

import hashlib
from pathlib import Path

from clew_shared.journal.files import PrefixHash


def test_a_prefix_is_read_once_and_grows_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.0001"
    path.write_bytes(b"abc")
    with PrefixHash(path) as prefix, path.open("ab") as file:
        assert prefix.sha256(5) == hashlib.sha256(b"abc").hexdigest()
        assert prefix.size == 3
        file.write(b"def")
        file.flush()
        assert prefix.sha256(5) == hashlib.sha256(b"abcde").hexdigest()
