"""``python -m clew_gui`` is the same as its console script."""

from __future__ import annotations

import sys

from clew_gui.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
