"""Acts on the selected runs: steers, queues, removes and tries them. Plays recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from clew_gui.session.intake import Changes
from clew_gui.session.runs import RunModel, demonstrations, read_recording
from clew_gui.session.session import Session
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.dialogs import ContinueDialog, live_dialog, note_dialog
from clew_gui.views.form.form import FormDialog
from clew_gui.views.presentation import words
from clew_gui.views.runs.try_dialog import TryDialog
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Button, label, row
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.catalogue import find_card, on_servers
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.run_settings import RunNote
from clew_shared.wire.messages import Refused, TryRun

TRACED_STEPS = 20
"""The steps of a trace that the menu asks for."""


class RunActions(QObject):
    """What can be done with the selected run, or with several that are selected in the table."""

    def __init__(self, controller: WindowController) -> None:
        super().__init__(controller.window)
        self._window, self._controller, self._model = controller.window, controller, controller.model
        self._live: tuple[str, FormDialog] | None = None
        controller.bridge.news.connect(self._end_live_change)

    def chosen_runs(self) -> list[RunModel]:
        """The runs that are selected in the table, the one on the card if there is no table."""
        run, chosen = self._model.run(), set(self._window.bottom.table.chosen_runs())
        found = [one for one in self._model.runs() if one.id in chosen]
        return found if len(found) > 1 or run is None else [run]

    # --- Steering -----------------------------------------------------------------------------------------------------

    def _ask(self, call: Callable[[Session, RunModel], None]) -> None:
        """Ask the session for something about the selected run; a refusal is shown."""
        run = self._model.run()
        if run is not None:
            with self._controller.refusals():
                call(self._model.session, run)

    def pause_or_resume(self) -> None:
        """Pause a run that trains, let a paused one go on."""
        self._ask(lambda session, run: (session.unpause if run.state is RunState.PAUSED else session.pause)(run.id))

    def stop(self, now: bool = False) -> None:
        """End the selected run."""
        self._ask(lambda session, run: session.stop(run.id, now))

    def trace(self) -> None:
        """Trace the next steps of the selected run, and open *Details*, which says what they did."""
        self._ask(lambda session, run: session.trace(run.id, TRACED_STEPS))
        self._window.fold("runs", False)
        self._window.bottom.show_details()

    def reuse(self) -> None:
        """Put the selected run's values into the form."""
        run = self._model.run()
        if run is not None:
            self._window.next_run.use_spec(run.spec)

    def continue_run(self, run: str = "", changes: Mapping[str, str | int] | None = None) -> None:
        """Go on from the last checkpoint with a run, the selected one if none is named, with ``changes`` of its devices
        or nodes."""
        self._ask(lambda session, selected: session.continue_run(run or selected.id, changes=changes))

    def ask_to_continue(self) -> None:
        """Go on from the last checkpoint; on how many nodes is asked where one was lost."""
        run = self._model.run()
        nodes, left = nodes_left(run) if run is not None else (0, 0)
        if run is None or not left:
            self.continue_run()
            return
        window, why = self._window, run.history.fold.problem
        dialog = ContinueDialog(window, window.appearance, run.number, why.text if why is not None else "", nodes, left)
        dialog.nodes_chosen.connect(lambda count: self.continue_run(run.id, {"nodes": count}))
        dialog.open()

    def change_live(self) -> None:
        """Open the dialog of what may be changed while the selected run goes on; it ends with the run."""
        run, live = self._model.run(), self._model.live_params()
        if run is not None and live:
            dialog = live_dialog(self._window, self._window.appearance, run.number, live)
            dialog.asked.connect(partial(self._set_live, run.id))
            dialog.finished.connect(self._forget_live)
            self._live = run.id, dialog
            dialog.open()

    def _set_live(self, run: str, values: dict[str, float]) -> None:
        for name, value in values.items():
            with self._controller.refusals():
                self._model.session.set_live(run, name, value)

    def _forget_live(self) -> None:
        self._live = None

    def _end_live_change(self, changes: Changes) -> None:
        """Closes the open dialog when its run has ended, because nothing can be changed then."""
        if self._live is None or self._live[0] not in changes.states | changes.points:
            return
        run = self._model.session.runs.get(self._live[0])
        if run is not None and run.state in TERMINAL:
            self._live[1].reject()
            self._window.messages.show_note(f"Run {run.number} has ended: it can no longer be changed.")

    # --- The queue ----------------------------------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """Move the selected run, which waits, so many places back in the queue; forward when negative."""
        self._ask(lambda session, run: session.move_run(run.id, max(1, run.queue + by)))

    def run_next(self) -> None:
        """Let the selected run begin before all other waiting runs."""
        self._ask(lambda session, run: session.move_run(run.id, 1))

    def leave_queue(self) -> None:
        """Take the selected run, which waits, out of the queue; for some seconds that can be undone."""
        run = self._model.run()
        place = run.queue if run is not None else 0
        self.stop()
        if run is not None and place:
            text = f"Run {run.number} was taken out of the queue."
            self._window.messages.show_note(text, undo=lambda: self._queue_again(run.id, place))

    def _queue_again(self, run: str, place: int) -> None:
        """Continues a run and moves it to its former place; both requests are carried out in this order."""
        with self._controller.refusals():
            self._model.session.continue_run(run)
            self._model.session.move_run(run, place)

    # --- In the list --------------------------------------------------------------------------------------------------

    def show(self, on: bool) -> None:
        """Shows or hides the selected runs in the plots."""
        for run in self.chosen_runs():
            self._controller.show_curve(run.id, on)

    def write_note(self) -> None:
        """Ask for name, tags and note of the selected run, or for tags of several."""
        runs = self.chosen_runs()
        if runs:
            dialog = note_dialog(self._window, self._window.appearance, runs)
            dialog.asked.connect(self._annotate)
            dialog.open()

    def _annotate(self, notes: dict[str, RunNote]) -> None:
        for run, note in notes.items():
            self._controller.annotate(run, note)

    def remove(self) -> None:
        """Take the selected runs out of the list, those that have ended; for some seconds they can be taken back."""
        chosen, messages = self.chosen_runs(), self._window.messages
        runs = [run for run in chosen if run.state in TERMINAL]
        left = len(chosen) - len(runs)
        if len(chosen) == 1 and left:
            text = f"Run {chosen[0].number} is still {words.state_word(chosen[0]).lower()}."
            first = "Take it out of the queue" if chosen[0].state is RunState.QUEUED else "Stop it"
            messages.show_problems((Problem("window.busy", text, f"{first} first, then remove it."),))
        elif chosen:
            removed = f"Run {chosen[0].number} was" if len(chosen) == 1 else f"{len(runs)} runs were"
            rest = f" {left} that {'has not ended stays' if left == 1 else 'have not ended stay'}." if left else ""
            ids, text = [run.id for run in runs], f"{removed} removed from the list.{rest}"
            self._take_out(ids)
            messages.show_note(text, undo=partial(self._take_back, ids), lapse=partial(self._forget, ids))

    def _take_out(self, runs: Sequence[str]) -> None:
        """Takes them out of the list; the cursor stays at that place of it."""
        beside = self._window.bottom.beside(set(runs))
        for run in runs:
            self._model.remove(run)
        self._controller.select(beside)
        self._controller.runs_changed()

    def _take_back(self, runs: Sequence[str]) -> None:
        for run in runs:
            self._model.restore(run)
        self._controller.runs_changed()

    def _forget(self, runs: Sequence[str]) -> None:
        for run in self._model.session.runs.keys() & set(runs):
            try:
                self._model.session.forget(run)
            except ProblemError as error:
                self._take_back((run,))
                self._controller.refused(error)


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


