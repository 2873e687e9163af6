"""A heading that folds what is below it; folded it may say in a few words what is there."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from clew_gui.views.theme.parts import Appearance, Elided, column, row
from clew_gui.views.theme.theme import font


class FoldingSection(QWidget):
    """A section that can be folded: ``content`` below a button that shows and hides it; ``extra`` is at the end of its
    line."""

    toggled = Signal(bool)

    def __init__(
        self, appearance: Appearance, title: str, content: QWidget, inset: int = 0, extra: QWidget | None = None
    ) -> None:
        super().__init__()
        self._appearance, self._title, self._words = appearance, title, ""
        self.content = content
        self.button = QToolButton()
        self.button.setProperty("role", "row")
        self.button.setFont(font("section"))
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setIconSize(QSize(12, 12))
        self.button.setText(title)
        self.button.setCheckable(True)
        self.button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.button.toggled.connect(self._show)
        self.summary = Elided("", "caption", "3")
        head = row(
            self.button, self.summary, *((extra,) if extra is not None else ()), gap=4, margins=(inset, 0, 12, 0)
        )
        head.setStretch(1, 1)
        column(head, content, gap=2, parent=self)
        content.hide()
        self._name()
        self.retheme()

    def say(self, text: str) -> None:
        """Sets a few words about the content, which are shown while it is folded."""
        self._words = text
        self._say()

    def _say(self) -> None:
        self.summary.set_text("" if self.button.isChecked() else self._words)

    def unfold(self, on: bool = True) -> None:
        """Show or hide what is inside."""
        self.button.setChecked(on)

    def _show(self, on: bool) -> None:
        self.content.setVisible(on)
        self._say()
        self._name()
        self.retheme()
        self.toggled.emit(on)

    def _name(self) -> None:
        self.button.setAccessibleName(f"{'Hide' if self.button.isChecked() else 'Show'} {self._title.lower()}")

    def retheme(self) -> None:
        """Tint the arrow."""
        self.button.setIcon(self._appearance.icon("down" if self.button.isChecked() else "right"))
