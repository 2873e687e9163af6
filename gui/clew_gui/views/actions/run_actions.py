"""Acts on one run: removes it from the list, moves it in the queue, changes its learning rate, tries it, plays it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from clew_gui.session.links.inbox import TryAnswered
from clew_gui.session.runs import RunModel, demonstrations, read_recording
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.dialogs import ContinueDialog, live_dialog
from clew_gui.views.form.form_dialog import FormDialog
from clew_gui.views.presentation import words
from clew_gui.views.runs.try_dialog import TryDialog
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Button, label, row
from clew_gui.views.window.window import MainWindow
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.catalogue import find_card, on_servers
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.wire.messages import Refused, TryRun


class Removal:
    """Acts on the selected run of a controller."""

    def __init__(self, controller: WindowController) -> None:
        self._controller = controller

    def remove(self) -> None:
        """Take the selected runs out of the list; for some seconds they can be taken back."""
        run, chosen = self._controller.scope.run(), set(self._controller.window.bottom.table.chosen_runs())
        runs = [one for one in self._controller.scope.runs() if one.id in chosen]
        if len(runs) > 1:
            self._remove_all([one for one in runs if one.state in TERMINAL], len(runs))
            return
        if run is None:
            return
        if run.state not in TERMINAL:
            text = f"Run {run.number} is still {words.state_word(run).lower()}."
            first = "Take it out of the queue" if run.state is RunState.QUEUED else "Stop it"
            self._controller.window.messages.show_problems(
                (Problem("window.busy", text, f"{first} first, then remove it."),)
            )
            return
        self._take_out([run])
        self._controller.window.messages.show_note(
            f"Run {run.number} was removed from the list.",
            undo=lambda: self._take_back(run.id),
            lapse=lambda: self._forget(run.id),
        )

    def _remove_all(self, runs: list[RunModel], asked: int) -> None:
        """Removes several runs at once, without those that have not ended."""
        self._take_out(runs)
        left = asked - len(runs)
        rest = f" {left} that {'has not ended stays' if left == 1 else 'have not ended stay'}." if left else ""

        def each(act: Callable[[str], None]) -> None:
            for run in runs:
                act(run.id)

        self._controller.window.messages.show_note(
            f"{len(runs)} runs were removed from the list.{rest}",
            undo=lambda: each(self._take_back),
            lapse=lambda: each(self._forget),
        )

    def _take_out(self, runs: Sequence[RunModel]) -> None:
        """Takes them out of the list; the cursor stays at that place of it."""
        removed = {run.id for run in runs}
        beside = self._controller.window.bottom.beside(removed)
        for run in removed:
            self._controller.scope.board.remove(run)
        self._controller.select(beside)
        self._controller.runs_changed()

    def _forget(self, run: str) -> None:
        session = self._controller.scope.session
        try:
            session.forget(run)
        except ProblemError as error:
            self._take_back(run)
            self._controller.refused(error)

    def _take_back(self, run: str) -> None:
        self._controller.scope.board.restore(run)
        self._controller.runs_changed()


# --- Continuing -------------------------------------------------------------------------------------------------------
# Going on with a run that has ended; one that lost a process may do with fewer.


class Continuation:
    """Acts on the selected run of a controller."""

    def __init__(self, controller: WindowController) -> None:
        self._controller = controller

    def go_on(self) -> None:
        """Go on from the last checkpoint; on how many nodes is asked where one was lost."""
        run = self._controller.scope.run()
        nodes, left = nodes_left(run) if run is not None else (0, 0)
        if run is None or not left:
            self._controller.continue_run()
            return
        window, why = self._controller.window, run.history.fold.problem
        dialog = ContinueDialog(window, window.appearance, run.number, why.text if why is not None else "", nodes, left)
        dialog.nodes_chosen.connect(lambda count: self._controller.continue_run(run.id, {"nodes": count}))
        dialog.open()


def nodes_left(run: RunModel) -> tuple[int, int]:
    """Returns how many nodes an ended run had, and how many of them are left. The second number is 0 if none was lost,
    and with parameter servers, which replace the processes that they lose."""
    trouble, peers = run.history.fold.problem, run.history.peers.values()
    nodes = 1 + len(peers) if peers else run.spec.nodes
    if (
        on_servers(run.spec.strategy)
        or nodes < 2
        or run.state not in TERMINAL
        or trouble is None
        or not trouble.code.startswith("peers.")
    ):
        return nodes, 0
    lost = sum(peer.status == "lost" for peer in peers)
    return nodes, max(nodes - max(lost, 1), 1)


# --- Queue actions ----------------------------------------------------------------------------------------------------
# What can be done with a run that waits in the agent's queue.


class QueueActions:
    """Acts on the selected run of a controller."""

    def __init__(self, controller: WindowController) -> None:
        self._controller = controller

    def move(self, by: int) -> None:
        """Move the selected run, which waits, so many places back in the queue; forward when negative."""
        self._controller.ask(lambda session, run: session.move_run(run.id, max(1, run.queue + by)))

    def run_next(self) -> None:
        """Let the selected run begin before all other waiting runs."""
        self._controller.ask(lambda session, run: session.move_run(run.id, 1))

    def leave_queue(self) -> None:
        """Take the selected run, which waits, out of the queue; for some seconds that can be undone."""
        run = self._controller.scope.run()
        place = run.queue if run is not None else 0
        self._controller.stop()
        if run is not None and place:
            text = f"Run {run.number} was taken out of the queue."
            self._controller.window.messages.show_note(text, undo=lambda: self._queue_again(run.id, place))

    def _queue_again(self, run: str, place: int) -> None:
        """Continues a run and moves it to its former place; both requests are carried out in this order."""
        session = self._controller.scope.session
        try:
            session.continue_run(run)
            session.move_run(run, place)
        except ProblemError as error:
            self._controller.refused(error)


# --- Live change ------------------------------------------------------------------------------------------------------
# What may be changed while a run goes on: the dialog for it, which ends with the run.


class LiveChange(QObject):
    """Asks for new values of the selected run."""

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._open: tuple[str, FormDialog] | None = None
        controller.points.connect(self._check_changed)

    def ask(self) -> None:
        """Open the dialog, where the selected run has something to change."""
        run, live = self._controller.scope.run(), self._controller.scope.live_params()
        if run is not None and live:
            dialog = live_dialog(self._window, self._window.appearance, run.number, live)
            dialog.asked.connect(lambda values: self._change(run.id, values))
            dialog.finished.connect(self._closed)
            self._open = run.id, dialog
            dialog.open()

    def _change(self, run: str, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._controller.set_live(name, value, run)

    def _closed(self) -> None:
        self._open = None

    def _check_changed(self, changed: frozenset[str]) -> None:
        """Closes the open dialog when its run has ended, because nothing can be changed then."""
        session = self._controller.scope.session
        if self._open is None or self._open[0] not in changed:
            return
        run = session.runs.get(self._open[0])
        if run is not None and run.state in TERMINAL:
            self._open[1].reject()
            self._window.messages.show_note(f"Run {run.number} has ended: it can no longer be changed.")


# --- Trying -----------------------------------------------------------------------------------------------------------
# What a trained run makes of an image that a person draws or chooses.


class Trying(QObject):
    """Opens the windows in which runs are tried, one for each run, and brings them their answers."""

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self.dialogs: dict[str, TryDialog] = {}
        controller.bridge.tried.connect(self._answered)

    def ask(self) -> None:
        """Open the window of the selected run, with a test image to begin with."""
        run = self._controller.scope.run()
        if run is None:
            return
        if run.id not in self.dialogs:
            title = words.join([f"run {run.number}", words.name_of(run)])
            dialog = self.dialogs[run.id] = TryDialog(self._window, self._window.appearance, run.id, title)
            dialog.asked.connect(self._pass_on)
            dialog.finished.connect(lambda _result, run=run.id: self.dialogs.pop(run, None))
            dialog.show()
            dialog.ask_sample()
        self.dialogs[run.id].activateWindow()

    def _pass_on(self, request: TryRun) -> None:
        try:
            self._controller.scope.session.try_run(request)
        except ProblemError as error:
            if request.run in self.dialogs:
                self.dialogs[request.run].take(Refused(problem=error.problems[0]))

    def _answered(self, answers: tuple[TryAnswered, ...]) -> None:
        for answer in answers:
            if answer.run in self.dialogs:
                self.dialogs[answer.run].take(answer.reply)


# --- Recordings -------------------------------------------------------------------------------------------------------
# Runs that have ended, shown for a lesson without a cluster. The slider over their steps plays them.


_SENTENCE = (
    "A recording is a run that has ended, with its curves, its workers and servers; the slider below them plays it. It "
    "is listed among your runs until the window closes, reaches no goal, and cannot be handed in."
)


def _title(folder: Path) -> str:
    """The name of a recording, or of its folder if it cannot be read: opening it says why."""
    try:
        return read_recording(folder)[0].name
    except ProblemError:
        return folder.name


class Recordings(QObject):
    """Opens recordings. There is one object for each window."""

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller

    def ask(self) -> Dialog:
        """Let a person choose one of those that come with Clew."""
        dialog = Dialog(self._window, "Show a recording", _SENTENCE)
        for name, folder in demonstrations().items():
            show = Button(self._window.appearance, "Show", "", "play", f"Show the recording {name}")
            show.setAccessibleName(f"Show the recording {name}")
            show.clicked.connect(dialog.accept)
            show.clicked.connect(partial(self.show_recording, folder))
            dialog.add(row(label(_title(folder), "strong"), None, show))
        close = Button(self._window.appearance, "Close")
        close.clicked.connect(dialog.reject)
        dialog.finish(None, close)
        dialog.open()
        return dialog

    def show_recording(self, folder: Path) -> None:
        """Open its exercise, select it, and play it from the beginning."""
        session, replay = self._controller.scope.session, self._window.run_view.plots.replay
        self._window.messages.lapse()  # the recording may have been removed
        try:
            run = session.open_recording(folder)
            card = find_card(self._controller.scope.catalogue.exercises, session.runs[run].spec.exercise)
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
            return
        self._controller.scope.board.restore(run)
        self._controller.open_exercise(card.id)
        self._controller.begin(lambda _session: run)
        replay.play.stop()
        replay.go_to(None)
        replay.play.click()
