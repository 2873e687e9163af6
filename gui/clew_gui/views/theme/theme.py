"""The appearance of the window, made from the tokens: fonts by role, a QPalette and one style sheet.

Fusion and our own palette first; the style sheet only draws boxes. Fonts are set with ``QFont`` in code, never in the
sheet, because a sheet's font drops OpenType features such as figures of equal width. A widget says what it is with the
dynamic property ``role`` (and a label its tone with ``tone``); only ``clew.qss`` knows how a role looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Final

import msgspec
from PySide6.QtCore import QDir, QEvent, Qt, Signal
from PySide6.QtGui import QColor, QFileOpenEvent, QFont, QFontDatabase, QGuiApplication, QIcon, QPalette
from PySide6.QtWidgets import QApplication

from clew_gui.base.tokens import (
    BOLD,
    DARK,
    FONT_FACTORS,
    LIGHT,
    FontKind,
    Theme,
)
from clew_gui.views.theme.icons import PICTURES

_WEIGHT: Final[dict[str, QFont.Weight]] = {
    "button": QFont.Weight.Medium,
    **dict.fromkeys(BOLD, QFont.Weight.DemiBold),
}
_SMALLEST_BASE_PT: Final = 9.75  # 13 px at 96 dpi; captions of 0.88 then stay above 11 px
_PREFERRED: Final = "Inter"
FONTS: Final = Path(__file__).parent / "fonts"
"""Inter 4.1 in three weights (rsms.me/inter, SIL Open Font License, ``OFL.txt``): Latin, Greek, arrows and mathematical
signs of the npm package inter-ui, so that the window looks the same everywhere."""
_FONTS: Final = "fonts"
_STYLE: Final = "Fusion"
_STYLED: Final = "styled"
"""The application's property that says that it has our style. Asked for its style, PySide makes all that a QStyle
knows, which takes longer than any panel of the window."""


def font(kind: FontKind = "body") -> QFont:
    """The font of a role. Sizes are factors of the application's font, so they follow the system's text size.

    The application's font is that of "body": a widget has it already.
    """
    return QFont(_font(kind, QApplication.font().toString()))


@lru_cache(maxsize=64)
def _font(kind: FontKind, application: str) -> QFont:
    """Makes a font; each is made once for each of the application's fonts, because the labels of the plots ask in every
    frame."""
    result = QFont()
    result.fromString(application)
    size = max(result.pointSizeF(), _SMALLEST_BASE_PT) * FONT_FACTORS.get(kind, 1.0)
    if kind == "mono":
        result = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    result.setPointSizeF(size)
    result.setWeight(_WEIGHT.get(kind, QFont.Weight.Normal))
    result.setFeature(QFont.Tag("tnum"), 1)  # figures of equal width, so that a running number does not dance
    return result


def alpha(colour: str, opacity: float) -> QColor:
    """The colour with an opacity of 0 to 1."""
    result = QColor(colour)
    result.setAlphaF(opacity)
    return result


def palette(theme: Theme) -> QPalette:
    """The theme as a QPalette, with its disabled group."""
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.canvas,
        role.WindowText: theme.text,
        role.Base: theme.surface,
        role.AlternateBase: theme.hover,
        role.Text: theme.text,
        role.Button: theme.surface,
        role.ButtonText: theme.text,
        role.ToolTipBase: theme.text,
        role.ToolTipText: theme.surface,
        role.PlaceholderText: theme.text3,
        role.Highlight: theme.accent_soft,
        role.HighlightedText: theme.text,
        role.Link: theme.accent,
        role.LinkVisited: theme.accent,
        role.Light: theme.surface,
        role.Mid: theme.line,
        role.Dark: theme.border,
        role.Accent: theme.accent,
        role.BrightText: theme.bad,
    }
    result = QPalette()
    for name, colour in colours.items():
        result.setColor(name, QColor(colour))
    for name in (role.WindowText, role.Text, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, name, QColor(theme.disabled))
    return result


def system_theme(app: QApplication) -> Theme:
    """The theme that the system asks for; light if it asks for none."""
    return DARK if app.styleHints().colorScheme() is Qt.ColorScheme.Dark else LIGHT


class Application(QApplication):
    """An application that says when macOS has it open a file: there its name comes as an event, not as an argument."""

    file_opened = Signal(str)

    def event(self, event: QEvent) -> bool:
        """Answers what is sent to the application itself."""
        if isinstance(event, QFileOpenEvent):
            self.file_opened.emit(event.file())
            return True
        return super().event(event)


def make_app(argv: Sequence[str]) -> QApplication:
    """The application of this process, in our style from the beginning. ``argv`` begins with the program's name."""
    app = Application([*argv, "-style", _STYLE])
    app.setProperty(_STYLED, True)
    return app


def prepare(app: QApplication) -> None:
    """Style, fonts and pictures: what must hold before the first widget is made. A style sheet comes later, by
    ``apply``: with one, each widget would be styled again whenever it is put into another."""
    QDir.setSearchPaths("clew", [str(PICTURES)])
    if not app.property(_STYLED):
        app.setProperty(_STYLED, True)
        app.setStyle(_STYLE)
    load_fonts(app)
    app.setWindowIcon(QIcon("clew:icon.png"))
    app.setDesktopFileName("clew")  # by which a desktop finds name and icon (``clew desktop-entry``)
    base = app.font()
    if QFontDatabase.hasFamily(_PREFERRED):
        base.setFamilies([_PREFERRED])
    base.setPointSizeF(max(base.pointSizeF(), _SMALLEST_BASE_PT))
    base.setWeight(QFont.Weight.Normal)
    base.setFeature(QFont.Tag("tnum"), 1)
    if base != app.font():  # each widget would look at its font again
        app.setFont(base)


def load_fonts(app: QGuiApplication) -> None:
    """Let everything that draws text find our fonts: without a screen, some systems offer no others."""
    if not app.property(_FONTS):
        app.setProperty(_FONTS, True)
        for path in sorted(FONTS.glob("*.ttf")):
            QFontDatabase.addApplicationFont(str(path))


def stylesheet(theme: Theme) -> str:
    """The sheet ``clew.qss`` for a theme. Its pictures are found under the search path ``clew:``."""
    sheet = Template((Path(__file__).parent / "clew.qss").read_text(encoding="utf-8"))
    return sheet.substitute(msgspec.structs.asdict(theme))


def apply(app: QApplication, theme: Theme) -> None:
    """Give the whole application this theme. May be called again at any time to switch.

    The system's own colour scheme is not asked to change: outside GNOME Qt ignores that without a word.
    """
    prepare(app)
    app.setPalette(palette(theme))
    app.setStyleSheet(stylesheet(theme))
