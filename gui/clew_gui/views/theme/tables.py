"""Tables of texts to read and to copy."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractItemView, QFrame, QTableWidget, QTableWidgetItem

from clew_shared.base.harmless import for_tooltip

_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_WIDEST = 260
"""Pixels; what is longer ends with dots."""
_LONG = 30
"""Characters of a text that may have no room."""


class ReadOnlyTable(QTableWidget):
    """Rows of texts under heads; each column is as wide as its texts, and a bar moves what has no room. With ``whole``
    it is as high as all of its rows, and no column is wider than ``_WIDEST``."""

    def __init__(self, name: str, whole: bool = False) -> None:
        super().__init__()
        self.texts: Sequence[Sequence[str]] = ()
        """All rows, the heads first."""
        self._whole = whole
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 10)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setResizeContentsPrecision(60)
        if whole:
            self.horizontalHeader().setMaximumSectionSize(_WIDEST)

    def fill(self, texts: Sequence[Sequence[str]]) -> None:
        """Show these rows, of which the first are the heads; the first column is left-aligned, numbers follow."""
        self.texts = texts
        self.setUpdatesEnabled(False)
        self.clearSelection()
        self.setColumnCount(len(texts[0]))
        self.setRowCount(len(texts) - 1)
        for number, line in enumerate(texts):
            for place, text in enumerate(line):
                item = QTableWidgetItem(text)
                item.setTextAlignment(_RIGHT if place else _LEFT)
                item.setToolTip(for_tooltip(text) if len(text) > _LONG else "")
                if number:
                    self.setItem(number - 1, place, item)
                else:
                    self.setHorizontalHeaderItem(place, item)
        self.resizeColumnsToContents()
        if self._whole:
            row, bar = self.verticalHeader().defaultSectionSize(), self.horizontalScrollBar().sizeHint().height()
            self.setFixedHeight(self.horizontalHeader().sizeHint().height() + row * self.rowCount() + bar)
        self.setUpdatesEnabled(True)

    def copy(self) -> None:
        """Copies the texts, with tabs between the columns, for a spreadsheet."""
        QGuiApplication.clipboard().setText("\n".join("\t".join(line) for line in self.texts))
