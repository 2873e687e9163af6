"""A bar that shows how much is done."""

from __future__ import annotations

from PySide6.QtWidgets import QProgressBar


class ProgressBar(QProgressBar):
    """A thin bar without text. Unlike Qt's own it is painted with everything else that has changed: Qt's paints itself,
    and what lies around it, at once whenever its value is set, which is felt while a run begins."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setTextVisible(False)
        self.setAccessibleName(name)

    def show_share(self, done: int, total: int) -> None:
        """Shows so many of ``total``; 0 of 0 is an empty bar."""
        most = max(1, total)
        self.setUpdatesEnabled(False)
        self.setRange(0, most)
        self.setValue(min(done, most))
        self.setUpdatesEnabled(True)
