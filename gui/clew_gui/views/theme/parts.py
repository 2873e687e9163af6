"""Small building blocks: labels, buttons, cards, pills and layouts that know the theme by role only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol, runtime_checkable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QClipboard,
    QColor,
    QContextMenuEvent,
    QFontMetricsF,
    QGuiApplication,
    QIcon,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QMenu,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from clew_gui.base.tokens import LIGHT, CurveStyle, FontKind, Theme
from clew_gui.views.theme.icons import icon, pixmap, state_style
from clew_gui.views.theme.theme import font
from clew_shared.base.harmless import for_tooltip

Item = QWidget | QLayout | int | None
Margins = tuple[int, int, int, int]


class Appearance:
    """The current theme and its icons. Every widget that uses the theme's colours itself has it, and ``retheme``."""

    def __init__(self, theme: Theme = LIGHT) -> None:
        self.theme = theme
        self._icons: dict[tuple[str, str, str], QIcon] = {}

    def icon(self, name: str, colour: str = "") -> QIcon:
        """The icon in this theme, in ``colour`` if given; drawn once for all buttons that show it."""
        key = (name, self.theme.name, colour)
        if key not in self._icons:
            self._icons[key] = icon(name, self.theme, colour or None)
        return self._icons[key]

    def swatch(self, index: int, pinned: bool = False) -> QIcon:
        """A short piece of a run's curve, nothing for -1, and the pin of a baseline."""
        key = (f"swatch {index}", self.theme.name, "pin" if pinned else "")
        if key not in self._icons:
            picture = blank(QSize(38 if pinned else 16, 12) * 2)
            picture.setDevicePixelRatio(2)
            painter = QPainter(picture)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            if index >= 0:
                draw_swatch(painter, QRectF(0, 0, 16, 12), self.theme.curve(index))
            if pinned:
                painter.drawPixmap(QPointF(24, -1), pixmap("pin", self.theme.text2, 14))
            painter.end()
            self._icons[key] = QIcon(picture)
            self._icons[key].addPixmap(picture, QIcon.Mode.Selected)
        return self._icons[key]


@runtime_checkable
class Themed(Protocol):
    """A widget that uses the theme's colours itself, so it must react when the theme changes."""

    def retheme(self) -> None:
        """Use the colours of the current theme."""


def retheme_all(root: QWidget) -> None:
    """Give ``root`` and every widget in it the colours of the current theme."""
    for widget in (root, *root.findChildren(QWidget)):
        if isinstance(widget, Themed):
            widget.retheme()


# --- Layouts ----------------------------------------------------------------------------------------------------------


def _fill(box: QBoxLayout, items: Sequence[Item], gap: int, margins: Margins, grows: Item) -> None:
    box.setSpacing(gap)
    box.setContentsMargins(*margins)
    for item in items:
        if item is None:
            box.addStretch(1)
        elif isinstance(item, int):
            box.addSpacing(item)
        elif isinstance(item, QWidget):
            wide = isinstance(item, Elided) and isinstance(box, QHBoxLayout)
            box.addWidget(item, int(item is grows or wide))
        else:
            box.addLayout(item, int(item is grows))


def column(
    *items: Item, gap: int = 8, margins: Margins = (0, 0, 0, 0), grows: Item = None, parent: QWidget | None = None
) -> QVBoxLayout:
    """A vertical layout: widgets, layouts, a number for a space, None for a stretch. The item that ``grows`` gets the
    room that is left."""
    box = QVBoxLayout(parent) if parent is not None else QVBoxLayout()
    _fill(box, items, gap, margins, grows)
    return box


def row(
    *items: Item, gap: int = 8, margins: Margins = (0, 0, 0, 0), grows: Item = None, parent: QWidget | None = None
) -> QHBoxLayout:
    """A horizontal layout, as ``column``."""
    box = QHBoxLayout(parent) if parent is not None else QHBoxLayout()
    _fill(box, items, gap, margins, grows)
    return box


def frame(role: str, layout: QLayout | None = None) -> QFrame:
    """A box by role: card, note, sunken, hline, …"""
    box = QFrame()
    box.setProperty("role", role)
    if layout is not None:
        box.setLayout(layout)
    return box


class Panel(QWidget):
    """A plain area on a ground of the style sheet: panel (surface colour) or canvas."""

    def __init__(self, ground: str = "panel") -> None:
        super().__init__()
        self.setObjectName(ground)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)


