"""The head of the centre: which exercise is open, its goal, and the tabs."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QSizePolicy, QTabBar, QWidget

from clew_gui.views.parts import Elided, Glyph, Look, column, label, row, set_role
from clew_gui.views.theme import font
from clew_shared.cards import ExerciseCard

TABS = ("Guide", "Run")
_TIPS = ("What to do and what to watch (Ctrl+1)", "The run and its curves (Ctrl+2)")


class GoalChip(QFrame):
    """The exercise's first goal, or how many are reached: shape and words, not colour alone."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._glyph = Glyph(look, "flag", "text2")
        self._text = label("", "strong", "2")
        self.setProperty("role", "sunken")
        row(self._glyph, self._text, gap=7, margins=(10, 0, 12, 0), parent=self)
        self.setFixedHeight(max(28, self.fontMetrics().height() + 10))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_goal(self, text: str, reached: bool, tip: str) -> None:
        """Say it, with a tick when all is ``reached``; an empty text hides the chip."""
        self.setVisible(bool(text))
        set_role(self, "okNote" if reached else "sunken")
        set_role(self._text, "ok" if reached else "2", "tone")
        self._glyph.set_glyph(*(("s_done", "ok") if reached else ("flag", "text2")))
        self._text.setText(text)
        self.setToolTip(tip)
        self.setAccessibleName(self._text.text())


class ExerciseHead(QWidget):
    """Title, subtitle, goal, tabs."""

    tab_chosen = Signal(int)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.setObjectName("panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.title = label("", "title")
        self.subtitle = Elided("", "body", "3")
        self.goal = GoalChip(look)
        self.goal.hide()
        self.tabs = QTabBar()
        self.tabs.setFont(font("button"))
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        self.tabs.setAccessibleName("Views of this exercise")
        for name, tip in zip(TABS, _TIPS, strict=True):
            self.tabs.setTabToolTip(self.tabs.addTab(name), tip)
        self.tabs.currentChanged.connect(self.tab_chosen)
        column(
            row(self.title, 4, self.subtitle, self.goal, gap=8, margins=(20, 12, 20, 4)),
            row(self.tabs, None, margins=(20, 0, 20, 0)),
            gap=0,
            parent=self,
        )

    def show_card(self, card: ExerciseCard) -> None:
        """Another exercise."""
        self.title.setText(card.title)
        self.subtitle.set_text(card.subtitle)
