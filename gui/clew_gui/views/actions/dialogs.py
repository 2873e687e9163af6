"""Small windows: the exercise's file, the live learning rate, shortcuts, settings. They are opened, and nothing waits
for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QCheckBox, QGridLayout, QLineEdit, QTextBrowser, QWidget

from clew_gui.base.settings import LocalSettings
from clew_gui.base.tokens import Theme
from clew_gui.session.runs import RunModel
from clew_gui.sites.own_job import own_job, script_name
from clew_gui.sites.site import Site, title_of
from clew_gui.study.written_code import has_script, written_code
from clew_gui.targets.local_agent import ANSWER_WITHIN_S, interpreter_problem, no_folder, not_there, question, silent
from clew_gui.views.form.fields import Editor, choose_quietly, combo, text_field
from clew_gui.views.form.form import Asked, FormDialog, ParamForm
from clew_gui.views.lab.guide_page import paragraph
from clew_gui.views.presentation.words import name_of
from clew_gui.views.theme.dialog import Dialog, FittedDialog, ask_file
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    Elided,
    Glyph,
    Segments,
    column,
    frame,
    label,
    lay_out_now,
    row,
    scrolling,
    set_role,
)
from clew_gui.views.theme.theme import font
from clew_gui.views.window.side_process import SideProcess
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.params import ParamSpec, Value, format_value
from clew_shared.run_settings import RunNote, note_problems, read_tags
from clew_shared.spec import MAX_NAME, RunSpec

_ONE_COLUMN = 16
_JOB = "job"


class SourceView(QTextBrowser):
    """A text in Python, coloured, with the numbers of its lines."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._theme = appearance.theme
        self.shown = ""
        self.setLineWrapMode(QTextBrowser.LineWrapMode.NoWrap)
        self.setTabChangesFocus(True)
        self.setProperty("role", "code")
        self.document().setDefaultFont(font("mono"))
        self.document().setDefaultStyleSheet("td.linenos { padding-right: 12px; }")

    def show_source(self, source: str, line: int = 0) -> None:
        """Shows a text; ``line``, counted from 1, is on another ground."""
        self.shown = source
        self.setHtml(_coloured(source, line, self._theme))


def _coloured(source: str, line: int, theme: Theme) -> str:
    from pygments import highlight  # not at the start of the window, where nobody looks at a file
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer
    from pygments.style import Style
    from pygments.token import Comment, Keyword, Number, Operator, String

    words = f"bold {theme.accent}"
    styles = {Keyword: words, Operator.Word: words, Number: theme.warn, String: theme.ok}
    styles |= {String.Doc: theme.text3, Comment: theme.text3}
    look = {"styles": styles, "line_number_color": theme.text3, "highlight_color": theme.bad_soft}
    made = type("Colours", (Style,), {**look, "background_color": theme.sunken})
    html = HtmlFormatter(style=made, noclasses=True, linenos="table", hl_lines=[line], lineanchors="line")
    return str(highlight(source, PythonLexer(stripnl=False), html)).replace("line-height: 125%;", "")  # of one column


class PythonDialog(Dialog):
    """A text in Python that can be read and copied, and saved where ``file`` says as what; ``name`` says what it is,
    ``foot`` is below it. ``line`` is shown first, if there is one."""

    save_asked = Signal(str, str)
    """The name of a file and what it would hold."""

    def __init__(
        self,
        parent: QWidget,
        appearance: Appearance,
        title: str,
        sentence: str,
        text: str,
        name: str,
        foot: str = "",
        line: int = 0,
        file: str = "",
    ) -> None:
        super().__init__(parent, title, sentence)
        self.file = file
        self.text = SourceView(appearance)
        self.text.show_source(text, line)
        self.text.setAccessibleName(name)
        self.add(self.text, 1)
        copy = Button(appearance, "Copy", "", "copy", "Copy the whole text")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.shown))
        self.save = Button(appearance, "Save…", "", "export", "Save the whole text as a file")
        self.save.clicked.connect(self.accept)  # what was written is said in the window
        self.save.clicked.connect(lambda: self.save_asked.emit(self.file, self.text.shown))
        self.save.setVisible(bool(file))
        self.foot = Elided(foot, "caption", "3")
        self.finish(self.foot, self.save, copy, self.close_button(appearance))
        self.resize(820, 640)
        self._line = line

    def showEvent(self, event: QShowEvent) -> None:
        """Goes to the line, which has to wait until the text is visible."""
        super().showEvent(event)
        self.text.scrollToAnchor(f"line-{max(self._line - 12, 1)}")


