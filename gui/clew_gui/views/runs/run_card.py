"""The card of the selected run: its state, how far it is, the buttons that steer it, and in full why it failed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy

from clew_gui.base.state_words import STATE_WORDS
from clew_gui.session.runs import RunModel
from clew_gui.study.advice import Advice
from clew_gui.views.presentation import words
from clew_gui.views.presentation.job_words import NOTHING, SHORT_S, CardWords
from clew_gui.views.presentation.menu_entries import MOST_BUTTONS, ActionButton, MenuActions, Remedies
from clew_gui.views.runs.try_dialog import KINDS
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    Elided,
    Glyph,
    IconButton,
    Pill,
    ProgressBar,
    column,
    frame,
    label,
    lay_out_now,
    row,
    set_role,
)
from clew_shared.base.harmless import for_tooltip
from clew_shared.base.number_words import rate
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import BATCH_SIZE

_TROUBLE = (RunState.FAILED, RunState.TIMED_OUT, RunState.LOST)


def why_failed(run: RunModel) -> Problem | None:
    """Says why a run failed, and what to do now; None if it did not fail."""
    if run.state not in _TROUBLE:
        return None
    found, job = run.history.fold.problem, run.job.problem if run.job is not None else None
    if job is not None and run.reason == job.text:
        found = job
    return found or (Problem("", run.reason) if run.reason else None)


def can_be_tried(run: RunModel, card: ExerciseCard) -> bool:
    """Whether its exercise has something to try, and it a network to try it with."""
    return card.tries in KINDS and bool(run.history.checkpoints)


class ReasonBox(QFrame):
    """The sentence, the hint, a button that copies both, and buttons for what can be done."""

    said = Signal(str)
    """Emitted with the run whose reason can be read from now on."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self._known: tuple[Problem, str] | None = None
        self.setProperty("role", "sunken")
        self.text = label("", "body", wrap=True, selectable=True)
        self.hint = label("", "body", "2", wrap=True, selectable=True)
        self._copy = IconButton(appearance, "copy", "Copy the reason")
        self._copy.clicked.connect(self.copy)
        self._ways = row(gap=8)
        words = column(self.text, self.hint, self._ways, gap=4)
        side = column(self._copy, None)
        row(words, side, gap=8, margins=(12, 9, 8, 9), grows=words, parent=self)

    def show_problem(self, found: Problem, run: str, remedies: Remedies) -> None:
        """Shows why this run failed, with the buttons that ``remedies`` gives for it."""
        if (found, run) == self._known:
            return
        self._known = (found, run)
        self.text.setText(found.text)
        self.hint.setText(found.hint)
        self.hint.setVisible(bool(found.hint))
        while (item := self._ways.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        for way in remedies(found, run)[:MOST_BUTTONS]:
            button = Button(self._appearance, way.text)
            button.clicked.connect(lambda _checked=False, way=way: way.act())
            self._ways.addWidget(button)
        self._ways.addStretch(1)
        if self.isVisible():
            self.said.emit(run)

    def showEvent(self, event: QShowEvent) -> None:
        """It can be read now."""
        super().showEvent(event)
        if self._known is not None:
            self.said.emit(self._known[1])

    def says(self, run: str) -> bool:
        """Whether the reason of this run can be read."""
        return self.isVisible() and self._known is not None and self._known[1] == run

    def copy(self) -> None:
        """Copies the reason and the hint to the clipboard."""
        QGuiApplication.clipboard().setText("\n".join(filter(None, (self.text.text(), self.hint.text()))))


# --- Run card ---------------------------------------------------------------------------------------------------------
# The card of the selected run: its state, how far it is, when it will end, and the buttons that steer it.


NARROW = 640
_SHORT = 200
"""The number of characters of a reason that takes at most three lines of a narrow card."""
_SILENT = "The link is silent; the run goes on, and what it does will be fetched when it answers."


class RunCard(QFrame):
    """Shows a run; its buttons are entries of the menu *Run*."""

    def __init__(self, appearance: Appearance, actions: MenuActions) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._known = ("", False)
        self._last: RunModel | None = None
        self.pill = Pill(appearance)
        self.title = Elided("", "subtitle")
        self.title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.sentence = Elided("", "body", "2")
        self._data_name = label("", "caption", "2")
        self.data = frame(
            "sunken", row(Glyph(appearance, "data", "text3", 12), self._data_name, gap=5, margins=(7, 2, 8, 2))
        )
        self._make_buttons(appearance, actions)
        self.bar = ProgressBar("Progress of the run")
        self.progress = label("", "strong")
        self.speed = Elided("", "body", "2")
        self.forecast = label("", "strong")
        self.limit = label("", "body", "2")
        self.job_words = NOTHING
        self.reason = ReasonBox(appearance)
        self.reason.hide()
        self.remedies: Remedies = lambda _found, _run: ()
        self.notice = label("", "body", "2", wrap=True)
        self.notice.hide()
        self.advice = label("", "caption", "2", wrap=True, selectable=True)
        self._hint = frame("", row(Glyph(appearance, "info", "text3", 13), self.advice, gap=6))
        self._hint.hide()
        waiting = (self.why, self.log_in, self.here)
        buttons = (self.pause, self.rate, self.stop, self.leave, self.cancel, self.try_it, self.reuse, self.go_on)
        self.found = Elided("", "body")
        self.take = Button(appearance, "", "quiet", "rate", "Put this learning rate into the form")
        finding = row(self.found, self.take, gap=8)
        first = row(self.pill, self.title, self.data, self.sentence, *waiting, *buttons, gap=8)
        first.setStretchFactor(self.title, 0)  # the sentence is shortened before the name
        last = row(self.progress, self.speed, self.forecast, self.limit, gap=8)
        self.show_finding("", None)
        shown = (first, self.notice, self.reason, self.bar, last, finding, self._hint)
        column(*shown, gap=9, margins=(14, 12, 14, 11), parent=self)

    def _make_buttons(self, appearance: Appearance, actions: MenuActions) -> None:
        self.why = Button(appearance, "Why?", "quiet", "info", "Show the whole reason, and what to do now")
        self.why.setCheckable(True)
        self.why.toggled.connect(self._unfold)
        self.log_in = Button(
            appearance, "Log in", "primarySmall", "key", "Log in where this run is, to follow it (Ctrl+I)"
        )
        self.here = ActionButton(appearance, actions["try_here"], "laptop", "Try it here")
        self.pause = ActionButton(appearance, actions["pause"], "pause")
        self.rate = ActionButton(appearance, actions["rate"], "rate", "Learning rate…")
        self.stop = ActionButton(appearance, actions["stop"], "stop", "Stop", "danger")
        self.leave = ActionButton(appearance, actions["unqueue"], "stop", role="danger")
        no_job = "Cancel the job; it has not started yet"
        self.cancel = ActionButton(appearance, actions["stop"], "cross", "Cancel", "danger", no_job)
        self.try_it = ActionButton(appearance, actions["try"], "pencil", "Try it")
        self.reuse = ActionButton(appearance, actions["reuse"], "reset", "Use these settings")
        self.go_on = ActionButton(appearance, actions["continue"], "play", "Continue")
        for button in (self.why, self.log_in, self.here, self.leave, self.cancel):
            button.hide()

    def show_run(
        self, run: RunModel, card: ExerciseCard, has_live: bool, job_words: CardWords, advice: Sequence[Advice]
    ) -> None:
        """Bring everything up to date; cheap enough for every tick. ``job_words``: what its job adds, ``advice`` what
        its journal suggests."""
        self.job_words = job_words
        state = words.state_key(run)
        word = job_words.word or (words.state_word(run) if state in ("Draft", "Stale") else "")
        self.pill.set_state(job_words.state if job_words.word else state, word)
        self._show_title(words.join([f"Run {run.number}", words.name_of(run)]))
        self._last = run
        self._show_data(words.run_data(run, card))
        self._show_reason(run)
        notice = job_words.notice or (_SILENT if state == "Stale" and not job_words.sentence else "")
        _text(self.notice, notice)
        self.notice.setVisible(bool(notice))
        self.sentence.set_text(self._sentence(run))
        self._show_progress(run, any(one.name == BATCH_SIZE for one in card.params))
        self.try_it.setVisible(can_be_tried(run, card) or (card.tries in KINDS and run.state in TERMINAL))
        self._show_buttons(run, has_live, pauses=card.kind != "script")
        _text(self.advice, "\n".join(one.text for one in advice))
        self._hint.setVisible(bool(advice))

    def show_finding(self, text: str, rate: float | None) -> None:
        """Shows the result of a range test, with the ``rate`` to begin with, or of a prediction; an empty text if there
        was neither."""
        self.rate_found = rate or 0.0
        self.found.set_text(text)
        self.found.setVisible(bool(text))
        self.take.set_words(f"Use {self.rate_found:.2g}")
        self.take.setVisible(rate is not None)

    def _show_title(self, text: str) -> None:
        """The room for it follows its length at once: a longer name is never seen cut."""
        if text != self.title.whole():
            self.title.set_text(text)
            lay_out_now(self)

    def _show_data(self, data: str) -> None:
        _text(self._data_name, words.data_short(data))
        self.data.setVisible(bool(data))
        tip = for_tooltip(data)
        if self.data.toolTip() != tip:
            self.data.setToolTip(tip)
            self.data.setAccessibleName(f"Data set: {words.data_name(data)}")

    def _unfold(self, on: bool) -> None:
        """Shows the whole reason below, and then leaves it out of the sentence above."""
        self.reason.setVisible(on)
        if self._last is not None:
            self.sentence.set_text(self._sentence(self._last))

    def _show_reason(self, run: RunModel) -> None:
        """Show at once why it failed; a long reason only where the run failed before its first step and has nothing
        else to show."""
        found = why_failed(run)
        known = (run.id, found is not None)
        if known != self._known:
            self._known = known
            self.why.setChecked(found is not None and (len(found.text) <= _SHORT or not run.history.fold.step))
        self.why.setVisible(found is not None)
        if found is not None:
            self.reason.show_problem(found, run.id, self.remedies)
        self.reason.setVisible(found is not None and self.why.isChecked())

    def _sentence(self, run: RunModel) -> str:
        fold = run.history.fold
        if run.reading is not None:
            return f"{100 * run.reading:.0f} %"
        if run.catching_up is not None:
            return f"catching up, {100 * run.catching_up:.0f} %"
        if self.job_words.sentence:
            return self.job_words.sentence
        if self.notice.text():
            return ""
        if run.state in (RunState.RUNNING, RunState.PAUSED):
            since = f"on {_here(run)} since {words.wall(fold.started)}" if fold.started else f"on {_here(run)}"
            return words.join([since, words.clause(run.reason), words.divergence(run)])
        if run.state in TERMINAL:
            when = f"at {words.wall(fold.ended)}" if fold.ended else ""
            when = f"{when} on {_here(run)}".lstrip() if run.job is not None else when
            found = why_failed(run)
            detail = run.reason or (found.text if found is not None else "")
            detail = "" if found is not None and self.why.isChecked() else detail
            return words.join([when, words.clause(detail, STATE_WORDS[run.state]), words.divergence(run)])
        return words.state_detail(run) or {
            RunState.QUEUED: "waits for the run before it",
            RunState.SUBMITTED: "sent to the agent",
            RunState.STARTING: "the trainer starts",
            RunState.PREPARING: "data and compiling",
        }.get(run.state, "")

    def _show_progress(self, run: RunModel, has_batches: bool) -> None:
        history = run.history
        fold = history.fold
        self.bar.show_share(fold.step, fold.steps)
        warns = words.diverged(run) or run.state is RunState.PAUSED
        set_role(self.bar, "warn" if warns else "ok" if run.state is RunState.FINISHED else "")
        of = f" of {words.count(fold.steps)}" if fold.steps else ""
        _text(self.progress, "" if self.job_words.below else f"Step {words.count(fold.step)}{of}")
        self.progress.setVisible(not self.job_words.below)
        speed = history.steps_per_second()
        epochs, images = "", 1
        if history.schema is not None:
            batch, samples = history.schema.batch_size, history.schema.samples_per_epoch
            epochs = words.epochs(fold.step, fold.steps, batch, samples)
            images = batch if has_batches else 1
        self.speed.set_text(self.job_words.below or words.join([epochs, rate(speed, images)]))
        running = run.state is RunState.RUNNING and not run.link_stale
        text = words.forecast(fold.step, fold.steps, speed) if running else ""
        if run.state in TERMINAL and fold.seconds:
            text = f"Took {words.clock(fold.seconds)}"
        room = self.job_words.left_s
        late = bool(text and running and room is not None and speed and (fold.steps - fold.step) / speed > room)
        _text(self.forecast, "Will not finish in this job's time." if late else text)
        set_role(self.forecast, "bad" if late else "", "tone")
        _text(self.limit, self.job_words.countdown)
        self.limit.setVisible(bool(self.job_words.countdown))
        set_role(self.limit, "warn" if room is not None and room < SHORT_S else "2", "tone")

    def _show_buttons(self, run: RunModel, has_live: bool, pauses: bool) -> None:
        over = run.state in TERMINAL or run.reading is not None
        waits, locked = self.job_words.waits, self.job_words.locked
        self.log_in.setVisible(locked)
        self.here.setVisible(waits)
        trains = not (over or waits or locked)  # else nothing of it could be asked for
        queued = run.state is RunState.QUEUED  # it can only be taken out, and its place needs the room
        self.pause.setVisible(trains and pauses and not queued)
        self.pause.set_glyph("play" if run.state is RunState.PAUSED else "pause")
        self.rate.setVisible(trains and has_live and not queued)
        self.cancel.setVisible(waits)
        self.leave.setVisible(trains and queued)
        self.stop.setVisible(trains and not queued)
        self.go_on.setVisible(run.reading is None and over and run.state is not RunState.FINISHED)
        self.reuse.setVisible(over)
        self._name_reuse()

    def minimumSizeHint(self) -> QSize:
        """Returns the size with short verbs and no sentence."""
        return QSize(520, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shortens the verbs if there is little room."""
        super().resizeEvent(event)
        self.here.set_words("Try it here" if self.width() < NARROW + 120 else "Try it here meanwhile")
        self.rate.set_words("Rate…" if self.width() < NARROW + 120 else "Learning rate…")
        self._name_reuse()
        lay_out_now(self)

    def _name_reuse(self) -> None:
        beside = not (self.go_on.isHidden() and self.why.isHidden())
        self.reuse.set_words("Reuse" if self.width() < NARROW + (120 if beside else 0) else "Use these settings")


def _here(run: RunModel) -> str:
    place = words.where(run)
    return place[:1].lower() + place[1:] if run.where == "This computer" else place


def _text(target: QLabel, text: str) -> None:
    """Set a label's text only when it changed: every change lays the card out again."""
    if target.text() != text:
        target.setText(text)
