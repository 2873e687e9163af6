"""What ``clew`` and ``clew-agent runs`` say to each other: a line of JSON for each run, and one for its end."""

from __future__ import annotations

import msgspec


class RunWanted(msgspec.Struct, frozen=True):
    """The file of a run spec, and the folder that the run is to make."""

    spec: str
    folder: str


class RunEnded(msgspec.Struct, frozen=True):
    """As ``clew-agent run`` ends: its exit code, and why a run was refused or failed."""

    code: int
    problem: str = ""
