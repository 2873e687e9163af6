"""What operating systems do differently, chosen once: no module outside this package asks which system it runs on.

``posix`` is for Linux and macOS, ``windows`` for Windows; both offer the same names, all those without an underscore.
Linux is where most has been tried.
"""

from __future__ import annotations

import sys

from clew_shared.base.operating_system.common import *  # noqa: F403

if sys.platform == "win32":
    from clew_shared.base.operating_system.windows import *  # noqa: F403
    from clew_shared.base.operating_system.windows_console import *  # noqa: F403
else:
    from clew_shared.base.operating_system.posix import *  # noqa: F403
    from clew_shared.base.operating_system.posix_terminal import *  # noqa: F403

NAME = sys.platform
"""For tables of other people's programs, in which each system has its row."""
