"""How much a call does, counted and not timed: a count is the same on a busy machine as on a quiet one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def lines_run(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, int]:
    """What a function returns, and the lines of Python that this thread runs for it, those of the libraries with them.

    What a function in C does counts as one line, however long it takes.
    """
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return function(*args, **kwargs), count
    finally:
        sys.settrace(before)