def set_role(widget: QWidget, role: str, name: str = "role") -> None:
    """Change a dynamic property that the style sheet uses, and apply the sheet again if it was applied before."""
    if (widget.property(name) or "") != role:
        widget.setProperty(name, role)
        if widget.testAttribute(Qt.WidgetAttribute.WA_WState_Polished):
            widget.style().unpolish(widget)
            widget.style().polish(widget)


def lay_out_now(*widgets: QWidget) -> None:
    """Lay out these widgets, inner ones first, after something in them was shown, hidden or given another text.

    Needed in a ``resizeEvent``: a layout in progress drops requests to be laid out again.
    """
    for widget in widgets:
        if (layout := widget.layout()) is not None:
            layout.activate()


def tab_from(place: QWidget, added: QWidget) -> None:
    """Put a widget that was made late at its place in the Tab chain: after what comes before ``place``."""
    before = place
    while before.focusPolicy() == Qt.FocusPolicy.NoFocus and (earlier := before.previousInFocusChain()) is not None:
        before = earlier
    for widget in (added, *added.findChildren(QWidget)):
        if widget.focusPolicy() != Qt.FocusPolicy.NoFocus:
            QWidget.setTabOrder(before, widget)
            before = widget


def tab_in_order(whole: QWidget) -> None:
    """Let Tab go through everything in ``whole`` as the eye does: as its layouts have it, row by row."""
    found = list(_in_order(whole))
    for before, after in pairwise(found):
        QWidget.setTabOrder(before, after)


def _in_order(widget: QWidget) -> Iterator[QWidget]:
    """Yields the widgets in ``widget`` that Tab can reach; the parts of a control of Qt's own, which has no layout, are
    included."""
    if widget.focusPolicy() & Qt.FocusPolicy.TabFocus or widget.focusProxy() is not None:  # Qt stops at both
        yield widget
    if isinstance(widget, QSplitter):
        for inside in filter(None, map(widget.widget, range(widget.count()))):
            yield from _in_order(inside)
    elif isinstance(widget, QScrollArea):
        inner = widget.widget()
        yield from _in_order(inner) if inner is not None else ()
    else:
        yield from _of_layout(widget.layout())


def _of_layout(layout: QLayout | None) -> Iterator[QWidget]:
    for number in range(layout.count() if layout is not None else 0):
        item = layout.itemAt(number) if layout is not None else None
        inside = item.widget() if item is not None else None
        if inside is not None:
            yield from _in_order(inside)
        elif item is not None:
            yield from _of_layout(item.layout())


def scrolling(inside: QWidget | None = None, takes_focus: bool = False) -> QScrollArea:
    """``inside`` as wide as there is room, with a bar when it is too high. With ``takes_focus`` keys scroll it as
    well: for what holds no control to reach by Tab."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if not takes_focus:
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    if inside is not None:
        area.setWidget(inside)
    return area


# --- Text -------------------------------------------------------------------------------------------------------------

_KEYS = re.compile(r"Ctrl(?:\+Shift)?(?:\+(?:\w+|[.,]))?")


class CodeText(QPlainTextEdit):
    """A text to read, unchanged and in the typeface of code."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setProperty("role", "code")
        self.setFont(font("mono"))
        self.setAccessibleName(name)


def native_keys(text: str) -> str:
    """The text with its keys as this system writes them: on macOS Qt has ⌘ where we say Ctrl."""
    return _KEYS.sub(lambda found: _native(found[0]), text)


def _native(keys: str) -> str:
    if keys == "Ctrl":
        return _native("Ctrl+A").removesuffix("A").rstrip("+")
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


def label(
    text: str = "",
    kind: FontKind = "body",
    tone: str = "",
    wrap: bool = False,
    *,
    selectable: bool = False,
    of: QWidget | None = None,
) -> QLabel:
    """A text with a font role and a tone (2, 3, accent, ok, warn, bad, stale). A ``selectable`` one can be copied; one
    ``of`` a field names it."""
    result = Wrapped() if wrap else QLabel()
    if selectable:
        result.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if of is not None:
        result.setBuddy(of)
    if kind != "body":
        result.setFont(font(kind))
    result.setTextFormat(Qt.TextFormat.PlainText)
    if tone:
        result.setProperty("tone", tone)
    result.setText(text)
    return result


