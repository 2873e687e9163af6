"""Courses in the window: open, follow and leave one, share with its class, and hand in to its folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QCheckBox, QLineEdit

from clew_gui.base.student import keep_student, student_name
from clew_gui.courses.board import Sharing, line_of
from clew_gui.courses.class_view import Receipt, send_hand_in
from clew_gui.courses.course import Course, allocation_in, until_words
from clew_gui.courses.course_file import SUFFIX, CourseFiles, read_course
from clew_gui.courses.shared_folder import SharedFolder, folder_of
from clew_gui.courses.store import Courses
from clew_gui.jobs.manager import JobManager
from clew_gui.reports.facts import RunSource
from clew_gui.reports.handin import file_name, write_handin
from clew_gui.reports.page import LabReport
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.sites.background import BackgroundWork, call_elsewhere
from clew_gui.views.theme.dialog import FittedDialog, Question, ask_file
from clew_gui.views.theme.parts import Button, CodeText, label, row
from clew_gui.views.window.window import MainWindow
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.spec import MAX_NAME

_EACH_S = 15
"""Seconds between two times that what changed is shared."""
_SHARED = (
    "your teacher sees the name below, and of each run of this course: exercise, state, progress, best value, goals "
    "and when it last changed. The rights of the folder decide who else can read it: on a cluster no other student. It "
    "stops, and is deleted, when you say so here."
)


class CourseActions(QObject):
    """Everything that the window does about courses. ``manager`` None: this session talks to no sites."""

    def __init__(
        self, window: MainWindow, controller: WindowController, places: Places, manager: JobManager | None
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._places, self._manager = window, controller, places, manager
        self._courses = Courses(places)
        self._sharing: Sharing | None = None
        self._board: tuple[str, str] | None = None
        """The course's id and its board, of ``_sharing``."""
        self._work: BackgroundWork[int] | None = None
        self._seconds = 0
        self._unreadable: tuple[Problem, ...] = ()
        """Why the followed course cannot be read, as it was said."""
        self._told = False
        """Whether it was said that what is shared has to wait."""
        controller.course_folder = self.folder
        controller.hand_in = self.hand_in
        controller.second.connect(self._tick)
        self._follow()

    # --- Which course -------------------------------------------------------------------------------------------------

    def _follow(self, changed: bool = False) -> None:
        """Shows the course of the settings: its exercises, name and board. ``changed``: its files are others now."""
        (course, problems), form = self._courses.look(), self._window.next_run
        if problems != self._unreadable:  # it is looked for again and again
            self._unreadable = problems
            self._window.messages.show_problems(problems)
        form.lesson_presets = {one.id: one.preset for _, one in course.assigned() if one.preset} if course else {}
        form.where.in_lesson = partial(allocation_in, course)
        lessons = course.lessons if course is not None else ()
        self._window.lab.tree.about = {one.title: f"{one.text}\n{until_words(one)}".strip() for one in lessons}
        if changed or self._controller.model.course != course:
            self._controller.follow_course(course)
            self._controller.model.session.renew_agent()
        self._window.lab.show_course(course.title if course is not None else "")
        board = (course.id, course.board) if course is not None and course.board else None
        if board != self._board:  # else what is being sent goes on
            self._sharing = Sharing(self._places.shared(board[0]), board[1]) if board is not None else None
            self._board = board
        self._window.actions_["share"].setEnabled(self._sharing is not None)

    def _do(self, what: Callable[[], str | None], note: str = "") -> None:
        """Does what a person asked for, and says so with the hint that it returns, or why it cannot be done."""
        hint = None
        try:
            hint = what()
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
            note = ""
        self._follow(changed=bool(note))
        if note:
            self._window.messages.show_note(note, hint or "")

    def ask_file(self) -> None:
        """Asks for a course file."""
        ask_file(self._window, "Open a course", f"Course (*{SUFFIX})", self.open)

    def open(self, path: Path) -> None:
        """Shows all that the course in a file or folder adds, and opens it if a person agrees."""
        try:
            found = read_course(path)
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
            return
        sentence = "All of this comes with the course. Open it if you trust who gave it to you."
        text = CodeText("What the course adds")
        text.setPlainText("\n".join(self._courses.what_it_adds(found)))
        text.setMinimumSize(480, 300)
        title = f"Open {found.course.title}?"
        dialog = Question(self._window, self._window.appearance, title, sentence, "Open", content=(text,))
        dialog.accepted.connect(partial(self._opened, found))
        dialog.open()

    def _opened(self, found: CourseFiles) -> None:
        def opened() -> str:
            self._courses.open(found, consent=True)
            names = " and ".join(self._courses.nameless(found))
            return f"If your account on {names} is not called as here, name it in its site." if names else ""

        self._do(opened, f"{found.course.title} is open: its lessons are at the left.")

    def choose(self) -> None:
        """Shows the open courses, to follow or leave one, or to open another."""
        CoursesDialog(self._window, self._courses, self._use, self._ask_to_leave, self.ask_file).open()

    def _use(self, course: str) -> None:
        self._do(lambda: self._courses.use(course))

    def _ask_to_leave(self, course: str) -> None:
        """Asks first: sites go, and what was shared is deleted on the board before anything else."""
        opened = self._courses.find(course)
        title = f"Leave {opened.title if opened is not None else course}?"
        sentence = "Its exercises and sites go, and what you shared is deleted. Runs stay."
        dialog = Question(self._window, self._window.appearance, title, sentence, "Leave", danger=True)
        dialog.accepted.connect(partial(self._leave, course))
        dialog.open()

    def _leave(self, course: str) -> None:
        leave = partial(self._do, lambda: self._courses.leave(course))
        mine = self._sharing if self._board is not None and self._board[0] == course else None
        sharing = mine or Sharing(self._places.shared(course))
        if sharing.board:
            words = ("Leave it anyway?", "What you shared stays there, and your teacher can read it.", "Leave")
            self._stop(course, sharing, leave, partial(self._ask_instead, words, leave))
        else:
            leave()

    # --- The folders of a class ---------------------------------------------------------------------------------------

    def _connect(self, asked: Callable[[], bool], site: str) -> SiteConnection:
        """The connection to a site; ``asked``: a person may be asked to log in for it. Raises ``ProblemError``."""
        if self._manager is None:
            raise problem("ssh.lost", "This window talks to no sites.")
        access = self._manager.watch_of(site).access
        if asked():
            access.allow_prompts()
        return access.connected()

    def folder(self, course: str, text: str, asked: Callable[[], bool] = lambda: True) -> SharedFolder:
        """A shared folder that the course names."""
        return folder_of(course, text, partial(self._connect, asked))

    def hand_in(self, report: LabReport, sources: Sequence[RunSource], save: Callable[[], None]) -> bool:
        """Hand in to the course's folder, with a receipt; False where the course has none. If that fails, a person can
        ``save`` the file."""
        course = self._controller.model.course
        if course is None or not course.hand_in:
            return False
        folder, kept = self.folder(course.id, course.hand_in), self._places.shared(course.id)

        def send() -> Receipt:
            with tempfile.TemporaryDirectory(prefix="clew-handin-") as into:
                bundle = write_handin(Path(into, file_name(report.facts)), report, sources)
                return send_hand_in(course, folder, bundle, report.facts, kept, time.time())

        messages = self._window.messages
        messages.show_note(f"Handing in to {course.hand_in}…")

        words = ("It could not be handed in", "You can save the file, and hand it in in another way.", "Save…")
        failed = partial(self._ask_instead, words, save)
        call_elsewhere(self, "hand in", send, lambda receipt: messages.show_note(receipt.words), failed)
        return True

    def _ask_instead(self, words: tuple[str, str, str], then: Callable[[], None], problems: Sequence[Problem]) -> None:
        """Says why something failed, and asks whether to do something else: with a title, a sentence and a button."""
        title, sentence, button = words
        said = f"{' '.join(map(str, problems))} {sentence}"
        question = Question(self._window, self._window.appearance, title, said, button)
        question.accepted.connect(then)
        question.open()

    # --- Sharing ------------------------------------------------------------------------------------------------------

    def share(self) -> None:
        """Asks what to share with the class, or to stop."""
        course, sharing = self._controller.model.course, self._sharing
        if course is None or sharing is None:
            return
        member = sharing.member
        name = QLineEdit(member.name if member is not None else student_name(self._places))
        name.setMaxLength(MAX_NAME)
        name.setAccessibleName("Name on the board")
        curves = QCheckBox("Share the curves of my runs as well")
        curves.setChecked(member is not None and member.curves)
        window, title = self._window, "Share with your class?" if member is None else "You share with your class"
        stop = Button(window.appearance, "Stop sharing", "quiet", "stop")
        content = (name, curves, *((stop,) if sharing.board else ()))
        sentence = f"{course.title}: {_SHARED}"
        dialog = Question(window, window.appearance, title, sentence, "Share", content=content)
        stop.clicked.connect(dialog.reject)
        gone = partial(window.messages.show_note, "Nothing is shared any more, and what was shared is deleted.")
        stop.clicked.connect(lambda: self._stop(course.id, sharing, gone))

        def join() -> None:
            self._do(lambda: sharing.join(name.text(), curves.isChecked(), time.time()))
            if not student_name(self._places):
                self._do(lambda: keep_student(self._places, name.text()))
            self._do(lambda: self._note(sharing))
            self._send(course, sharing, asked=True)

        dialog.accepted.connect(join)
        dialog.open()

    def _stop(
        self,
        course: str,
        sharing: Sharing,
        then: Callable[[], None],
        otherwise: Callable[[Sequence[Problem]], None] | None = None,
    ) -> None:
        """Deletes what is shared with the class, and does the rest if that worked; else shows why, or ``otherwise``."""
        folder = self.folder(course, sharing.board)
        failed = otherwise or self._window.messages.show_problems
        call_elsewhere(self, "stop sharing", lambda: sharing.leave(folder), lambda _: then(), failed)

    def _tick(self) -> None:
        self._seconds += 1
        if self._seconds % _EACH_S:
            return
        followed = self._controller.model.course
        if self._courses.current_id != (followed.id if followed is not None else ""):
            self._follow()  # another program follows another course
        course, sharing = self._controller.model.course, self._sharing
        if course is not None and sharing is not None and sharing.member is not None:
            with suppress(ProblemError):  # of a full disk runs say so themselves
                self._note(sharing)
            self._send(course, sharing, asked=False)

    def _note(self, sharing: Sharing) -> None:
        model, member, now = self._controller.model, sharing.member, time.time()
        curves, names = member is not None and member.curves, ("", student_name(self._places))
        sharing.note(
            line_of(run.history, run.state, run.spec, card, now, curves)
            for card in model.catalogue.exercises
            for run in model.runs(card)
            if run.reading is None and not run.link_stale and run.spec.course and run.spec.student in names
            if not sharing.is_settled(run.id, run.state)
        )

    def _send(self, course: Course, sharing: Sharing, asked: bool) -> None:
        """Brings the board up to date by the connection that is there; what cannot be sent now is sent later."""
        if self._work is not None or sharing.member is None:
            return
        folder = self.folder(course.id, course.board, lambda: asked)

        def ended(_: object) -> None:
            self._work = None

        def failed(problems: Sequence[Problem]) -> None:
            self._work = None
            if asked or not self._told:
                self._window.messages.show_problems(problems)
            self._told = True

        self._work = call_elsewhere(self, "share", lambda: sharing.send(folder), ended, failed)


