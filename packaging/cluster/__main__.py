"""The program behind ``packaging/cluster/cluster``."""

from __future__ import annotations

import sys

from minicluster.cli import main

sys.exit(main())
