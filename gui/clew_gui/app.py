"""The desktop program: ``build_app`` is the only place where its objects are joined, ``main`` runs it."""

from __future__ import annotations

import argparse
import gc
import logging
import logging.handlers
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec
from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from clew_gui.base.settings import SettingsFile, local_settings
from clew_gui.courses.course_file import COURSE
from clew_gui.courses.course_file import SUFFIX as COURSE_SUFFIX
from clew_gui.jobs.manager import JobManager, open_manager
from clew_gui.session.links.inbox import LinkState, LinkStatus
from clew_gui.session.run_record import run_record
from clew_gui.session.runs import RunModel, choose_run, read_heads, read_runs
from clew_gui.session.session import Session
from clew_gui.sites.logins import stays_s
from clew_gui.ssh.prompts import AskOnce, Prompter
from clew_gui.views.actions.background_notices import BackgroundNotices
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.course_actions import CourseActions
from clew_gui.views.actions.files import DroppedFiles
from clew_gui.views.actions.menus import MENUS, join, why_not
from clew_gui.views.actions.processes import DataChecker, HandinCheck
from clew_gui.views.actions.site_actions import SiteActions
from clew_gui.views.actions.verbs import WindowActions, theme_of
from clew_gui.views.sites.prompts import WindowPrompter
from clew_gui.views.tabs.compare import CompareTab
from clew_gui.views.tabs.registry import TABS, with_tabs
from clew_gui.views.tabs.tab import Tab, title_of
from clew_gui.views.theme.dialog import Question
from clew_gui.views.theme.parts import Appearance
from clew_gui.views.theme.theme import Application, apply, make_app, prepare
from clew_gui.views.window.single import OneWindow
from clew_gui.views.window.window import MainWindow
from clew_gui.views.window.window_state import NoMemory, ThemeChoice, WindowState
from clew_shared.base import operating_system
from clew_shared.base.harmless import log_to, say
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue
from clew_shared.catalogue import FIRST_EXERCISE, load_builtin
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.spec import RunSpec, to_table

_LOG = logging.getLogger(__name__)
SessionMaker = Callable[[Prompter], tuple[Session, JobManager | None]]
TAB_WORDS = ("guide", "run", *(title_of(tab.entry).lower() for tab in TABS))
T = TypeVar("T", bound=Tab)


