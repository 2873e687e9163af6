"""The commands of a page in docs, as a reader would type them: blocks of ``bash``, and the marks before them.

A block without a mark is run. ``<!-- cluster -->`` needs the mini cluster (tests/cluster/test_pages.py), and
``<!-- not run: why -->`` is never run; readers see neither.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"
CLUSTER, NOT_RUN = "cluster", "not run"
_BLOCK = re.compile(r"^(?:<!-- ([^:\n]+?)(?:: [^\n]*)? -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """Lines to type, and the mark before them; empty if there is none."""

    mark: str
    lines: str


def blocks(page: str) -> list[Block]:
    """All blocks of commands of a page, in their order."""
    found = _BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    return [Block(mark, lines) for mark, language, lines in found if language == "bash"]


def marks(page: str) -> Counter[str]:
    """How many blocks have each mark."""
    return Counter(block.mark for block in blocks(page))


def script(page: str, mark: str = "") -> str:
    """The blocks with this mark as one script, which stops at the first command that fails."""
    return "".join(["set -euo pipefail\n", *(block.lines for block in blocks(page) if block.mark == mark)])


def type_in(page: str, folder: Path, home: Path, limit_s: float) -> str:
    """Runs a page's commands in an empty folder; returns what they printed. Fails with it if one of them fails."""
    programs = Path(sys.executable).parent
    environment = os.environ | {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / ".local/share"),  # where `clew desktop-entry` writes
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "CLEW_HOME": str(home),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-x", "-c", script(page)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout
