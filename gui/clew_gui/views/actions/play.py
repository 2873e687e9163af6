"""*Play*: a small exercise is trained again at once after each change of its settings, without a row for each try."""

from __future__ import annotations

import msgspec
from PySide6.QtCore import QObject

from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.panel_updater import Change
from clew_gui.views.form.next_run import PLAY_TIP
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.run_settings import NO_NOTE
from clew_shared.spec import RunSpec

_LATE = frozenset({"run.not_running"})
"""A change that comes when its try has just ended is trained again: nobody need read that it was refused."""


class Play(QObject):
    """Starts a try for what the form says, in place of the one before. A setting that may change while a run trains
    changes in the running one. While a knob is moved, a try begins as soon as the one before has shown its first point;
    where the knob rests, the last one begins. Runs that somebody asked for go first. The last try stays as a run."""

    def __init__(self, controller: WindowController) -> None:
        super().__init__(controller)
        self._controller, self._window, self._model = controller, controller.window, controller.model
        self._try = ""
        self._sent: dict[str, float] = {}
        """What was asked to change in the try while it trains."""
        self._before = 0
        """The number of the run that it waits for; 0: none."""
        self._asked: RunSpec | None = None
        self._wanted: RunSpec | None = None
        form = self._window.next_run
        form.play.toggled.connect(self._switch)
        form.edited.connect(self._edited)
        form.keep.clicked.connect(self._keep)
        controller.bridge.news.connect(lambda _changes: self._go_on())

    @property
    def _run(self) -> RunModel | None:
        return self._model.session.runs.get(self._try)

    def _switch(self, on: bool) -> None:
        self._controller.quiet = _LATE if on else frozenset()
        self._say(0)
        if on:
            self._asked = self._wanted = None
            self._edited()
            return
        run = self._run
        if run is not None and _is_starting(run):
            self._discard(run)
        elif run is not None and run.state not in TERMINAL:
            self._stop(run)
        self._keep()

    def _stop(self, run: RunModel) -> None:
        with self._controller.refusals():
            self._model.session.stop(run.id)

    def _keep(self) -> None:
        """The last try becomes a run like any other; what follows is another one."""
        if self._run is not None:
            with self._controller.refusals():
                self._model.session.keep(self._try)
            self._controller.refresh(Change.STATES, (self._try,))  # it may have another number now
        self._show_try("")

    def _show_try(self, run: str) -> None:
        self._try = run
        self._window.next_run.keep.setVisible(bool(run))

    def _edited(self) -> None:
        form = self._window.next_run
        if form.play.isChecked() and form.run.isEnabled():
            self._wanted = msgspec.structs.replace(form.spec(), preset="")  # which has the same values
            self._go_on()

    def _go_on(self) -> None:
        """Starts what is wanted, unless that is what trains, or it has to wait."""
        form, run = self._window.next_run, self._run
        if not form.play.isChecked():
            return
        if run is None and self._try:  # it was taken out of the list
            self._show_try("")
        if run is not None and run.state in TERMINAL and self._is_behind(run):
            self._asked = None
        done = self._wanted in (None, self._asked) and (run is None or run.state in TERMINAL)
        before = 0 if done else self._before_it()
        self._say(before)
        if before:
            if run is not None and run.state is RunState.RUNNING and self._asked is not None:
                self._asked = None  # it begins again later
                self._stop(run)
        elif self._wanted not in (None, self._asked) and not self._change_live(run) and not _is_starting(run):
            self._begin(run)

    def _say(self, before: int) -> None:
        """Says in the tooltip which run goes first, if one does."""
        if before != self._before:
            self._before = before
            self._window.next_run.play.set_words("Play", f"Run {before} goes first" if before else PLAY_TIP)

    def _before_it(self) -> int:
        """The number of a run of this computer that somebody waits for; 0: there is none."""
        runs = self._model.session.runs.values()
        ours = (run for run in runs if not run.site and run.id != self._try and not run.at_rest and not run.unread)
        return next((run.number for run in ours if run.state not in TERMINAL), 0)

    def _is_behind(self, run: RunModel) -> bool:
        """Whether a try ended before a change reached it."""
        reached = {event.name: event.value for event in run.history.live}
        return any(reached.get(name) != value for name, value in self._sent.items())

    def _change_live(self, run: RunModel | None) -> bool:
        """Changes the settings of the running try, if all that is wanted otherwise may change while it trains."""
        wanted, asked = self._wanted, self._asked
        if run is None or run.state is not RunState.RUNNING or wanted is None or asked is None:
            return False
        other = {name: value for name, value in wanted.params.items() if asked.params.get(name) != value}
        live = {spec.name for spec in self._model.card.params if spec.live}
        alike = msgspec.structs.replace(wanted, params=asked.params) == asked and other.keys() <= live
        if not alike:
            return False
        self._asked = wanted
        for name, value in other.items():
            self._sent[name] = float(str(value))
            with self._controller.refusals():
                self._model.session.set_live(run.id, name, self._sent[name])
        return True

    def _begin(self, before: RunModel | None) -> None:
        session, controller = self._model.session, self._controller
        wanted = self._asked = self._wanted  # what follows may edit the form, which asks for the same again
        self._sent = {}
        with controller.refusals():
            if before is not None and self._is_used(before):
                self._keep()
            elif before is not None:
                self._discard(before)
            runs = session.start_runs((wanted,) if wanted is not None else (), kept=False)
            self._show_try(runs[0])
            controller.await_runs(runs)

    def _discard(self, run: RunModel) -> None:
        with self._controller.refusals():
            self._show_try("")
            self._model.session.discard(run.id)
            self._controller.drop(run.id)

    def _is_used(self, run: RunModel) -> bool:
        """Whether somebody did something with a try, or it reaches a goal that no other run reaches."""
        model, others = self._model, [one for one in self._model.runs() if one is not run]
        goals = [goal for goal in model.card.goals if model.results.reached(goal, run)]
        ticked = model.choices.report_by_hand and run.id in model.choices.report
        by_hand = ticked or model.state.pinned.get(model.card.id) == run.id
        return by_hand or run.note != NO_NOTE or any(not model.results.reached_by(goal, others) for goal in goals)


def _is_starting(run: RunModel | None) -> bool:
    """Whether a try has not shown anything yet."""
    return run is not None and run.state not in TERMINAL and not run.fold.step