class CodeDialog(PythonDialog):
    """The text of the very file that runs; and the exercise with Keras and the values of ``spec``, if it is written so,
    with a job script for each of the machines ``known``, of which ``machine`` is shown first."""

    def __init__(
        self,
        parent: QWidget,
        appearance: Appearance,
        card: ExerciseCard,
        spec: RunSpec | None = None,
        known: Mapping[str, Site] = {},
        machine: str = "",
    ) -> None:
        lines = card.source.count("\n") + 1
        sentence = f"This is the file that runs, {lines} lines. Every run records its hash."
        wrong = card.problem
        line = wrong.where.rpartition(":")[2] if wrong is not None else ""
        if wrong is not None:
            sentence = f"{wrong.text} {wrong.hint}".strip()
        title = card.file.replace("\\", "/").rsplit("/", 1)[-1] or f"{card.id}.py"
        foot = f"SHA-256 {card.source_hash}"
        at = int(line) if line.isdigit() else 0
        super().__init__(parent, appearance, title, sentence, card.source, "Source of the exercise", foot, at, title)
        self._card, self._known = card, known
        self._texts, self._feet = {"exercise": (sentence, card.source)}, {"exercise": foot}
        self._files = {"exercise": title, "keras": script_name(card.id), _JOB: f"{card.id}-job.sh"}
        script = written_code(card, spec or RunSpec(exercise=card.id))
        beside = ", beside mnist.npz" if 'DATA = "mnist.npz"' in script else ""
        about = "The same model, trained by Keras' own fit, with the values of the next run. It runs by itself"
        self._texts["keras"] = (f"{about}{beside}.", script)
        titles = [("exercise", "The exercise"), ("keras", "With Keras"), (_JOB, "Job script")]
        self.pages = Segments(titles, "exercise", "Code")
        self.pages.chosen.connect(self._show_page)
        self.pages.setToolTip("The file that runs, or one with the values of the next run that runs by itself")
        self.pages.setVisible(has_script(card))
        self._box.insertWidget(1, self.pages)  # the sentences below it are not equally high
        self.machine = combo([(name, title_of(name, site)) for name, site in known.items()], "Machine")
        choose_quietly(self.machine, machine)
        self.machine.currentIndexChanged.connect(lambda _index: self._show_page(_JOB))
        self.machine.hide()
        self._box.insertWidget(3, self.machine)

    def _show_page(self, page: str) -> None:
        sentence, text = self._job() if page == _JOB else self._texts[page]
        self.machine.setVisible(page == _JOB)
        self.sentence.setText(sentence)
        self.foot.set_text(self._feet.get(page, ""))
        self.file = self._files[page]
        self.text.show_source(text)

    def _job(self) -> tuple[str, str]:
        """The job script for the chosen machine, or what is wrong with its site."""
        site, file = self._known[self.machine.currentData()], script_name(self._card.id)
        try:
            return f"What you would submit there to run {file} without Clew. {site.note}", own_job(
                site, self._card.id, site.allocation
            )
        except ProblemError as error:
            return str(error.problems[0]), ""


def live_dialog(
    parent: QWidget, appearance: Appearance, number: int, live: Sequence[tuple[ParamSpec, Value]]
) -> FormDialog:
    """Asks for other values of what may be changed while run ``number`` goes on; hands over the changed ones by name.
    They act from the next block."""
    specs = [
        msgspec.structs.replace(one, label=f"{one.label}, now {format_value(now)}", default=now, shown_when=None)
        for one, now in live
    ]
    form = ParamForm(appearance, specs, None, heads=False)
    for spec, _ in live:
        editor, buttons = form.row(spec.name).editor, []
        for text, factor in (("÷ 10", 0.1), ("÷ 2", 0.5), ("× 2", 2.0), ("× 10", 10.0)):
            button = Button(appearance, text, "quiet", "", f"{spec.label} {text}")
            button.setAccessibleName(f"{spec.label} {text}")
            button.setAutoDefault(False)
            button.clicked.connect(lambda _checked=False, e=editor, f=factor: _scale(e, f))
            buttons.append(button)
        form.row(spec.name).put_beside(*buttons)

    def read(values: Mapping[str, Value]) -> Asked:
        given = [(spec.name, now, values[spec.name]) for spec, now in live]
        return Asked({name: float(new) for name, now, new in given if new != now and isinstance(new, int | float)})

    title = live[0][0].label if len(live) == 1 else "Change while it runs"
    sentence = f"Takes effect on run {number} within a moment and is marked on its curve."
    return FormDialog(parent, title, sentence, form, Button(appearance, "Change", "primarySmall"), read)


def note_dialog(parent: QWidget, appearance: Appearance, runs: Sequence[RunModel]) -> FormDialog:
    """Asks for everything a person writes about one run; for several runs, for tags that are added to all of them.
    Hands over a ``RunNote`` for each run's id."""
    one = runs[0] if len(runs) == 1 else None
    name, now = (name_of(one), one.note) if one is not None else ("", RunNote())
    tags, hint = ", ".join(now.tags), "Shown instead of its settings"
    specs = [
        ParamSpec(name="name", kind="text", label="Name", default=name, example=hint),
        ParamSpec(name="tags", kind="text", label="Tags", default=tags, example="good, slow"),
        ParamSpec(name="note", kind="text", label="Note", default=now.note, lines=5),
    ]

    def note(run: RunModel, values: Mapping[str, Value]) -> RunNote:
        tags, name = read_tags(str(values["tags"])), str(values.get("name", "")).strip()
        if one is None:
            return RunNote(run.note.name, run.note.note, read_tags(" ".join((*run.note.tags, *tags))))
        return RunNote("" if name == run.spec.name else name, str(values["note"]).strip(), tags)

    def read(values: Mapping[str, Value]) -> Asked:
        try:
            notes = {run.id: note(run, values) for run in runs}
        except ProblemError as error:
            return Asked(problems=error.problems)
        return Asked(notes, [found for one in notes.values() for found in note_problems(one, MAX_NAME)])

    title = f"Run {one.number}" if one is not None else f"Tags of {len(runs)} runs"
    sentence = "Only these labels change." if one is not None else "These tags are added to each of them."
    form = ParamForm(appearance, specs if one is not None else specs[1:2], None, heads=False)
    return FormDialog(parent, title, sentence, form, Button(appearance, "Save", "primarySmall"), read)


class ContinueDialog(Dialog):
    """A run lost some of its processes: go on with as many as before, or with those that are left."""

    nodes_chosen = Signal(int)

    def __init__(self, parent: QWidget, appearance: Appearance, number: int, why: str, nodes: int, left: int) -> None:
        super().__init__(parent, f"Continue run {number}", why)
        text = "It goes on from its last checkpoint. The curve stays the same whatever the number of nodes."
        self.add(label(text, "body", "2", wrap=True))
        cancel = self.close_button(appearance, "Cancel", "")
        self.fewer = Button(appearance, f"On {_nodes(left)}", "", "", "With those that are left")
        self.same = Button(appearance, f"On {_nodes(nodes)} again", "primarySmall", "", "If all nodes work again")
        for button, count in ((self.fewer, left), (self.same, nodes)):
            button.clicked.connect(lambda _checked=False, count=count: self._choose(count))
        self.finish(cancel, None, self.fewer, self.same)

    def _choose(self, nodes: int) -> None:
        self.nodes_chosen.emit(nodes)
        self.accept()


def _nodes(count: int) -> str:
    return f"{count} nodes" if count > 1 else "1 node"


def _scale(edit: Editor, factor: float) -> None:
    try:
        edit.set_value(float(f"{float(str(edit.raw())) * factor:.6g}"))
    except ValueError:
        edit.setFocus()


class TutorialDialog(Dialog):
    """The tutorial, to be read beside the window."""

    def __init__(self, parent: QWidget, appearance: Appearance, markdown: str) -> None:
        super().__init__(parent, "Tutorial")
        here = markdown.partition("\n## 2.")[2] or markdown  # who reads this has installed Clew
        lines = [one for one in f"## 2.{here}".splitlines() if not one.startswith(("# ", "![", "<"))]
        text = paragraph(re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", "\n".join(lines)))  # pages that are not here
        text.setMargin(12)
        self.add(scrolling(text, takes_focus=True), 1)
        self.finish(None, self.close_button(appearance))
        self.resize(680, 620)


class FeaturesDialog(FittedDialog):
    """Lines of an icon, a name and a sentence."""

    def __init__(self, parent: QWidget, appearance: Appearance, lines: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(parent, "What Clew can do", "What few people find by themselves.")
        for glyph, name, text in lines:
            words = column(label(name, "strong"), label(text, "body", "2", wrap=True), gap=1)
            sign = column(Glyph(appearance, glyph, "accent", 18), None, margins=(0, 2, 0, 0))
            self.add(row(sign, words, gap=12, grows=words))
        self.finish(None, self.close_button(appearance))
        self.setMinimumWidth(560)


class TextDialog(Dialog):
    """Groups of pairs of name and text, each under its title: shortcuts, the state of this computer, about."""

    def __init__(
        self, parent: QWidget, appearance: Appearance, title: str, sentence: str, groups: Sequence[_Group]
    ) -> None:
        super().__init__(parent, title, sentence)
        columns = _columns(groups)
        grids = [_grid(column, wrap=len(columns) == 1) for column in columns]
        self.add(frame("sunken", row(*grids, gap=20, margins=(14, 12, 14, 12))))
        self._pairs = tuple(pair for _, found in groups for pair in found)
        copy = Button(appearance, "Copy", "", "copy", "Copy as text")
        copy.clicked.connect(self.copy)
        close = self.close_button(appearance)
        close.setFocus()
        self.finish(None, copy, close)
        self.setMinimumWidth(max(480, self.sizeHint().width() if len(columns) > 1 else 0))

    def copy(self) -> None:
        """Copies all pairs to the clipboard, one a line."""
        QGuiApplication.clipboard().setText("\n".join(f"{name}: {text}" for name, text in self._pairs))


_Group = tuple[str, Sequence[tuple[str, str]]]


def _columns(groups: Sequence[_Group]) -> list[list[_Group]]:
    """Puts whole groups into columns of about the same height: one for few pairs, else three."""
    sizes = [len(pairs) + 2 for _, pairs in groups]
    if sum(sizes) <= _ONE_COLUMN + 2:
        return [list(groups)]
    columns: list[list[_Group]] = [[]]
    height = 0
    for group, size in zip(groups, sizes, strict=True):
        if columns[-1] and len(columns) < 3 and height + size / 2 > sum(sizes) / 3:
            columns.append([])
            height = 0
        columns[-1].append(group)
        height += size
    return columns


def _grid(groups: Sequence[_Group], wrap: bool) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(16 if wrap else 10)
    grid.setVerticalSpacing(4)
    for title, pairs in groups:
        if title:
            head = label(title, "section", "2")
            head.setContentsMargins(0, 8 if grid.rowCount() > 1 else 0, 0, 2)
            grid.addWidget(head, grid.rowCount(), 0, 1, 2)
        for name, text in pairs:
            what = label(text, "body" if wrap else "caption", "2", wrap=wrap, selectable=True)
            place = grid.rowCount()
            grid.addWidget(label(name, "strong"), place, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(what, place, 1)
    grid.setColumnStretch(1, 1)
    grid.setRowStretch(grid.rowCount(), 1)
    return grid


_SWITCHES = {
    "advice": "Advice on runs, such as another learning rate",
    "notices": "Messages about what became of runs while the window was in the background",
}
"""The settings of this computer that are on or off."""


class SettingsDialog(Dialog):
    """Lets a person choose light or dark, the layout, and this computer's agent."""

    theme_chosen = Signal(str)
    reset_asked = Signal()
    chosen = Signal(str, bool)
    """A setting of this computer by name, and whether it is on."""

    def __init__(
        self, parent: QWidget, appearance: Appearance, theme: str, home: str, agent: AgentSettings, kept: LocalSettings
    ) -> None:
        super().__init__(parent, "Settings", "Stored on this computer. They do not change existing runs.")
        choice = combo([("system", "Same as the system"), ("light", "Light"), ("dark", "Dark")], "Light or dark")
        choose_quietly(choice, theme)
        choice.currentIndexChanged.connect(lambda _index: self.theme_chosen.emit(str(choice.currentData())))
        self.add(row(label("Light or dark", "strong", of=choice), choice, gap=16))
        self.choice = choice
        self.switches = {key: QCheckBox(text) for key, text in _SWITCHES.items()}
        for key, switch in self.switches.items():
            switch.setAccessibleName(switch.text())
            switch.setChecked(getattr(kept, key))
            switch.toggled.connect(lambda on, key=key: self.chosen.emit(key, on))
            self.add(switch)
        self.add(row(label("Runs and settings are in", "body", "2"), Elided(home, "mono", "2"), gap=8))
        self.agent = agent
        self.add(frame("hline"))
        self.add(agent)
        self.finished.connect(agent.stop)
        self.setMinimumWidth(480)
        reset = Button(appearance, "Reset the layout", "", "reset", "Give all panels their original sizes")
        reset.clicked.connect(self.reset_asked)
        self.finish(reset, None, self.close_button(appearance))


# --- This computer's agent --------------------------------------------------------------------------------------------
# Which Python runs it, and a folder of own exercises.


class AgentSettings(QWidget):
    """Two fields and a button. Their values are checked before it emits ``accepted``; the window is not blocked
    meanwhile."""

    accepted = Signal(str, str)
    """Interpreter and folder, both as typed and both possibly empty."""

    def __init__(self, appearance: Appearance, interpreter: str, exercises: str) -> None:
        super().__init__()
        self.interpreter = _field(interpreter, "Python of the agent", "found automatically")
        self.exercises = _field(exercises, "Folder with your own exercises", "none")
        self.message = label("", "caption", "2", wrap=True)
        self.message.hide()
        self.use = Button(
            appearance, "Check and use", "", "check", "Check what that Python has, then start the agent with it"
        )
        self.use.clicked.connect(self.check)
        self._process = SideProcess(self, "interpreter check", round(1000 * ANSWER_WITHIN_S))
        self.stop = self._process.stop
        choose_python = self._chooser(appearance, self.interpreter, "Choose a Python", False)
        choose_folder = self._chooser(appearance, self.exercises, "Choose a folder", True)
        names = [label(field.accessibleName(), "strong", of=field) for field in (self.interpreter, self.exercises)]
        python, folder = row(self.interpreter, choose_python, gap=6), row(self.exercises, choose_folder, gap=6)
        use = row(self.use, None)
        column(names[0], python, 4, names[1], folder, 4, use, self.message, gap=6, parent=self)

    def _chooser(self, appearance: Appearance, field: QLineEdit, name: str, folder: bool) -> Button:
        button = Button(appearance, "Choose…", "", "", name)
        button.setAccessibleName(name)
        title = field.accessibleName()
        button.clicked.connect(lambda: ask_file(self, title, "", lambda path: field.setText(str(path)), folder=folder))
        return button

    # --- Checking -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what can be checked at once, then ask the Python; the answer comes later."""
        python = self.interpreter.text().strip()
        trouble = no_folder(self.exercises.text().strip()) or (not_there(python) if python else None)
        if trouble is not None or not python:
            self._end(trouble)
            return
        self.use.allow(False, "The Python is being checked")
        self._say(f"Checking {python} …")
        self._process.run(question(python), partial(self._answered, python))

    def _answered(self, python: str, code: int | None, output: str) -> None:
        self._end(silent(python) if code is None else interpreter_problem(python, code, output))

    def _end(self, trouble: Problem | None) -> None:
        self.stop()
        self.use.allow(True)
        if trouble is not None:
            self._say(f"{trouble.text} {trouble.hint}", bad=True)
            return
        self._say("Saved. The local agent is restarting; current runs continue.")
        self.accepted.emit(self.interpreter.text().strip(), self.exercises.text().strip())

    def _say(self, text: str, bad: bool = False) -> None:
        set_role(self.message, "bad" if bad else "2", "tone")
        self.message.setText(text)
        self.message.show()
        lay_out_now(self, self.window())
        window = self.window()
        window.resize(window.width(), max(window.height(), window.heightForWidth(window.width())))


def _field(text: str, name: str, empty: str) -> QLineEdit:
    field = text_field(name, empty)
    field.setText(text)
    field.setMinimumHeight(30)
    return field
