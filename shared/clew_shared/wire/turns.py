"""The lines of JSON between ``clew`` and the agent's programs: with ``clew-agent check`` a question and its answer,
with ``clew-agent runs`` a line for each run and one for its end."""

from __future__ import annotations

import msgspec

from clew_shared.base.problem import Problem


class RunsToCheck(msgspec.Struct, frozen=True):
    """A request to check all its runs, as TOML; ``own``: they may be exercises of one's own."""

    specs: tuple[str, ...]
    own: bool = False


class RunsChecked(msgspec.Struct, frozen=True):
    """The answer to it: why the runs could not start, all reasons as one; None when they could."""

    problem: Problem | None = None


class RunWanted(msgspec.Struct, frozen=True):
    """The file of a run spec, and the folder that the run is to make."""

    spec: str
    folder: str


class RunEnded(msgspec.Struct, frozen=True):
    """The end of a run as ``clew-agent run`` reports it: its exit code, and why a run was refused or failed."""

    code: int
    problem: str = ""
