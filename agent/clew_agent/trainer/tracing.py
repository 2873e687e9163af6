"""The trace of a few steps of a run: begun when somebody asks for it, recorded when the steps are done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Event, Log, Trace


class StepProfiler(Protocol):
    """Watches steps (``training.tracing``). Methods raise ``ProblemError`` where it cannot."""

    def start(self) -> None:
        """Begins to watch."""

    def steps(self) -> AbstractContextManager[object]:
        """Marks the steps that are done inside."""

    def stop(self, step: int, count: int) -> Trace:
        """What was seen of ``count`` steps from ``step`` on."""


class StepTracing:
    """Has the ``profiler`` watch as many of the next steps as were asked for, whatever blocks they are done in and
    whatever is done between these; ``put`` records what it saw. A trace that is not possible harms no run; without a
    profiler there is none."""

    def __init__(self, profiler: StepProfiler | None, put: Callable[[Event], None], steps: int = 0) -> None:
        self._profiler, self._put = profiler, put
        self._asked = steps
        self._first = self._until = -1

    def ask(self, steps: int) -> None:
        """Trace the next ``steps``; those after what is being traced."""
        self._asked = steps

    def block(self, step: int, until: int | None) -> tuple[int | None, AbstractContextManager[object]]:
        """Where a block from ``step`` on, which is to end at ``until``, ends at the latest; and in what it is done."""
        profiler = self._profiler
        if profiler is not None and self._asked and self._until < 0:
            self._begin(profiler, step)
        if profiler is None or self._until < 0:
            return until, nullcontext()
        return self._until if until is None else min(until, self._until), profiler.steps()

    def _begin(self, profiler: StepProfiler, step: int) -> None:
        steps, self._asked = self._asked, 0
        try:
            profiler.start()
        except ProblemError as error:
            self._put(Log(text=str(error), level="warning", step=step))
        else:
            self._first, self._until = step, step + steps

    def done(self, step: int, *, last: bool = False) -> None:
        """Record the trace when all its steps are done, or no more will be."""
        if self._profiler is None or self._until < 0 or (step < self._until and not last):
            return
        first, self._until = self._first, -1
        try:
            trace = self._profiler.stop(first, step - first)
        except ProblemError as error:
            self._put(Log(text=str(error), level="warning", step=step))
        else:
            if step > first:
                self._put(trace)
