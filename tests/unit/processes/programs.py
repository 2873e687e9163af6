"""Programs of the tests of forked processes, which need an interpreter of their own with one thread."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def answer_of(program: str, folder: Path) -> dict[str, object]:
    """What the program, given the name of a folder of its own, says in its last line; it must end well."""
    words = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer
