"""The processor of this node, and what TensorFlow's profiler writes on its disk. No TensorFlow."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from clew_shared.base.number_words import counted
from clew_shared.base.operating_system import host_name, usable_cores


def processor() -> str:
    """The processor in words, as far as this process may use it: ``2 CPU cores``."""
    return counted(usable_cores(), "CPU core")


def trace_prefix(pid: int) -> str:
    """How the names of the temporary folders begin in which process ``pid`` of this node traces its steps."""
    return f"clew-trace-{host_name()}-{pid}-"


def clear_traces(pid: int) -> None:
    """Removes those of a process that has ended, however it did."""
    for folder in Path(tempfile.gettempdir()).glob(f"{trace_prefix(pid)}*"):
        shutil.rmtree(folder, ignore_errors=True)
