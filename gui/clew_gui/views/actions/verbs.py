"""What the menus and buttons do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication, QScrollBar

from clew_gui.base.settings import local_settings
from clew_gui.base.tokens import DARK, LIGHT, Theme
from clew_gui.sites.own_job import course_machine, machines
from clew_gui.sites.store import site_store
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.course_actions import CourseActions
from clew_gui.views.actions.dialogs import (
    AgentSettings,
    CodeDialog,
    FeaturesDialog,
    SettingsDialog,
    TextDialog,
    TutorialDialog,
)
from clew_gui.views.actions.files import ask_and_write, show_written
from clew_gui.views.actions.hints import FEATURES, Hints
from clew_gui.views.actions.play import Play
from clew_gui.views.actions.processes import TensorFlowSetup
from clew_gui.views.actions.run_actions import Recordings, RunActions, Trying
from clew_gui.views.actions.site_actions import SiteActions
from clew_gui.views.actions.study_actions import StudyActions
from clew_gui.views.form.next_run import FormRemedies
from clew_gui.views.lab.lab_panel import unusable
from clew_gui.views.plots.pictures import PicturesView
from clew_gui.views.presentation import words
from clew_gui.views.presentation.menu_entries import RemedyButton
from clew_gui.views.theme.dialog import Question
from clew_gui.views.theme.parts import retheme_all
from clew_gui.views.theme.theme import apply, system_theme
from clew_gui.views.window.window_state import ThemeChoice
from clew_shared import __version__
from clew_shared.base import remedies
from clew_shared.base.harmless import write_table
from clew_shared.base.installation import shipped
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy
from clew_shared.exporters.rows import rows_of, series_of
from clew_shared.exporters.tables import write_curves, write_series
from clew_shared.exporters.tensorboard import export_tensorboard
from clew_shared.spec import RunSpec


def theme_of(app: QApplication, choice: ThemeChoice) -> Theme:
    """The theme for a choice in the settings."""
    chosen = {"light": LIGHT, "dark": DARK}.get(choice)
    return chosen if chosen is not None else system_theme(app)


class WindowActions(QObject):
    """What the menus and buttons do, here or in an object of its own."""

    def __init__(
        self,
        app: QApplication,
        controller: WindowController,
        places: Places,
        sites: SiteActions,
        courses: CourseActions,
    ) -> None:
        super().__init__(controller.window)
        self._app, self.window, self.controller, self._places = app, controller.window, controller, places
        self.sites, self.courses = sites, courses
        self.studies = StudyActions(controller, places)
        self.recordings = Recordings(controller)
        self.runs = RunActions(controller)
        self.play = Play(controller)
        self.hints = Hints(controller)
        self.trying = Trying(controller)
        self.setup = TensorFlowSetup(self.window)
        self.setup.installed.connect(lambda: controller.model.session.renew_agent())
        self._wanted: Path | None = None
        controller.second.connect(self._open_wanted)
        self._join_buttons()
        self._join_plots()
        app.styleHints().colorSchemeChanged.connect(lambda _scheme: self._system_changed())

    # --- Joining ------------------------------------------------------------------------------------------------------

    def _join_buttons(self) -> None:
        window = self.window
        window.run_view.controls.log.toggled.connect(window.actions_["log_scale"].setChecked)
        window.run_view.controls.whole.toggled.connect(window.actions_["whole_y"].setChecked)
        window.top.site.clicked.connect(self.show_place)
        window.next_run.code.clicked.connect(self.show_code)
        window.next_run.replaced.connect(self._offer_back)
        window.bottom.export.clicked.connect(self.export_table)
        window.bottom.table.remove_asked.connect(self.runs.remove)
        card = window.run_view.card
        card.remedies = lambda found, run: window.messages.remedies(found, run)
        card.reason.said.connect(window.messages.forget)
        card.take.clicked.connect(lambda: window.next_run.use_rate(card.rate_found))
        window.messages.remedies = self._remedies
        FormRemedies(window.next_run, window.remedies, self._places)
        window.remedies.add(remedies.CONTINUE, self._continue_button)
        window.remedies.add(remedies.SET_UP, lambda _: RemedyButton("Install TensorFlow…", self.setup.ask))

    def _continue_button(self, remedy: Remedy) -> RemedyButton | None:
        session, run = self.controller.model.session, remedy.value
        known = run in session.runs
        return RemedyButton("Continue it", lambda: self.runs.continue_run(run)) if known else None

    def _remedies(self, found: Problem, run: str) -> Sequence[RemedyButton]:
        """The buttons of a message that help with what it says."""
        window, kind = self.window, found.code.partition(".")[0]
        if ways := self.sites.remedies(found) or window.remedies.of(found.remedies):
            return ways
        if kind == "data":
            return (RemedyButton("Choose file…", window.next_run.data_choice.ask_file),)
        if run:
            return (RemedyButton("Show log", lambda: self._show_log_of(run)),)
        if kind == "exercise":
            return (RemedyButton("Reload", self.reload_exercises),)
        return ()

    def reload_exercises(self) -> None:
        """Have the agent read the folder of own exercises again; it does so by itself when a file was changed."""
        self.controller.model.session.reload_exercises()

    def _show_log_of(self, run: str) -> None:
        self.controller.select(run)
        self.show_log()

    def _offer_back(self, before: RunSpec) -> None:
        """A preset's or a run's values replaced a person's own."""
        window = self.window
        undo = partial(window.next_run.put_back, before)
        window.messages.show_note("Your values were replaced.", undo=undo, exercise=before.exercise)

    def find(self) -> None:
        """Puts the cursor into the search for an exercise."""
        self.window.fold("lab", False)
        self.window.lab.search.setFocus()
        self.window.lab.search.selectAll()

    def show_log(self) -> None:
        """Shows the log of the selected run."""
        self.window.fold("runs", False)
        self.window.bottom.show_log()

    def show_details(self) -> None:
        """Shows the details of the selected run."""
        self.window.fold("runs", False)
        self.window.bottom.show_details()

    # --- The plots ----------------------------------------------------------------------------------------------------

    def _join_plots(self) -> None:
        window, plots = self.window, self.window.run_view.plots
        plots.run_clicked.connect(self.controller.select)
        plots.page_of(PicturesView).deviations_taken.connect(window.next_run.use_value)
        plots.page_of(PicturesView).grown.connect(window.next_run.add_to)
        plots.failed.connect(lambda trouble: window.messages.show_problems((trouble,)))
        plots.saved.connect(lambda path: show_written(window, Path(path)))

    def copy_picture(self) -> None:
        """The plots to the clipboard."""
        self.window.run_view.plots.copy_picture()
        self.window.messages.show_note("The plots were copied as a picture.")

    # --- Files --------------------------------------------------------------------------------------------------------

    def export_table(self) -> None:
        """The runs table as CSV."""
        card = self.controller.model.card
        ask_and_write(self.window, "Export the runs table", f"{card.id}.csv", "Values (*.csv)", self.write_table)

    def write_table(self, path: Path) -> None:
        """Write the runs table as shown; raises OSError."""
        model = self.window.bottom.model
        titles = [column.title for column in model.columns]
        with path.open("w", encoding="utf-8", newline="") as file:
            write_table(file, [titles, *([row.text(column.key) for column in model.columns] for row in model.rows())])

    def export_run(self) -> None:
        """Exports every recorded value of the selected run as CSV."""
        run = self.controller.model.run()
        if run is None:
            return
        history = run.history

        def write(path: Path) -> None:
            if history.series:
                write_series(path, ((run.id, rows) for rows in series_of(history)))
            else:
                title = words.run_title(run, self.controller.model.card)
                write_curves(path, ((run.id, title, rows) for rows in rows_of(history)))

        ask_and_write(self.window, "Export the run's values", f"run-{run.number}.csv", "Values (*.csv)", write)

    def export_board(self) -> None:
        """The selected runs as TensorBoard's event files, in a folder that a person names."""
        runs = self.runs.chosen_runs()
        if not runs:
            return

        def write(path: Path) -> None:
            path.mkdir(exist_ok=True)
            for run in runs:
                export_tensorboard(run.history, path)

        ask_and_write(self.window, "Export for TensorBoard", "tensorboard", "Folder (*)", write)

    # --- Dialogs ------------------------------------------------------------------------------------------------------

    def show_code(self) -> None:
        """The very file that runs."""
        card = self.controller.model.card
        if card.source:
            spec = self.window.next_run.spec()
            known, place = machines(site_store(self._places)), self.window.next_run.place()
            machine = place.site if place is not None and place.site in known else course_machine(card)
            if place is not None and place.site in known:
                known[machine] = msgspec.structs.replace(known[machine], allocation=place.allocation)
            dialog = CodeDialog(self.window, self.window.appearance, card, spec, known, machine)
            dialog.save_asked.connect(self._save_code)
            dialog.open()

    def _save_code(self, name: str, text: str) -> None:
        def write(path: Path) -> None:
            path.write_text(text, encoding="utf-8", newline="\n")

        ask_and_write(self.window, "Save the code", name, "Text (*)", write)

    def show_settings(self) -> None:
        """Shows the settings: light or dark, layout, this computer's agent."""
        appearance, kept = self.window.appearance, local_settings(self._places).load()
        theme, home = self.controller.model.state.theme, str(self._places.home)
        agent = AgentSettings(appearance, kept.interpreter, kept.exercises)
        agent.accepted.connect(self._use_agent)
        dialog = SettingsDialog(self.window, appearance, theme, home, agent, kept)
        dialog.chosen.connect(self._choose)
        dialog.theme_chosen.connect(self.choose_theme)
        dialog.reset_asked.connect(self.window.reset_layout)
        dialog.open()

    def _keep(self, **settings: bool | str) -> None:
        """Keep settings of this computer."""
        file = local_settings(self._places)
        file.save(msgspec.structs.replace(file.load(), **settings))
        if file.problem is not None:
            self.window.messages.show_problems((file.problem,))

    def _choose(self, name: str, on: bool) -> None:
        self._keep(**{name: on})
        self.controller.panels.gives_advice = None  # it is read again
        self.controller.panels.card()

    def _use_agent(self, interpreter: str, exercises: str) -> None:
        """Keep what was checked, and let the agent start with it."""
        self._keep(interpreter=interpreter, exercises=exercises)
        self.controller.model.session.renew_agent()

    def open_source(self, path: Path) -> None:
        """Open the exercise or training script in a file; its folder becomes that of the own exercises. Where that is
        another one, or has other files, which are run to read what they declare, a person is asked first."""
        before = local_settings(self._places).load().exercises
        others = sorted(one.name for one in path.parent.glob("*.py") if one.name != path.name)
        if not before and not others:
            self._open_in_folder(path)
        elif Path(before).expanduser() == path.parent:
            self._wanted = path
            self._open_wanted()
        else:
            reads = f"Clew runs each of its {len(others) + 1} Python files to read what it declares. " if others else ""
            leaves = f"Those in {before} leave the list." if before else ""
            sentence = f"The folder of your own exercises becomes {path.parent}. {reads}{leaves}"
            dialog = Question(self.window, self.window.appearance, f"Open {path.name}?", sentence, "Open")
            dialog.accepted.connect(lambda: self._open_in_folder(path))
            dialog.open()

    def _open_in_folder(self, path: Path) -> None:
        before, self._wanted = local_settings(self._places).load(), path
        self._use_agent(before.interpreter, str(path.parent))
        note = f"Your own exercises are now those in {path.parent}."
        self.window.messages.show_note(note, undo=lambda: self._use_agent(before.interpreter, before.exercises))
        self._open_wanted()

    def _open_wanted(self) -> None:
        """Open the exercise of the file that a person opened, once the agent has read it."""
        for card in self.controller.model.catalogue.exercises if self._wanted else ():
            if card.file == str(self._wanted) and unusable(card) != "reading":
                self._wanted = None
                self.controller.open_exercise(card.id)
                return

    def show_shortcuts(self) -> None:
        """Shows all keyboard shortcuts."""
        groups = self.window.actions_.shortcuts()
        TextDialog(self.window, self.window.appearance, "Keyboard shortcuts", "", groups).open()

    def show_place(self) -> None:
        """Shows what the badge stands for: the jobs on sites, or this computer."""
        if self.controller.panels.shows_site:
            self.window.actions_["jobs"].trigger()
        else:
            self.show_computer()

    def show_computer(self) -> None:
        """Shows this computer's facts: its link, queue and processor, and the folders of the runs and the settings."""
        facts = (("Link", "link"), ("Queue", "queue"), ("Processor", "agent"), ("Data", "data"))
        pairs = [(name, self.window.top.fact(place)) for name, place in facts]
        pairs += [("Runs", str(self._places.runs)), ("Settings", str(self._places.config)), ("Clew", __version__)]
        sentence = "Runs train in their own processes. They go on when this window is closed."
        TextDialog(self.window, self.window.appearance, "This computer", sentence, [("", pairs)]).open()

    def show_tutorial(self) -> None:
        """Shows the first hour with Clew, step by step."""
        text = shipped("clew_gui", "tutorial.md", "docs").read_text("utf-8")
        TutorialDialog(self.window, self.window.appearance, text).show()

    def show_features(self) -> None:
        """Lists what few people find by themselves."""
        lines = [(one.glyph, one.name, one.text) for one in FEATURES]
        FeaturesDialog(self.window, self.window.appearance, lines).open()

    def show_about(self) -> None:
        """Shows the versions of Clew and the exercises, and the licence."""
        pairs = [("Version", __version__), ("Licence", "Apache-2.0")]
        pairs += [("Exercises", version)] if (version := self.controller.model.catalogue.version) else []
        sentence = "Guided deep-learning laboratories, from a student's laptop to the compute node."
        TextDialog(self.window, self.window.appearance, "Clew", sentence, [("", pairs)]).open()

    # --- Light and dark -----------------------------------------------------------------------------------------------

    def choose_theme(self, choice: ThemeChoice) -> None:
        """Sets the theme: light, dark, or as the system has it."""
        self.controller.model.state.theme = choice
        self.use_theme(theme_of(self._app, choice))

    def toggle_theme(self) -> None:
        """The other one."""
        self.choose_theme("light" if self.window.appearance.theme.dark else "dark")

    def _system_changed(self) -> None:
        if self.controller.model.state.theme == "system":
            self.use_theme(system_theme(self._app))

    def use_theme(self, theme: Theme) -> None:
        """Switch everything to this theme."""
        if theme is self.window.appearance.theme:
            return
        self.window.appearance.theme = theme
        scrolled = [(bar, bar.value()) for bar in self.window.findChildren(QScrollBar)]  # lost while nothing is styled
        self._app.setStyleSheet("")  # replacing a sheet takes Qt four times as long as removing and setting one
        apply(self._app, theme)
        QTimer.singleShot(0, self, lambda: self._retint(scrolled))  # in its own event: both together would be felt

    def _retint(self, scrolled: Sequence[tuple[QScrollBar, int]]) -> None:
        for bar, value in scrolled:
            bar.setValue(value)
        retheme_all(self.window)