class Program(QObject):
    """One window with everything that belongs to it."""

    def __init__(
        self,
        app: QApplication,
        places: Places,
        catalogue: Catalogue,
        make_session: SessionMaker,
        memory: SettingsFile[WindowState],
        theme: ThemeChoice | None = None,
    ) -> None:
        super().__init__()
        self.app, self.places, self.memory = app, places, memory
        self.state = memory.load()
        self.state.theme = theme or self.state.theme
        self.window = window = MainWindow(
            Appearance(theme_of(app, self.state.theme)), self.state, with_tabs(MENUS, TABS), why_not
        )
        self.asker = WindowPrompter(window.appearance, window, stays_s=lambda: stays_s(places))
        self.asker.announced.connect(window.messages.show_note)
        answers = AskOnce(self.asker)  # of all that logs in: a manager does not ask again what the doctor has asked
        self.session, manager = make_session(answers)
        self.controller = WindowController(window, catalogue, places, self.session, self.state)
        self.checker = DataChecker(self, places)
        self.handins = HandinCheck(window)
        window.next_run.data_choice.start_check(self.checker.check)
        self._recall()
        self.sites = SiteActions(self.controller, places, answers, manager)
        courses = CourseActions(window, self.controller, places, manager)
        self.actions = WindowActions(app, self.controller, places, self.sites, courses)
        self.tabs = [tab(window, self.controller, places) for tab in TABS]
        self.tab(CompareTab).recall(self.state.compare)
        join(window.actions_, self.actions)
        self.notices = BackgroundNotices(self.controller, lambda: local_settings(places).load().notices)
        collect_here(self)
        self._closed = False
        self._seen = self._saved = msgspec.to_builtins(self.state, order="deterministic")
        """The state of the window a second ago, and the one that was saved last."""
        self.controller.second.connect(self.save_settled_state)
        self._awake: Callable[[], None] | None = None
        """Lets the system take a hidden window's time again."""
        self.controller.second.connect(self._stay_awake)
        window.may_close = self.may_close
        DroppedFiles(window, self.open_file)

    def tab(self, kind: type[T]) -> T:
        """The tab of this kind."""
        return next(tab for tab in self.tabs if isinstance(tab, kind))

    def _recall(self) -> None:
        """Restores the state that the last window left."""
        state, window = self.state, self.window
        window.next_run.where.remember(state.place, state.asked)
        window.next_run.recall(_specs(state.forms), state.data, state.data_folder, state.data_files)
        window.next_run.more = state.more
        window.bottom.recall(state.sort, state.log_shown)
        controls = window.run_view.controls
        controls.log.setChecked(state.log_axes)
        controls.smoothing.setValue(round(100 * state.smoothing))
        controls.recall(state.unit, state.page)
        window.actions_["log_scale"].setChecked(state.log_axes)
        window.run_view.take_controls()

    def raise_window(self, file: str = "") -> None:
        """Someone has started Clew again, or opened a file with it."""
        self.window.raise_window()
        self.open_file(file)

    def open_file(self, file: str) -> None:
        """Show a recording, which is a folder, open a course or an exercise's file, or check a hand-in; nothing for
        an empty text."""
        if not file:
            return
        path, actions = Path(file), self.actions
        if path.suffix == COURSE_SUFFIX or (path / COURSE).is_file():
            actions.courses.open(path)
            return
        opened = actions.open_source if path.suffix == ".py" else self.handins.open
        (actions.recordings.show_recording if path.is_dir() else opened)(path)

    # --- Closing ------------------------------------------------------------------------------------------------------

    def may_close(self) -> bool:
        """Closes the window, and lets runs go on. Says so once, the first time that some are running."""
        busy = self._busy()
        if busy and not self.state.told_runs_go_on:
            self.state.told_runs_go_on = True
            self._show_runs_go_on(len(busy))
            return False
        self.close()
        return True

    def _busy(self) -> list[RunModel]:
        maybe = (run for run in self.session.runs.values() if not run.at_rest and not run.unread)
        return [run for run in maybe if run.state not in TERMINAL]

    def _stay_awake(self) -> None:
        """Follows runs also while nobody sees the window."""
        busy = bool(self._busy()) and not self._closed
        if busy and self._awake is None:
            self._awake = operating_system.stay_awake("Clew follows a run")
        elif not busy and self._awake is not None:
            self._awake()
            self._awake = None

    def _show_runs_go_on(self, number: int) -> None:
        what = "A run goes on" if number == 1 else f"{number} runs go on"
        sentence = (
            f"{what} without this window and will be here when you open Clew again. You won't see this message again."
        )
        words = ("Close the window?", sentence, "Close the window", "Stay")
        dialog = Question(self.window, self.window.appearance, *words)
        dialog.accepted.connect(self.window.close, Qt.ConnectionType.QueuedConnection)
        dialog.open()

    def close(self) -> None:
        """Remember how the window was left and end the link. Runs go on."""
        if self._closed:
            return
        self._closed = True
        self._stay_awake()
        self.window.messages.lapse()
        self.checker.stop()
        self.handins.stop()
        self.actions.setup.stop()
        self.asker.close()
        self.controller.detach()
        self.saved_state()
        self._save()
        self.sites.close()
        self.session.close()

    def save_settled_state(self) -> None:
        """Saves the window's state when it has not changed for a second. Nothing is lost if the window is killed."""
        if self._closed:
            return
        now, before = msgspec.to_builtins(self.saved_state(), order="deterministic"), self._seen
        self._seen = now
        if now == before and now != self._saved:
            self._save()

    def _save(self) -> None:
        self._saved = msgspec.to_builtins(self.state, order="deterministic")
        self.memory.save(self.state)

    def saved_state(self) -> WindowState:
        """Returns the present state of the window, with which the next one begins."""
        state, form, controls = self.state, self.window.next_run, self.window.run_view.controls
        self.window.save_into(state)
        state.exercise = self.controller.model.card.id
        state.log_axes = controls.log.isChecked()
        state.smoothing = controls.smoothing.value() / 100
        state.unit, state.page = controls.units.current(), controls.chosen_page
        state.place, state.asked = form.where.left()
        state.forms = {exercise: to_table(spec) for exercise, spec in form.drafts().items()}
        data = form.data_choice
        state.data, state.data_folder, state.data_files = data.choice, data.folder, data.kept
        state.sort = self.window.bottom.model.sorting
        state.log_shown = self.window.bottom.tabs.currentIndex() == 1
        state.more = self.window.next_run.more
        state.compare = self.tab(CompareTab).left()
        return state


