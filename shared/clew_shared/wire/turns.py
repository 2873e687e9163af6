"""The lines of JSON between ``clew`` and ``clew-agent check``: a question and its answer."""

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
