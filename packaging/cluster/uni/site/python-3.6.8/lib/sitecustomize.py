"""Makes a Python say that it is 3.6.8: it is imported when that starts."""

from __future__ import annotations

import sys

sys.version_info = (3, 6, 8, "final", 0)  # type: ignore[assignment]  # what asks compares it as a tuple
sys.version = "3.6.8 (default, Sep 10 2021, 09:13:53) [GCC 8.5.0 20210514]"
