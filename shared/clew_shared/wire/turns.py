"""What ``clew`` and the agent's programs say to each other in lines of JSON: with ``clew-agent check`` a question and
its answer, with ``clew-agent runs`` a line for each run and one for its end."""

from __future__ import annotations

import msgspec

from clew_shared.base.problem import Problem


class RunsToCheck(msgspec.Struct, frozen=True):
    """All runs of a request as TOML; ``own``: they may be exercises of one's own."""

    specs: tuple[str, ...]
    own: bool = False


class RunsChecked(msgspec.Struct, frozen=True):
    """Why the runs could not start, all reasons as one; None when they could."""

    problem: Problem | None = None


class RunWanted(msgspec.Struct, frozen=True):
    """The file of a run spec, and the folder that the run is to make."""

    spec: str
    folder: str


class RunEnded(msgspec.Struct, frozen=True):
    """As ``clew-agent run`` ends: its exit code, and why a run was refused or failed."""

    code: int
    problem: str = ""