class Elided(QLabel):
    """Shows one line that can become narrower: it is shortened with an ellipsis, and then its tooltip has the whole
    text."""

    def __init__(self, text: str = "", kind: FontKind = "body", tone: str = "") -> None:
        super().__init__()
        self._whole = text
        if kind != "body":
            self.setFont(font(kind))
        self.setTextFormat(Qt.TextFormat.PlainText)
        if tone:
            self.setProperty("tone", tone)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._fit()

    def set_text(self, text: str) -> None:
        """Show another text."""
        if text != self._whole:
            self._whole = text
            self._fit()

    def whole(self) -> str:
        """The text before shortening."""
        return self._whole

    def minimumSizeHint(self) -> QSize:
        """Returns a narrow size: the text makes room for everything else."""
        return QSize(24, super().minimumSizeHint().height())

    def sizeHint(self) -> QSize:
        """Returns the width of the whole text."""
        width = QFontMetricsF(self.font()).horizontalAdvance(self._whole) + 2
        return QSize(round(width), super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shortens the text to the new width."""
        self._fit()
        super().resizeEvent(event)

    def _fit(self) -> None:
        text = self.fontMetrics().elidedText(self._whole, Qt.TextElideMode.ElideRight, max(self.width(), 24))
        self.setText(text)
        self.setToolTip(for_tooltip(self._whole) if text != self._whole else "")
        self.setAccessibleName(self._whole)


class Glyph(QLabel):
    """An icon beside a text. ``tone`` names a colour role of the theme."""

    def __init__(self, appearance: Appearance, name: str, tone: str = "text2", size: int = 16) -> None:
        super().__init__()
        self._appearance, self._name, self._tone, self._size = appearance, name, tone, size
        self.setFixedSize(size, size)
        self.retheme()

    def set_glyph(self, name: str, tone: str) -> None:
        """Show another icon."""
        if (name, tone) != (self._name, self._tone):
            self._name, self._tone = name, tone
            self.retheme()

    def retheme(self) -> None:
        """Tint again."""
        theme = self._appearance.theme
        self.setPixmap(pixmap(self._name, theme.colour(self._tone), self._size, theme.surface))


# --- Buttons ----------------------------------------------------------------------------------------------------------

_INKS = {"primary": "on_accent", "primarySmall": "on_accent", "quiet": "accent", "danger": "bad"}


class Button(QPushButton):
    """A push button by role (primary, primarySmall, quiet, flat, danger, chip or plain), with or without icon."""

    def __init__(
        self, appearance: Appearance, text: str, role: str = "", glyph: str = "", tip: str = "", ink: str = ""
    ) -> None:
        super().__init__()
        self._appearance, self._role, self._glyph, self._ink, self._tip = appearance, role, glyph, ink, ""
        self.setProperty("role", role)
        self.setFont(font("primary" if role == "primary" else "button"))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # no ring after a click
        self.setIconSize(QSize(16, 16) if role == "primary" else QSize(14, 14))
        self.set_words(text, tip)
        self.retheme()

    def set_words(self, text: str, tip: str | None = None) -> None:
        """Sets another text. A space goes before it because a style sheet leaves icon and text too close."""
        self.setText(f" {text}" if self._glyph else text)
        self.setAccessibleName(text)
        if tip is not None:
            self._tip = native_keys(tip)
            self.setToolTip(self._tip)

    def set_glyph(self, glyph: str, ink: str = "") -> None:
        """Sets another icon."""
        if (glyph, ink) != (self._glyph, self._ink):
            self._glyph, self._ink = glyph, ink
            self.retheme()

    def allow(self, allowed: bool, reason: str = "") -> None:
        """Enable or disable; a disabled button says why in its tooltip."""
        self.setEnabled(allowed)
        self.setToolTip(self._tip if allowed else reason)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ignores the second click of a double click on a button that starts something. Qt compares when both were
        made: a busy window, which handles them late, does not take them for two clicks. Other buttons may be clicked
        fast."""
        if self._role == "primary":
            event.accept()
        else:
            super().mouseDoubleClickEvent(event)

    def retheme(self) -> None:
        """Tint the icon again."""
        if self._glyph:
            ink = self._appearance.theme.colour(self._ink or _INKS.get(self._role, "text2"))
            self.setIcon(self._appearance.icon(self._glyph, ink))


class IconButton(QToolButton):
    """An icon alone: always with tooltip and accessible name."""

    def __init__(self, appearance: Appearance, glyph: str, name: str, tip: str = "", size: int = 16) -> None:
        super().__init__()
        self._appearance, self._glyph = appearance, glyph
        self.setProperty("role", "icon")
        self.setIconSize(QSize(size, size))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # no ring after a click
        self.setAccessibleName(name)
        self.setToolTip(native_keys(tip or name))
        self.retheme()

    def set_glyph(self, glyph: str) -> None:
        """Sets another icon."""
        self._glyph = glyph
        self.retheme()

    def retheme(self) -> None:
        """Tint again."""
        self.setIcon(self._appearance.icon(self._glyph))


PICTURES = {"png": "As a picture, PNG…", "svg": "As a drawing, SVG…"}
"""The kinds of files that every chart becomes, with what a menu calls them."""


def export_button(
    appearance: Appearance, name: str, kinds: Mapping[str, str], ask: Callable[[str], object], keys: str = ""
) -> IconButton:
    """A button with a menu of kinds of files, each with its words, which calls ``ask`` with the kind."""
    *most, last = map(str.upper, kinds)
    button = IconButton(appearance, "export", name, f"{name.split()[0]} as {', '.join(most)} or {last}{keys}")
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    menu = QMenu(button)
    for kind, words in kinds.items():
        menu.addAction(words).triggered.connect(lambda _checked=False, kind=kind: ask(kind))
    button.setMenu(menu)
    return button


class Segments(QFrame):
    """A choice of few, all visible; arrow keys move, as in a tab bar."""

    chosen = Signal(str)

    def __init__(self, options: Sequence[tuple[str, str]], current: str, name: str) -> None:
        super().__init__()
        self.setProperty("role", "segments")
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self._buttons: dict[str, QToolButton] = {}
        self._quiet = False
        box = row(gap=2, margins=(2, 2, 2, 2), parent=self)
        for key, text in options:
            button = QToolButton()
            button.setText(text)
            button.setCheckable(True)
            button.setChecked(key == current)
            button.setProperty("role", "segment")
            button.setAccessibleName(f"{name}: {text}")
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            button.toggled.connect(lambda on, key=key: self._toggled(on, key))
            self._group.addButton(button)
            self._buttons[key] = button
            box.addWidget(button)

    def current(self) -> str:
        """The key of the chosen option."""
        return next(key for key, button in self._buttons.items() if button.isChecked())

    def choose(self, key: str) -> None:
        """Choose without a signal."""
        self._quiet = True
        self._buttons[key].setChecked(True)
        self._quiet = False

    def _toggled(self, on: bool, key: str) -> None:
        """Reports the choice here, because arrow keys choose without a click."""
        if on and not self._quiet:
            self.chosen.emit(key)

    def button(self, key: str) -> QToolButton:
        """The button of one option."""
        return self._buttons[key]


# --- Shapes -----------------------------------------------------------------------------------------------------------


class Pill(QWidget):
    """A run's state: shape and word on a soft ground. Never colour alone."""

    def __init__(self, appearance: Appearance, state: str = "Draft") -> None:
        super().__init__()
        self._appearance, self._state, self._text = appearance, "", ""
        self.setFont(font("strong"))
        self.set_state(state)

    def set_state(self, state: str, text: str = "") -> None:
        """Show another state; ``text`` in place of its word."""
        wanted = text or state_style(state).word
        if (state, wanted) == (self._state, self._text):
            return
        self._state, self._text = state, wanted
        self.setFixedSize(round(QFontMetricsF(self.font()).horizontalAdvance(wanted)) + 38, 24)
        self.setAccessibleName(f"State: {wanted}")
        self.update()

    def retheme(self) -> None:
        """Paint again."""
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paints the background, the shape and the word."""
        theme, style = self._appearance.theme, state_style(self._state)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.colour(style.ground)))
        painter.drawRoundedRect(self.rect(), 12, 12)
        shape = pixmap(style.icon, theme.colour(style.ink), 15, theme.colour(style.ground))
        painter.drawPixmap(QPointF(8, 4.5), shape)
        painter.setPen(QColor(theme.colour(style.ink)))
        painter.setFont(self.font())
        painter.drawText(self.rect().adjusted(28, 0, 0, -1), Qt.AlignmentFlag.AlignVCenter, self._text)
        painter.end()


def draw_swatch(painter: QPainter, rect: QRectF, style: CurveStyle) -> None:
    """A short piece of a run's curve, dash and all."""
    pen = QPen(QColor(style.colour), 2.4)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    if style.dash:
        pen.setDashPattern([length / 2.4 for length in style.dash])
    painter.setPen(pen)
    y = rect.center().y()
    painter.drawLine(QPointF(rect.left(), y), QPointF(rect.right(), y))


def blank(size: QSize) -> QPixmap:
    """A transparent picture."""
    picture = QPixmap(size)
    picture.fill(Qt.GlobalColor.transparent)
    return picture


# --- Sections ---------------------------------------------------------------------------------------------------------


class FoldButton(QToolButton):
    """The title of what it shows and hides, with an arrow."""

    def __init__(
        self, appearance: Appearance, title: str, role: str = "row", kind: FontKind = "section", size: int = 12
    ) -> None:
        super().__init__()
        self._appearance, self.title = appearance, title
        self.setProperty("role", role)
        self.setFont(font(kind))
        self.setText(title)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setIconSize(QSize(size, size))
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # no ring after a click
        self.toggled.connect(lambda _on: self.retheme())
        self.retheme()

    def retheme(self) -> None:
        """Tint the arrow."""
        self.setAccessibleName(f"{'Hide' if self.isChecked() else 'Show'} {self.title.lower()}")
        self.setIcon(self._appearance.icon("down" if self.isChecked() else "right"))


class FoldingSection(QWidget):
    """A section that can be folded: ``content`` below a button that shows and hides it; ``extra`` is at the end of its
    line."""

    toggled = Signal(bool)

    def __init__(
        self, appearance: Appearance, title: str, content: QWidget, inset: int = 0, extra: QWidget | None = None
    ) -> None:
        super().__init__()
        self._words = ""
        self.content = content
        self.button = FoldButton(appearance, title)
        self.button.toggled.connect(self._show)
        self.summary = Elided("", "caption", "3")
        items = (self.button, self.summary, *((extra,) if extra is not None else ()))
        head = row(*items, gap=4, margins=(inset, 0, 12, 0))
        column(head, content, gap=2, parent=self)
        content.hide()

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
        self.toggled.emit(on)


# --- Progress ---------------------------------------------------------------------------------------------------------


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


# --- Wrapped texts ----------------------------------------------------------------------------------------------------


_BREAK = "\u200b"
_LONGEST = 20
"""Characters of a word that are not broken: what is longer, mostly a path, would be wider than its place."""
_JOINTS = re.escape("/\\.-_=:,;@")


def breakable(text: str) -> str:
    """``text`` with invisible places where a long word may break, after a sign such as ``/`` where it has some."""
    return re.sub(rf"\S{{{_LONGEST + 1},}}", lambda word: _broken(word[0]), text)


def _broken(word: str) -> str:
    return _BREAK.join(re.findall(rf"[^{_JOINTS}]{{1,{_LONGEST}}}[{_JOINTS}]*|[{_JOINTS}]+", word))


class Wrapped(QLabel):
    """A text of several lines that is never wider than its place. ``text`` and what is copied are as it was set."""

    def __init__(self) -> None:
        super().__init__()
        self._whole = ""
        self.setWordWrap(True)

    def setText(self, text: str) -> None:
        """Show another text."""
        self._whole = text
        super().setText(breakable(text) if self.textFormat() is Qt.TextFormat.PlainText else text)

    def text(self) -> str:
        """The text as it was set."""
        return self._whole

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copies the text without the places to break."""
        super().keyPressEvent(event)
        if event.matches(QKeySequence.StandardKey.Copy):
            _clean(QClipboard.Mode.Clipboard)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Cleans the selection too, because selecting copies on some systems."""
        super().mouseReleaseEvent(event)
        if self.hasSelectedText() and QGuiApplication.clipboard().supportsSelection():
            _clean(QClipboard.Mode.Selection)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """A menu whose *Copy* leaves them out as well."""
        if self.hasSelectedText():
            menu = QMenu(self)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            selected = self.selectedText().replace(_BREAK, "")
            menu.addAction("Copy").triggered.connect(lambda: QGuiApplication.clipboard().setText(selected))
            menu.popup(event.globalPos())


def _clean(mode: QClipboard.Mode) -> None:
    board = QGuiApplication.clipboard()
    text = board.text(mode)
    if _BREAK in text:
        board.setText(text.replace(_BREAK, ""), mode)
