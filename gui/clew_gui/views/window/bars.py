"""The bars of the window: the top bar, and the head of the open exercise with its tabs."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QTabBar

from clew_gui.views.presentation.menu_entries import MenuActions
from clew_gui.views.theme.parts import Appearance, Button, Elided, Glyph, IconButton, Panel, column, label, row
from clew_gui.views.theme.theme import font
from clew_shared.cards import ExerciseCard

HEIGHT = 44


class TopBar(Panel):
    """Shows where runs go; the pill says what is known of that place, and opens all of it."""

    def __init__(self, appearance: Appearance, actions: MenuActions) -> None:
        super().__init__()
        self.setFixedHeight(max(HEIGHT, self.fontMetrics().height() + 26))
        self.site = Button(appearance, "This computer", "chip", "laptop", "Where runs go, and the state of the link")
        self._facts: dict[str, str] = {}
        gear = IconButton(appearance, "gear", "Settings", "Settings (Ctrl+,)")
        gear.clicked.connect(actions["settings"].trigger)
        left = (Glyph(appearance, "logo", "accent", 20), label("Clew", "subtitle"), 10, actions.menu_bar())
        row(*left, None, self.site, gear, margins=(16, 0, 12, 0), parent=self)

    def show_site(self, text: str, glyph: str, ink: str) -> None:
        """The place and its link."""
        self.site.set_words(text)
        self.site.set_glyph(glyph, ink)

    def show_fact(self, place: str, text: str) -> None:
        """Shows a fact on the pill's tooltip: of the link, the queue, the agent or the data."""
        self._facts[place] = text
        self.site.setToolTip("\n".join(filter(None, (*self._facts.values(), "Click to see more."))))
        self.site.setAccessibleDescription(self.site.toolTip())

    def fact(self, place: str) -> str:
        """Returns the text of a fact."""
        return self._facts.get(place, "")


# --- Exercise head ----------------------------------------------------------------------------------------------------
# The head of the centre: which exercise is open, its goal, and the tabs.


class GoalChip(Button):
    """The exercise's first goal, or how many are reached: shape and words, not colour alone. It opens the goals."""

    def __init__(self, appearance: Appearance, open_goals: QAction) -> None:
        super().__init__(appearance, "", "chip", "flag")
        self.clicked.connect(open_goals.trigger)

    def show_goal(self, text: str, reached: bool, tip: str) -> None:
        """Show it, with a tick when all is ``reached``; an empty text hides the chip."""
        self.setVisible(bool(text))
        self.set_glyph(*(("s_done", "ok") if reached else ("flag", "text2")))
        self.set_words(text, tip)


class ExerciseHead(Panel):
    """Shows title, subtitle, goal and tabs of an exercise."""

    def __init__(self, appearance: Appearance, open_goals: QAction) -> None:
        super().__init__()
        self.title = label("", "title")
        self.subtitle = Elided("", "body", "3")
        self.goal = GoalChip(appearance, open_goals)
        self.goal.hide()
        self.tabs = QTabBar()
        self.tabs.setFont(font("button"))
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        self.tabs.setAccessibleName("Views of this exercise")
        titles = row(self.title, 4, self.subtitle, self.goal, gap=8, margins=(20, 12, 20, 4))
        column(titles, row(self.tabs, None, margins=(20, 0, 20, 0)), gap=0, parent=self)

    def show_card(self, card: ExerciseCard) -> None:
        """Shows another exercise's title."""
        self.title.setText(card.title)
        self.subtitle.set_text(card.subtitle)
