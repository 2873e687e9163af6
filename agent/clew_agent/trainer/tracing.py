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
    """Has a profiler watch as many of the next steps as were asked for, whatever blocks they are done in and whatever
    is done between these; ``put`` records what it saw. ``make`` is called for each trace. A trace that is not possible
    harms no run; where nothing makes a profiler there is none."""

    def __init__(self, make: Callable[[], StepProfiler] | None, put: Callable[[Event], None], steps: int = 0) -> None:
        self._make, self._put = make, put
        self._asked = steps
        self._profiler: StepProfiler | None = None
        self._first = self._until = 0

    def ask(self, steps: int) -> None:
        """Trace the next ``steps``; those after what is being traced."""
        self._asked = steps

    def block(self, step: int, until: int | None) -> tuple[int | None, AbstractContextManager[object]]:
        """Returns the last step of the block from ``step`` on, which is to end at ``until``, and the context to run it
        in."""
        if self._asked and self._profiler is None and self._make is not None:
            self._begin(self._make(), step)
        if self._profiler is None:
            return until, nullcontext()
        return self._until if until is None else min(until, self._until), self._profiler.steps()

    def _begin(self, profiler: StepProfiler, step: int) -> None:
        steps, self._asked = self._asked, 0
        try:
            profiler.start()
        except ProblemError as error:
            self._put(Log(text=str(error), level="warning", step=step))
        else:
            self._profiler, self._first, self._until = profiler, step, step + steps

    def done(self, step: int, *, last: bool = False) -> None:
        """Record the trace when all its steps are done, or no more will be."""
        if self._profiler is None or (step < self._until and not last):
            return
        profiler, self._profiler = self._profiler, None
        try:
            trace = profiler.stop(self._first, step - self._first)
        except ProblemError as error:
            self._put(Log(text=str(error), level="warning", step=step))
        else:
            if step > self._first:
                self._put(trace)
