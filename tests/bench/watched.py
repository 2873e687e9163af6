"""The real window without a display, and the times at which its curves were painted. One for each process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer
from PySide6.QtWidgets import QDialog

from clew_gui.app import Program, build_app
from clew_gui.session.session import Session
from clew_gui.targets.target import Target
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.base.places import Places
from clew_shared.base.problem import problem
from clew_shared.catalogue import load_builtin
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import AgentAddress


class NoAgent:
    """A target without an agent: the window has its copies of journals only."""

    name = "This computer"

    def find(self) -> AgentAddress | None:
        """There is none."""

    def while_absent(self) -> str:
        """Refused."""
        raise problem("bench.agent", "No agent is wanted here.")

    def is_alive(self, address: AgentAddress) -> bool:
        """There is none."""
        return False

    def authorize(self, name: str, public_key: str) -> bool:
        """There is none."""
        return False

    def read_spec(self, run: str) -> RunSpec | None:
        """Unknown."""

    def files(self, over: bool) -> None:
        """None."""

    def close(self) -> None:
        """Nothing to let go."""


class Watched(QObject):
    """A window of ``places``; ``painted[(run, metric)]`` lists (values in the picture, wall-clock time) of its paints.

    ``target`` None: this computer's agent, as ``clew start`` finds or starts it.
    """

    def __init__(self, places: Places, exercise: str, target: Target | None = None) -> None:
        super().__init__()
        self.began = time.time()
        memory = NoMemory(WindowState(width=1440, height=900, told_runs_go_on=True, tab=1))
        session = Session(places, load_builtin(), target) if target is not None else None
        self.program: Program = build_app(places, session=session, memory=memory, theme="light", exercise=exercise)
        if session is not None:
            session.start()
        self.painted: dict[tuple[str, str], list[tuple[int, float]]] = {}
        self.program.window.show()
        self.program.window.run_view.plots.canvas.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802  # Qt's name
        """A paint of the curves: what is in it counts as painted once it is over."""
        if event.type() is QEvent.Type.Paint:
            QTimer.singleShot(0, self, self._note)
        return False

    def _note(self) -> None:
        now, canvas = time.time(), self.program.window.run_view.plots.canvas
        for run in canvas.runs:
            for metric in (name for setup in canvas.setups for name in setup.metrics):
                curve, known = run.history.pyramid(metric), self.painted.setdefault((run.run_id, metric), [])
                if curve is not None and (not known or known[-1][0] != len(curve)):
                    known.append((len(curve), now))

    def first_paint(self, run: str, metric: str = "loss") -> float | None:
        """The wall-clock time at which the first values of a curve were painted; None before."""
        known = self.painted.get((run, metric))
        return known[0][1] if known else None

    def until(self, condition: Callable[[], bool], bound: float) -> None:
        """Let the window live until something is so. Raises ``TimeoutError`` after ``bound`` seconds."""
        deadline = time.monotonic() + bound
        timer = QTimer()  # wakes the loop, so that the condition is looked at; 1 ms is far below what is measured
        timer.start(1)
        while not condition():
            if time.monotonic() > deadline:
                told = [found.text for found in self.program.window.messages.problems()]
                raise TimeoutError(f"the window did not get there in {bound:g} s; {told}")
            QCoreApplication.processEvents()
            time.sleep(0.0005)
        timer.stop()

    def close(self) -> None:
        """Close the window; runs and agent go on."""
        self.program.window.close()
        for dialog in self.program.window.findChildren(QDialog):
            dialog.accept()
        self.program.close()
