"""``python -m clew_agent`` is the same as its console script."""

from __future__ import annotations

import sys

from clew_agent.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
