"""The Guide tab. What it shows is imported and built when someone looks at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QScrollArea

from clew_gui.views.lab.guide_page import GuidePage
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import ExerciseCard


class GuideView(QScrollArea):
    """Scrolls the guide of the open exercise."""

    code_asked = Signal()
    answered = Signal(str, str, str)
    """An exercise, a question of its guide, and the student's answer."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
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
        self._page = GuidePage(self._appearance, card, self.answers_of(card.id))
        self._page.code_asked.connect(self.code_asked)
        self._page.answered.connect(lambda question, text: self.answered.emit(card.id, question, text))
        self.setWidget(self._page)
        for goal, (reached, by) in self._results.items():
            self._page.show_goal(goal, reached, by)

    def show_goal(self, goal: str, reached: bool, by: str) -> None:
        """The state of one goal."""
        self._results[goal] = (reached, by)
        if self._page is not None:
            self._page.show_goal(goal, reached, by)