def build_app(
    places: Places,
    *,
    catalogue: Catalogue | None = None,
    session: Session | None = None,
    manager: JobManager | None = None,
    memory: SettingsFile[WindowState] | None = None,
    theme: ThemeChoice | None = None,
    exercise: str = "",
) -> Program:
    """Joins everything, ready to be shown. ``session`` None: one that finds or starts this computer's agent.
    ``exercise`` is opened, else the one that was open last, else ``FIRST_EXERCISE``.
    """
    found = QApplication.instance()
    app = found if isinstance(found, QApplication) else make_app(sys.argv[:1])
    app.setApplicationName("Clew")
    prepare(app)
    kept = memory if memory is not None else SettingsFile(places.config / "window.toml", WindowState)
    known = catalogue or load_builtin()

    troubles: list[Problem] = []

    def make_session(prompter: Prompter) -> tuple[Session, JobManager | None]:
        if session is not None:
            return session, manager
        try:
            return _live_session(places, known, prompter)
        except OSError as error:  # one of Clew's own files: the window says which, and nothing can be run
            troubles.append(_unreadable(error))
            link = LinkStatus(LinkState.REFUSED, 0.0, "Clew's own files cannot be read")
            return Session(places, known, recorded={}, link=link), None

    program = Program(app, places, known, make_session, kept, theme)
    program.window.messages.show_problems(tuple(troubles))
    if kept.problem is not None:
        program.window.messages.show_problems((kept.problem,))
    ids = list(program.controller.model.cards)
    candidates = (exercise, program.state.exercise, FIRST_EXERCISE, *ids[:1])
    program.controller.open_first(next(name for name in candidates if name in ids))
    program.window.show_tab(program.state.tab)
    apply(app, program.window.appearance.theme)  # once, when every widget is in its place
    program.controller.follow()
    return program


def _specs(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, RunSpec]:
    """The run specs in these tables; those of another version that cannot be read are left out."""
    found = {}
    for exercise, table in tables.items():
        with suppress(msgspec.ValidationError):
            found[exercise] = msgspec.convert(table, RunSpec)
    return found


def _unreadable(error: OSError) -> Problem:
    text = f"{error.filename} cannot be read: {error.strerror or error}. It is one of Clew's own files."
    return Problem("home.read", text, "Move it away or make it readable, and open Clew again.", str(error.filename))


def _live_session(places: Places, catalogue: Catalogue, prompter: Prompter) -> tuple[Session, JobManager]:
    manager = open_manager(places, prompter, quiet=True)
    session = Session(places, catalogue, manager=manager)
    session.start()
    return session, manager


# --- The program ------------------------------------------------------------------------------------------------------


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line of the window."""
    parser = argparse.ArgumentParser(prog="clew start", description="Open the window.")
    parser.add_argument("--exercise", default="", metavar="ID", help="the exercise to open")
    parser.add_argument("--run", default="", metavar="RUN", help="the run to show: its id, its folder, or latest")
    parser.add_argument("--theme", choices=("system", "light", "dark"), default=None)
    parser.add_argument("--size", default="", metavar="WxH", help="the window's size, such as 1280x800")
    parser.add_argument("--tab", choices=TAB_WORDS, default=None)
    parser.add_argument("--screenshot", type=Path, metavar="PNG", help="write a picture of the window and end")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Open the window, or write a picture of it. Returns the exit code."""
    options = arguments(argv)
    if options.screenshot is not None:
        os.environ.setdefault("QT_QPA_PLATFORM", operating_system.QT_WITHOUT_SCREEN)
        return screenshot(find_places(), options)
    return open_window(options.exercise, theme=options.theme, size=options.size)


def open_window(
    exercise: str = "",
    catalogue: Catalogue | None = None,
    *,
    file: str = "",
    theme: ThemeChoice | None = None,
    size: str = "",
) -> int:
    """Open the window and stay until it is closed. Returns the exit code.

    ``file`` is as for ``Program.open_file``. ``exercise`` and ``theme`` as for ``build_app``,
    ``catalogue`` saves reading it again, ``size`` is WIDTHxHEIGHT.
    """
    places = find_places()
    app = QApplication.instance() or make_app(sys.argv[:1])
    alone = OneWindow(places.home)
    if not alone.claim(file):
        say("Clew is already open; its window comes to the front.")
        return 0
    program = build_app(places, catalogue=catalogue, theme=theme, exercise=exercise)
    alone.raised.connect(program.raise_window)
    if isinstance(app, Application):
        app.file_opened.connect(program.raise_window)
    _size(program.window, size)
    program.window.fit_into(program.app.primaryScreen().availableGeometry())
    program.window.painted.connect(program.window.fit_screen)
    show_uncaught_errors(program.window)
    program.window.painted.connect(lambda: program.window.messages.show_problems(start_log(places)))
    alone.listen()
    program.open_file(file)
    gc.freeze()  # what is there now stays: no collection need go through it again
    program.window.show()
    code = app.exec()
    program.close()
    alone.release()
    return code


