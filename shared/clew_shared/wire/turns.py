"""The lines of JSON between ``clew`` and the agent's programs: with ``clew-agent check`` a question and its answer,
with ``clew-agent runs`` a line for each run and one for its end."""

from __future__ import annotations

import msgspec

from clew_shared.base.problem import Problem

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}
"""The environment of ``clew-agent try``: one image needs no more, and the cores are those of runs that train."""


class RunsToCheck(msgspec.Struct, frozen=True):
    """A request to check all its runs, as TOML; ``own``: they may be exercises of one's own."""

    specs: tuple[str, ...]
    own: bool = False


class RunsChecked(msgspec.Struct, frozen=True):
    """The answer to it: why the runs could not start, all reasons as one; None when they could."""

    problem: Problem | None = None


class RunWanted(msgspec.Struct, frozen=True):
    """A new run: its ``spec`` as TOML, and the folder to make for it. Without a spec the run in the folder goes on,
    with ``changes`` of strategy, devices or nodes. ``warm``: its trainer may be a copy of a process that has imported
    TensorFlow."""

    folder: str
    spec: str = ""
    changes: dict[str, str | int] = {}
    warm: bool = False


class RunEnded(msgspec.Struct, frozen=True):
    """The end of a run: the exit code of ``clew-agent run``, and why it failed; ``refused`` says why it never began."""

    code: int
    problem: str = ""
    refused: tuple[Problem, ...] = ()
