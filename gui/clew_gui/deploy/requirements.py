"""Lists what the agent needs from a site's Python."""

from __future__ import annotations

import msgspec

PYTHON = (3, 11)
"""The oldest Python that will do."""
TENSORFLOW = "tensorflow"
KERAS = "keras"


class Need(msgspec.Struct, frozen=True):
    """A distribution in version ``least`` or newer, known by its ``module``; ``others`` are names it also goes by."""

    name: str
    module: str
    least: str
    others: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """Returns the requirement for pip: ``msgspec>=0.20``."""
        return f"{self.name}>={self.least}"


FRAMEWORK = (
    Need(TENSORFLOW, "tensorflow", "2.16", ("tensorflow-cpu", "tensorflow-aarch64", "tensorflow-rocm", "tf-nightly")),
    Need(KERAS, "keras", "3.3"),
    Need("numpy", "numpy", "1.26"),
)
"""The site's own; Clew never brings it."""

SMALL = (
    Need("msgspec", "msgspec", "0.20"),
    Need("platformdirs", "platformdirs", "4.2"),
    Need("psutil", "psutil", "6.0"),
    Need("pyzmq", "zmq", "26.2"),
    Need("setproctitle", "setproctitle", "1.3"),
    Need("tomli-w", "tomli_w", "1.0"),
)
"""A few megabytes, brought where the site lacks them."""