# --- Garbage ----------------------------------------------------------------------------------------------------------


_COLLECT_MS = 1000


def collect_here(parent: QObject) -> None:
    """Puts Python's own collector to rest for as long as the process lives, and does its work now and then, in the
    thread of the event loop.

    Python runs its collector in whichever thread happens to make the next object. Widgets, pixmaps and timers that go
    in circles then end in a thread in which Qt forbids that, and the program breaks down some time later, anywhere.
    With links, SSH and ZeroMQ there are always other threads.
    """
    gc.disable()
    timer = QTimer(parent, interval=_COLLECT_MS)
    timer.timeout.connect(collect_due)
    timer.start()


def collect_due() -> None:
    """Collect the generations with enough new objects since the last time, by Python's own thresholds."""
    for generation, (made, allowed) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)):
        if made <= allowed:
            return
        gc.collect(generation)


# --- Log and errors ---------------------------------------------------------------------------------------------------


_AGAIN_S = 600.0
_KNOWN = 1000


class RarelyTheSame(logging.Filter):
    """Passes a sentence on once in ten minutes, so that one that repeats itself does not push the others out."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; errors always are."""
        text = record.getMessage()
        if record.levelno < logging.ERROR and record.created - self._said.get(text, 0.0) < _AGAIN_S:
            return False
        if len(self._said) >= _KNOWN:
            self._said.clear()
        self._said[text] = record.created
        return True


def start_log(places: Places) -> tuple[Problem, ...]:
    """Logs into a file from now on; returns what is wrong if Clew's own folder takes none, and then no run can be kept
    there either."""
    folder = places.home / "log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(folder / "clew.log", maxBytes=1 << 20, backupCount=2)
    except OSError as error:
        text = f"Clew stores everything in {places.home}, but cannot write there: {error.strerror}."
        hint = "Set CLEW_HOME to a folder that you can write to, and start again."
        return (Problem("home.write", text, hint, str(places.home)),)
    handler.addFilter(RarelyTheSame())
    log_to(handler, logging.INFO, "%(asctime)s %(levelname)s %(name)s: %(message)s")
    return ()


def show_uncaught_errors(window: MainWindow) -> None:
    """An exception in a slot does not end Qt's loop; it is logged and shown, wherever it came from."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _LOG.error("an unexpected error", exc_info=(kind, error, trace))
        hint = "Clew goes on. Please copy this message and report it; the log has details."
        window.messages.show_problems((Problem("window.unexpected", f"{kind.__name__}: {error}", hint),))

    sys.excepthook = hook


# --- Pictures ---------------------------------------------------------------------------------------------------------


def _size(window: MainWindow, text: str) -> None:
    width, _, height = text.partition("x")
    if width.isdigit() and height.isdigit():
        window.resize(int(width), int(height))


def screenshot(places: Places, options: argparse.Namespace) -> int:
    """Write a picture of the window that shows a recorded run. Needs neither display nor agent.

    ``options.run`` decides the exercise when it names a run; else the newest run of ``options.exercise`` is shown. Only
    runs of that exercise are read: the lab at the left says nothing of the others.
    """
    given = Path(options.run) if options.run and Path(options.run).is_dir() else None
    folders = [path for path in (places.runs, places.mirrors) if path.is_dir()]
    inside = [given] if given is not None else [run for path in folders for run in path.iterdir()]
    heads = read_heads(inside)
    try:
        run = choose_run(heads, "" if given is not None else options.run, "" if given else options.exercise)
    except ProblemError as error:
        say(f"clew start: {error.command_text()}", sys.stderr)
        return 2
    exercise = heads[run].spec.exercise if run else options.exercise
    catalogue = load_builtin()
    session = Session(places, catalogue, recorded=read_runs(heads, run_record(places), exercise))
    program = build_app(
        places,
        catalogue=catalogue,
        session=session,
        memory=NoMemory(),
        theme=options.theme or "light",
        exercise=exercise,
    )
    _size(program.window, options.size)
    program.window.head.tabs.setCurrentIndex(TAB_WORDS.index(options.tab or "run"))
    program.window.show()
    program.controller.select(run)
    program.actions.runs.reuse()
    # Not ``quit``, which closes windows first. A window that is never painted ends all the same.
    QTimer.singleShot(20_000, program.window, lambda: program.app.exit(0))
    program.window.painted.connect(lambda: QTimer.singleShot(400, program.window, lambda: program.app.exit(0)))
    program.app.exec()
    options.screenshot.parent.mkdir(parents=True, exist_ok=True)
    written = program.window.grab().save(str(options.screenshot))
    program.window.close()
    program.close()
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
