"""How the Python that runs here gets another package: that depends on how Clew was installed."""

from __future__ import annotations

import os
import re
import shlex
import site
import sys
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from clew_shared.base import operating_system

WINDOW = ("PySide6-Essentials>=6.11.3,!=6.12.0", "pillow>=10", "pyqtgraph>=0.14")
"""What the window needs: the extra ``gui`` of the project."""
MLFLOW = ("mlflow-skinny>=2.14", "SQLAlchemy>=2", "alembic>=1.13")
"""What MLflow's own database needs: the extra ``mlflow``."""
CUDA = ("tensorflow[and-cuda]>=2.16,<2.22", "nvidia-ml-py>=12")
"""What trains on NVIDIA devices: the first two of the extra ``cuda``."""


_AS_ADMINISTRATOR: Mapping[str, list[str]] = {"win32": []}
"""On Windows one opens the terminal as an administrator instead."""


def shipped(package: str, name: str, kept: str) -> Path:
    """Returns a file that comes with Clew: the one packed in ``package``, or in a checkout the one ``kept`` there."""
    packed = Path(str(files(package).joinpath(name)))
    return packed if packed.is_file() else Path(__file__).parents[3] / kept / name


def how_to_install(*packages: str, python: str = "") -> str:
    """Returns the advice, without a full stop: ``Type in a terminal: pipx inject clew optuna``.

    ``python`` is the one that needs the packages; empty: the one that runs here. Clew is on no package index, so the
    packages themselves are named, not an extra of Clew's.
    """
    another = python not in ("", sys.executable)
    if "APPIMAGE" in os.environ and not another:
        return "Nothing can be added to an AppImage: install Clew from its wheel instead, with uv, pipx or pip"
    words = [*([python, "-m", "pip", "install"] if another else _installer()), *packages]
    return f"Type in a terminal: {' '.join(map(_quoted, words))}"


def _installer() -> list[str]:
    python = sys.executable.replace("pythonw.exe", "python.exe")  # without a console nothing would be seen
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return ["pipx", "inject", Path(sys.prefix).name]
    if find_spec("pip") is None:  # environments of uv, those of its tools among them
        return ["uv", "pip", "install", "--python", python]
    # A Python of the system installs for the person alone; the package for Debian, which reads nothing of that, cannot.
    is_closed = not os.access(sys.prefix, os.W_OK) and not site.ENABLE_USER_SITE
    before = _AS_ADMINISTRATOR.get(operating_system.NAME, ["sudo"]) if is_closed else []
    return [*before, python, "-m", "pip", "install"]


def _quoted(word: str) -> str:
    if operating_system.SHELL_QUOTES:
        return shlex.quote(word)
    return word if re.fullmatch(r"[\w:\\/.=-]+", word) else f'"{word}"'
