"""The Guide tab, built when someone looks at it: its text, hints that unfold, its goals and its source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QFont, QShowEvent, QTextBlockFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from clew_gui.views.presentation.words import data_name, minutes, unbroken
from clew_gui.views.theme.parts import Appearance, Button, FoldButton, Glyph, Panel, column, frame, label, row
from clew_gui.views.theme.theme import font
from clew_shared.cards import ExerciseCard, Goal
from clew_shared.goal_settings import goal_detail, questions

TEXT_WIDTH = 720
_SIDE = (196, 300)
"""The least and the largest width of goals and facts beside the text."""
_ASKED = "## Questions\n"
LINE_HEIGHT = 142.0
_QUIET_MS = 600
"""The milliseconds after the last key press when an answer is saved."""
_LINES = (3, 12)
"""The least and the largest number of lines of an answer."""
_HINT = re.compile(r"^\*\*(Hint[^*]*)\*\*\s*", re.IGNORECASE)


@dataclass(frozen=True)
class GuidePart:
    """One part of a guide: a heading, a paragraph of Markdown, a code block, or a hint with its title."""

    kind: Literal["heading", "text", "code", "hint"]
    text: str
    title: str = ""


def pieces(markdown: str) -> tuple[GuidePart, ...]:
    """Cuts a guide into the parts that are drawn differently."""
    return tuple(_pieces(markdown.replace("\r\n", "\n").split("\n")))


def _pieces(lines: Sequence[str]) -> Iterator[GuidePart]:
    plain: list[str] = []
    number = 0
    while number < len(lines):
        kind = _kind(lines[number])
        if kind == "text":
            plain.append(lines[number])
            number += 1
            continue
        yield from _plain(plain)
        plain = []
        end = _end_of(lines, number, kind)
        yield _piece(kind, lines[number:end])
        number = end
    yield from _plain(plain)


def _kind(text: str) -> Literal["heading", "text", "code", "quote"]:
    if text.startswith("```"):
        return "code"
    if text.startswith(">"):
        return "quote"
    return "heading" if re.match(r"#{1,6} ", text) else "text"


def _end_of(lines: Sequence[str], start: int, kind: str) -> int:
    if kind == "heading":
        return start + 1
    end = start + 1
    if kind == "code":
        while end < len(lines) and not lines[end].startswith("```"):
            end += 1
        return min(end + 1, len(lines))
    while end < len(lines) and lines[end].startswith(">"):
        end += 1
    return end


def _piece(kind: str, lines: Sequence[str]) -> GuidePart:
    if kind == "heading":
        return GuidePart("heading", lines[0].lstrip("#").strip())
    if kind == "code":
        return GuidePart("code", "\n".join(part for part in lines[1:] if not part.startswith("```")))
    text = "\n".join(part[1:].removeprefix(" ") for part in lines).strip()
    found = _HINT.match(text)
    return GuidePart("hint", text[found.end() :].strip(), found[1].strip()) if found else GuidePart("text", text)


def _plain(lines: list[str]) -> Iterator[GuidePart]:
    text = "\n".join(lines).strip()
    if text:
        yield GuidePart("text", text)


def rich(markdown: str) -> str:
    """Markdown as rich text with the guide's line height. Bold words are semi-bold: Clew brings no heavier Inter,
    and Qt would smear it."""
    document = QTextDocument()
    document.setDefaultFont(font("guide"))
    document.setMarkdown(markdown)
    spacing = QTextBlockFormat()
    spacing.setLineHeight(LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    cursor = QTextCursor(document)
    cursor.select(QTextCursor.SelectionType.Document)
    cursor.mergeBlockFormat(spacing)
    return document.toHtml().replace("font-weight:700", f"font-weight:{QFont.Weight.DemiBold.value}")


def paragraph(markdown: str) -> QLabel:
    """A wrapped text with links that work."""
    text = QLabel(rich(markdown))
    text.setFont(font("guide"))
    text.setWordWrap(True)
    text.setTextFormat(Qt.TextFormat.RichText)
    text.setOpenExternalLinks(True)
    text.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.LinksAccessibleByMouse
    )
    return text


class Hint(QWidget):
    """A hint: its title is a button, its text unfolds."""

    def __init__(self, appearance: Appearance, title: str, markdown: str) -> None:
        super().__init__()
        self.button = FoldButton(appearance, title, kind="strong", size=14)
        self.button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        text = paragraph(markdown)
        text.setContentsMargins(26, 0, 8, 8)
        text.hide()
        self.button.toggled.connect(text.setVisible)
        column(frame("card", column(self.button, text, gap=2, margins=(6, 4, 6, 4))), parent=self)


class GoalRow(QWidget):
    """One goal with its tick, and the sentence of the run that reached it."""

    def __init__(self, appearance: Appearance, goal: Goal, card: ExerciseCard) -> None:
        super().__init__()
        self._glyph = Glyph(appearance, "s_todo", "border")
        self._detail = label("", "caption", "2", wrap=True)
        self.setToolTip(goal_detail(goal, card))
        self.setAccessibleDescription(self.toolTip())
        self._text = goal.text
        mark = column(self._glyph, None, gap=0, margins=(0, 2, 0, 0))
        words = column(label(unbroken(goal.text), "strong", wrap=True), self._detail, gap=2)
        row(mark, words, gap=9, grows=words, parent=self)
        self.show_result(False, "")

    def show_result(self, reached: bool, by: str) -> None:
        """Shows whether the goal is reached, and by which run."""
        self._glyph.set_glyph(*(("s_done", "ok") if reached else ("s_todo", "border")))
        self._detail.setText(by)
        self._detail.setVisible(bool(by))
        self.setAccessibleName(f"Goal: {self._text}, {'reached' if reached else 'not yet reached'}. {by}")


class AnswerEdit(QPlainTextEdit):
    """The text of one answer; grows with it."""

    settled = Signal(str)
    """Emitted when the answer was edited and nothing more was typed for a moment."""

    def __init__(self, question: str, text: str) -> None:
        super().__init__()
        self.setFont(font("guide"))
        self.setProperty("role", "lines")
        self.setPlainText(text)
        self.setTabChangesFocus(True)
        self.setPlaceholderText("Your answer. It goes into your report.")
        self.setAccessibleName(f"Answer to: {question}")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._kept = text
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(_QUIET_MS)
        self._quiet.timeout.connect(self.settle)
        self.textChanged.connect(self._edited)
        self._fit()

    def _edited(self) -> None:
        self._fit()
        self._quiet.start()

    def _fit(self) -> None:
        lines = min(max(self.document().blockCount(), _LINES[0]), _LINES[1])
        self.setFixedHeight(lines * self.fontMetrics().lineSpacing() + 18)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """A person who leaves the field has finished."""
        super().focusOutEvent(event)
        self.settle()

    def settle(self) -> None:
        """Report the text if it is another than before."""
        self._quiet.stop()
        text = self.toPlainText()
        if text != self._kept:
            self._kept = text
            self.settled.emit(text)


class GuidePage(QWidget):
    """The guide of one exercise."""

    answered = Signal(str, str)
    """A question and the student's answer."""

    def __init__(
        self, appearance: Appearance, card: ExerciseCard, answers: Mapping[str, str], show_code: Callable[[], object]
    ) -> None:
        super().__init__()
        self._answers, self._show_code = answers, show_code
        self.setObjectName("panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._appearance = appearance
        self._goals = {goal.id: GoalRow(appearance, goal, card) for goal in card.goals}
        text = Panel()
        text.setMaximumWidth(TEXT_WIDTH)
        self._text_column(card, text)
        side = self._side(card)
        box: QHBoxLayout = row(text, side, None, gap=28, margins=(20, 18, 18, 16), parent=self)
        box.setStretch(0, 1000)
        box.setStretch(1, 300)

    def _text_column(self, card: ExerciseCard, parent: QWidget) -> QVBoxLayout:
        box = column(gap=9, parent=parent)
        asked = False
        for number, piece in enumerate(pieces(card.guide or card.summary)):
            if piece.kind == "heading":
                asked = bool(questions(f"## {piece.text}\n- ?"))
                if number:
                    box.addSpacing(4)
                box.addWidget(label(unbroken(piece.text), "subtitle" if number else "title", wrap=True))
            elif asked and piece.kind == "text" and questions(f"{_ASKED}{piece.text}"):
                for question in questions(f"{_ASKED}{piece.text}"):
                    box.addLayout(self._question(question))
            elif piece.kind == "code":
                box.addWidget(_code(piece.text))
            elif piece.kind == "hint":
                box.addWidget(Hint(self._appearance, piece.title, unbroken(piece.text)))
            else:
                box.addWidget(paragraph(unbroken(piece.text)))
        if card.source:
            show = Button(self._appearance, "Show the whole file", "quiet", "code", "The file that runs (Ctrl+U)")
            show.clicked.connect(self._show_code)
            box.addSpacing(4)
            box.addLayout(row(label("The file that runs", "subtitle"), None, show))
        box.addStretch(1)
        return box

    def _question(self, question: str) -> QVBoxLayout:
        edit = AnswerEdit(question, self._answers.get(question, ""))
        edit.settled.connect(lambda text: self.answered.emit(question, text))
        return column(paragraph(unbroken(question)), edit, gap=5, margins=(0, 0, 0, 8))

    def _side(self, card: ExerciseCard) -> QWidget:
        side = Panel()
        side.setMinimumWidth(_SIDE[0])
        side.setMaximumWidth(_SIDE[1])
        box = column(gap=12, parent=side)
        if self._goals:
            box.addWidget(
                frame(
                    "card", column(label("Goals", "subtitle"), *self._goals.values(), gap=11, margins=(16, 13, 14, 15))
                )
            )
        lines = [
            f"Data: {data_name(card.datasets[0])}" if card.datasets else "Data: none needed",
            f"Time: {minutes(card.minutes)}" if card.minutes else "",
            f"From: {card.course}" if card.course else "",
        ]
        about = column(label("About", "subtitle"), gap=6, margins=(16, 13, 14, 15))
        for text in filter(None, lines):
            about.addWidget(label(text, "caption", "2", wrap=True))
        box.addWidget(frame("card", about))
        box.addStretch(1)
        return side

    def show_goal(self, goal: str, reached: bool, by: str) -> None:
        """The state of one goal."""
        if goal in self._goals:
            self._goals[goal].show_result(reached, by)


def _code(text: str) -> QWidget:
    shown = label(text, "mono", "2")
    shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    shown.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    return frame("sunken", row(shown, margins=(14, 12, 14, 12)))


class GuideView(QScrollArea):
    """Scrolls the guide of the open exercise."""

    answered = Signal(str, str, str)
    """An exercise, a question of its guide, and the student's answer."""

    def __init__(self, appearance: Appearance, show_code: Callable[[], object]) -> None:
        super().__init__()
        self._appearance, self._show_code = appearance, show_code
        self._page: GuidePage | None = None
        self._results: dict[str, tuple[bool, str]] = {}
        self._card: ExerciseCard | None = None
        self._built: ExerciseCard | None = None
        self.answers_of: Callable[[str], Mapping[str, str]] = lambda _exercise: {}
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Guide")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def set_card(self, card: ExerciseCard) -> None:
        """Show the guide of this exercise, now or when the guide is looked at."""
        self._card = card
        if self.isVisible():
            self._build(card)

    def showEvent(self, event: QShowEvent) -> None:
        """Build what was put off."""
        super().showEvent(event)
        if self._card is not None and self._card is not self._built:
            self._build(self._card)

    def _build(self, card: ExerciseCard) -> None:
        self._built = card
        self._page = GuidePage(self._appearance, card, self.answers_of(card.id), self._show_code)
        self._page.answered.connect(lambda question, text: self.answered.emit(card.id, question, text))
        self.setWidget(self._page)
        for goal, (reached, by) in self._results.items():
            self._page.show_goal(goal, reached, by)

    def show_goal(self, goal: str, reached: bool, by: str) -> None:
        """The state of one goal."""
        self._results[goal] = (reached, by)
        if self._page is not None:
            self._page.show_goal(goal, reached, by)