# --- Trying -----------------------------------------------------------------------------------------------------------
# What a trained run makes of an image that a person draws or chooses.


class Trying(QObject):
    """Opens the windows in which runs are tried, one for each run, and brings them their answers."""

    def __init__(self, controller: WindowController) -> None:
        super().__init__(controller.window)
        self._window, self._controller = controller.window, controller
        self.dialogs: dict[str, TryDialog] = {}
        controller.bridge.news.connect(self._answered)

    def ask(self) -> None:
        """Open the window of the selected run, with a test image to begin with."""
        run = self._controller.model.run()
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
            self._controller.model.session.try_run(request)
        except ProblemError as error:
            if request.run in self.dialogs:
                self.dialogs[request.run].take(Refused(problem=error.problems[0]))

    def _answered(self, changes: Changes) -> None:
        for answer in changes.tried:
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

    def __init__(self, controller: WindowController) -> None:
        super().__init__(controller.window)
        self._window, self._controller = controller.window, controller

    def ask(self) -> Dialog:
        """Let a person choose one of those that come with Clew."""
        dialog = Dialog(self._window, "Show a recording", _SENTENCE)
        for name, folder in demonstrations().items():
            show = Button(self._window.appearance, "Show", "", "play", f"Show the recording {name}")
            show.setAccessibleName(f"Show the recording {name}")
            show.clicked.connect(dialog.accept)
            show.clicked.connect(partial(self.show_recording, folder))
            dialog.add(row(label(_title(folder), "strong"), None, show))
        dialog.finish(None, dialog.close_button(self._window.appearance, role=""))
        dialog.open()
        return dialog

    def show_recording(self, folder: Path) -> None:
        """Open its exercise, select it, and play it from the beginning."""
        session, replay = self._controller.model.session, self._window.run_view.plots.replay
        self._window.messages.lapse()  # the recording may have been removed
        try:
            run = session.open_recording(folder)
            card = find_card(self._controller.model.catalogue.exercises, session.runs[run].spec.exercise)
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
            return
        self._controller.model.restore(run)
        self._controller.open_exercise(card.id)
        self._controller.starter.begin(lambda _session: (run,))
        replay.play.stop()
        replay.go_to(None)
        replay.play.click()
