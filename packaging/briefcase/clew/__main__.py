"""Opens the window."""

from __future__ import annotations

import sys

from clew_gui.commands.main import window

if __name__ == "__main__":
    sys.exit(window())