class CoursesDialog(FittedDialog):
    """The open courses, each with a button that follows and one that leaves it."""

    def __init__(
        self,
        window: MainWindow,
        courses: Courses,
        use: Callable[[str], None],
        leave: Callable[[str], None],
        open_file: Callable[[], None],
    ) -> None:
        super().__init__(window, "Courses", "The lab at the left follows one course, or shows all exercises.")
        follows = courses.current_id
        entries = [("", "All exercises")]
        entries += [(one.id, one.title + (", which cannot be read" if one.problems else "")) for one in courses.all()]
        for course, title in entries:
            buttons = []
            for words, act in (("Follow", use), ("Leave", leave))[: 2 if course else 1]:
                button = Button(window.appearance, words)
                button.setAccessibleName(f"{words} {title}")
                button.clicked.connect(self.accept)
                button.clicked.connect(lambda _on=False, act=act, course=course: act(course))
                button.allow(words == "Leave" or course != follows, "It is followed now")
                buttons.append(button)
            self.add(row(label(title, "strong" if course == follows else "body"), None, *buttons, gap=8))
        another = Button(window.appearance, "Open a course…", "", "folder")
        another.clicked.connect(self.accept)
        another.clicked.connect(open_file)
        self.finish(another, None, self.close_button(window.appearance))
