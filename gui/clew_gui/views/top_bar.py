"""The bar at the top: name, menus, the site, light or dark, settings."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QMenuBar, QWidget

from clew_gui.views.parts import Button, Glyph, IconButton, Look, label, row

HEIGHT = 44


class TopBar(QWidget):
    """Shows where runs go; the pill opens what is known of that place."""

    site_asked = Signal()
    theme_asked = Signal()
    settings_asked = Signal()

    def __init__(self, look: Look, menus: QMenuBar) -> None:
        super().__init__()
        self.setObjectName("panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(max(HEIGHT, self.fontMetrics().height() + 26))
        self._look = look
        self.site = Button(look, "This computer", "chip", "laptop", "Where runs go, and how the link to it is")
        self.site.clicked.connect(self.site_asked)
        self._theme = IconButton(look, "moon", "Light or dark", "Light or dark (Ctrl+Shift+L)")
        self._theme.clicked.connect(self.theme_asked)
        gear = IconButton(look, "gear", "Settings", "Settings (Ctrl+,)")
        gear.clicked.connect(self.settings_asked)
        logo = Glyph(look, "logo", "accent", 20)
        row(
            logo,
            label("Clew", "subtitle"),
            10,
            menus,
            None,
            self.site,
            self._theme,
            gear,
            margins=(16, 0, 12, 0),
            parent=self,
        )
        self.retheme()

    def show_site(self, text: str, glyph: str, ink: str) -> None:
        """The place and its link."""
        self.site.set_words(text)
        self.site.set_glyph(glyph, ink)

    def retheme(self) -> None:
        """The button shows what it would change to."""
        self._theme.set_glyph("sun" if self._look.theme.dark else "moon")
