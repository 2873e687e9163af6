"""One editor per kind of hyperparameter. Numbers are typed text with arrow keys, never a spin box.

``QSpinBox`` ends at 2**31 and ``QDoubleSpinBox`` can neither show 1e-5 nor ignore the system's decimal comma.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QCompleter,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QSlider,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

from clew_gui.base.tokens import DARK, LIGHT
from clew_gui.views.theme.parts import column, row
from clew_gui.views.theme.theme import font
from clew_shared.params import (
    MOST_POINTS,
    Choice,
    Kind,
    ParamSpec,
    PlanePoint,
    Value,
    convert,
    format_value,
    points_text,
    read_points,
)

_NO_RUN = "None"
_AROUND = 40
"""Pixels of a combo box that are no room for its text, at most: frame, padding and arrow of the style sheet."""


def stepped(spec: ParamSpec, value: float, up: bool, big: bool = False) -> float:
    """The next value with an arrow key, kept inside the limits.

    Logarithmic: the next of 1, 2, 5, 10 (``big``: a factor of ten). Linear: whole numbers by 1 (``big``: by 10),
    others by a tenth of their own size (``big``: by their own size).
    """
    if spec.log and value > 0:
        result = value * (10.0 if up else 0.1) if big else _series(value, up)
    elif spec.type.python is int:
        result = value + (1 if up else -1) * (10 if big else 1)
    else:
        size = 10.0 ** math.floor(math.log10(abs(value))) if value else 0.1
        result = value + (1 if up else -1) * size * (1.0 if big else 0.1)
    return _inside(spec, float(f"{result:.6g}"), value)


def _series(value: float, up: bool) -> float:
    decade = 10.0 ** math.floor(math.log10(value) + 1e-9)
    steps = [decade * factor for factor in (0.1, 0.2, 0.5, 1, 2, 5, 10)]
    if up:
        return next(step for step in steps if step > value * (1 + 1e-9))
    return next(step for step in reversed(steps) if step < value * (1 - 1e-9))


def _inside(spec: ParamSpec, wanted: float, before: float) -> float:
    if spec.ge is not None and wanted < spec.ge:
        return spec.ge
    if spec.le is not None and wanted > spec.le:
        return spec.le
    if (spec.gt is not None and wanted <= spec.gt) or (spec.lt is not None and wanted >= spec.lt):
        return before
    return float(round(wanted)) if spec.type.python is int else wanted


class NumberEdit(QLineEdit):
    """A number or a text. Up and down change a number by a sensible step, with Shift by a big one."""

    edited = Signal()

    def __init__(self, spec: ParamSpec, width: int = 0) -> None:
        super().__init__()
        self._spec = spec
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        if width:  # it stands in a row of its own kind, outside a form, which names its fields
            self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
            self.setFixedWidth(width)
            self.setAccessibleName(spec.label)
            self.setToolTip(spec.help)
        if spec.unit:
            self.setTextMargins(0, 0, round(QFontMetricsF(font("caption")).horizontalAdvance(spec.unit)) + 6, 0)
        self.setPlaceholderText(spec.example or ("not set" if spec.optional else ""))
        self.textChanged.connect(lambda _text: self.edited.emit())

    def raw(self) -> object:
        """The text; the check that reads command lines reads this as well."""
        return self.text()

    def set_value(self, value: Value) -> None:
        """Sets the value; whole numbers get thousands separators, which the check removes."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        self.setText(f"{value:,}" if whole and self._spec.name != "seed" else format_value(value))
        self.setCursorPosition(0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Steps a number with the arrow keys."""
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down) and self._spec.type.number:
            big = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._step(event.key() == Qt.Key.Key_Up, big)
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The unit, faint at the right end."""
        super().paintEvent(event)
        if self._spec.unit:
            painter = QPainter(self)
            painter.setFont(font("caption"))
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            area = self.rect().adjusted(0, 0, -9, 0)
            painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, self._spec.unit)
            painter.end()

    def _step(self, up: bool, big: bool) -> None:
        try:
            value = float(self.text().replace(",", ""))
        except ValueError:
            return
        if not math.isfinite(value):
            return
        result = stepped(self._spec, value, up, big)
        self.set_value(self._spec.type.python(result))


_FEW: Final = 20.0
"""A limit up to which a slider goes whatever the default is."""
_PLACES: Final = 200


class NumberSlider(QSlider):
    """Moves the number of a field along the values that make sense for it, from one of its ``ends`` to the other."""

    def __init__(self, spec: ParamSpec, editor: Editor, ends: tuple[float, float]) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._spec, self._editor = spec, editor
        self._low, self._high = map(self._scaled, ends)
        self._moves = False
        whole = spec.kind == "int" and not spec.log
        self.setRange(0, round(ends[1] - ends[0]) if whole else _PLACES)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(f"{spec.label}, slider")
        keep_from_wheel(self)
        editor.edited.connect(self._follow)
        self.valueChanged.connect(self._move)
        self._follow()

    def _follow(self) -> None:
        """Goes to the number in the field; while it moves itself it stays where it is."""
        value, problem = convert(self._spec, self._editor.raw())
        if self._moves or problem is not None or not isinstance(value, int | float):
            return
        self.setAccessibleDescription(format_value(value))
        at = self._scaled(float(value)) if value > 0 or not self._spec.log else self._low
        with QSignalBlocker(self):
            self.setValue(round(self.maximum() * (at - self._low) / (self._high - self._low)))

    def _move(self, place: int) -> None:
        value = self.value_at(place)
        self._moves = True
        self._editor.set_value(value)
        self._moves = False
        self.setAccessibleDescription(format_value(value))

    def value_at(self, place: int) -> Value:
        """The value at a place; where that is none, as at a limit that must not be reached, the present one."""
        spec, (present, _) = self._spec, convert(self._spec, self._editor.raw())
        at = self._low + (self._high - self._low) * place / self.maximum()
        value = 0.0 if spec.log and not place and spec.ge == 0 else 10**at if spec.log else at
        kept = float(present) if isinstance(present, int | float) else value
        found: Value = spec.type.python(_inside(spec, value if spec.kind == "int" else float(f"{value:.2g}"), kept))
        return found

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self._spec.log else value


def slider_ends(spec: ParamSpec) -> tuple[float, float] | None:
    """The least and the most value of a number's slider: by its logarithm a hundred times less and more than the
    default (ten times for whole numbers), else from its least to its most, or to four times the default where that is
    far away. None for a setting that has no two values."""
    if not spec.type.number or not isinstance(spec.default, int | float):
        return None
    usual, whole = float(spec.default), spec.kind == "int"
    least = max((one for one in (spec.ge, spec.gt) if one is not None), default=min(4 * usual, 0.0))
    most = min((one for one in (spec.le, spec.lt) if one is not None), default=math.inf)
    if spec.log:
        usual, far = usual if usual > 0 else 1.0 if whole else 0.01, 10.0 if whole else 100.0
        low, high = max(usual / far, least, 1.0 if whole else 0.0), min(usual * far, most)
    else:
        low, high = least, most if most <= _FEW else min(most, 4 * usual if usual > 0 else _FEW)
    return (low, high) if high > low else None


_PROSE = frozenset({"note"})
"""Fields of several lines that hold sentences."""


class LinesEdit(QPlainTextEdit):
    """A field for several lines of text; Tab goes to the next field."""

    edited = Signal()

    def __init__(self, spec: ParamSpec) -> None:
        super().__init__()
        self.setFont(font("mono"))
        self.setTabChangesFocus(True)
        self.setProperty("role", "lines")
        if spec.name not in _PROSE:  # a command that is wrapped looks like two
            self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setPlaceholderText(spec.example)
        self.setFixedHeight(round(QFontMetricsF(self.font()).lineSpacing() * spec.lines) + 18)
        self.textChanged.connect(self.edited.emit)

    def raw(self) -> object:
        """The text."""
        return self.toPlainText()

    def set_value(self, value: Value) -> None:
        """Show a text."""
        self.setPlainText(format_value(value))


class Combo(QComboBox):
    """A combo box that shortens what does not fit and shows all of it in the tooltip; a wheel passes over it."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        keep_from_wheel(self)

    def showPopup(self) -> None:
        """Makes the list as wide as its longest text, however wide the box is."""
        view = self.view()
        view.setMinimumWidth(view.sizeHintForColumn(0) + 2 * view.frameWidth() + 12)
        super().showPopup()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Lets Qt paint a text that fits, which spares a new window from loading all of a style; shortens a longer
        one."""
        if self.fontMetrics().horizontalAdvance(self.currentText()) <= self.width() - _AROUND:
            super().paintEvent(event)
        else:
            self._paint_shortened()

    def _paint_shortened(self) -> None:
        """The frame by the style, the text shortened."""
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        room = self.style().subControlRect(
            QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, self
        )
        text = self.fontMetrics().elidedText(self.currentText(), Qt.TextElideMode.ElideRight, room.width() - 2)
        setattr(option, "currentText", text)  # noqa: B010  # the stubs do not know the option's fields
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()


class ChoiceEdit(Combo):
    """Offers one of several values, shown by their labels."""

    edited = Signal()

    def __init__(self, spec: ParamSpec) -> None:
        super().__init__()
        for choice in spec.choices:
            self.addItem(choice.label, choice.value)
        self.currentIndexChanged.connect(lambda _index: self.edited.emit())

    def raw(self) -> object:
        """The value behind the label."""
        return self.currentData()

    def set_value(self, value: Value) -> None:
        """Choose the label of this value; an unknown value changes nothing."""
        index = self.findData(value)
        if index >= 0:
            self.setCurrentIndex(index)


class RunEdit(Combo):
    """An earlier run, chosen from those that are offered, or the path of a folder or file, typed."""

    edited = Signal()

    def __init__(self, _spec: ParamSpec) -> None:
        super().__init__()
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.setCompleter(QCompleter([], self))  # a path that is typed is left as it is
        self.offer(())
        self.editTextChanged.connect(lambda _text: self.edited.emit())
        self.currentIndexChanged.connect(lambda _index: self._show_beginning())

    def offer(self, runs: Sequence[tuple[str, str]]) -> None:
        """Offer these runs: (folder, words) pairs. What is chosen or typed stays."""
        items = [("", _NO_RUN), *runs]
        if items == [(self.itemData(place), self.itemText(place)) for place in range(self.count())]:
            return
        before = self.raw()
        with QSignalBlocker(self):
            self.clear()
            for folder, words in items:
                self.addItem(words, folder)
            self.set_value(str(before))

    def raw(self) -> object:
        """The folder of the run that is chosen, else what was typed."""
        place = self.findText(self.currentText(), Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchCaseSensitive)
        return self.itemData(place) if place >= 0 else self.currentText()

    def set_value(self, value: Value) -> None:
        """Choose the run of this folder, or show the path."""
        place = self.findData(value)
        if place >= 0:
            self.setCurrentIndex(place)
            self.setEditText(self.itemText(place))
        else:
            self.setEditText(format_value(value))
        self._show_beginning()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Opens the list also for a click on the text; another click lets a path be typed."""
        super().focusInEvent(event)
        if event.reason() is Qt.FocusReason.MouseFocusReason and self.count() > 1:
            QTimer.singleShot(0, self, self.showPopup)  # the press that is under way would close it

    def _show_beginning(self) -> None:
        if (line := self.lineEdit()) is not None:
            line.setCursorPosition(0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Lets Qt paint the box, because its line edit shows the text."""
        QComboBox.paintEvent(self, event)


class SwitchEdit(QCheckBox):
    """Turns a value on or off."""

    edited = Signal()

    def __init__(self, spec: ParamSpec) -> None:
        super().__init__()
        self.setMinimumHeight(30)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setText(spec.example)
        self.toggled.connect(lambda _on: self.edited.emit())

    def raw(self) -> object:
        """Whether it is on."""
        return self.isChecked()

    def set_value(self, value: Value) -> None:
        """Turns it on or off."""
        self.setChecked(bool(value))


class ManyChoices(QPushButton):
    """Several of the values of a choice, ticked in a menu and shown by their labels."""

    edited = Signal()

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__()
        self.setProperty("role", "field")
        self.setAutoDefault(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        menu = StayingMenu(self)
        self.entries: dict[str, QAction] = {}
        for choice in choices:
            entry = menu.addAction(choice.label)
            entry.setCheckable(True)
            entry.toggled.connect(lambda _on: self._ticked())
            self.entries[choice.value] = entry
        self.setMenu(menu)

    def raw(self) -> object:
        """The ticked values, as a sweep's file has them."""
        return ", ".join(value for value, entry in self.entries.items() if entry.isChecked())

    def set_value(self, value: Value) -> None:
        """Ticks these values."""
        wanted = {word.strip() for word in str(value).split(",")}
        for name, entry in self.entries.items():
            with QSignalBlocker(entry):
                entry.setChecked(name in wanted)
        self._ticked()

    def _ticked(self) -> None:
        labels = [entry.text() for entry in self.entries.values() if entry.isChecked()]
        self.setText(f"  {', '.join(labels) or 'not set'}")  # Qt has no padding beside a text at the left
        self.edited.emit()


class StayingMenu(QMenu):
    """A menu of ticks that stays open while they are set."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click sets a tick and closes nothing."""
        entry: object = self.actionAt(event.position().toPoint())  # None beside the entries, whatever its type says
        if isinstance(entry, QAction) and entry.isCheckable():
            entry.toggle()
        else:
            super().mouseReleaseEvent(event)


class LaneEdit(QWidget):
    """Whether a lane takes part, and its learning rate."""

    edited = Signal()

    def __init__(self, spec: ParamSpec) -> None:
        super().__init__()
        self.box, self.rate, self._usual = QCheckBox(), NumberEdit(spec), spec.default
        self.box.setChecked(True)
        self.box.setAccessibleName(f"{spec.label} takes part")
        self.rate.setAccessibleName(f"Learning rate of {spec.label}")
        self.box.toggled.connect(self.rate.setEnabled)
        self.box.toggled.connect(lambda _on: self.edited.emit())
        self.rate.edited.connect(self.edited)
        self.setFocusProxy(self.box)
        row(self.box, self.rate, gap=8, grows=self.rate, parent=self)

    def raw(self) -> object:
        """The rate; the usual one where the lane does not take part, whatever was written."""
        return self.rate.raw() if self.box.isChecked() else self._usual

    def set_value(self, value: Value) -> None:
        """Shows a rate."""
        self.rate.set_value(value)


class QuietWheel(QObject):
    """Keeps a wheel that scrolls a form from changing the combo box it happens to pass over."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Pass the wheel on unless the control has the focus."""
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return False


def keep_from_wheel(control: QWidget) -> None:
    """A wheel changes ``control`` only while it has the focus, and does not give it the focus."""
    control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    control.installEventFilter(QuietWheel(control))


def text_field(name: str, empty: str = "", tip: str = "") -> QLineEdit:
    """A line to type in: its accessible name, what it shows while it is empty, and its tooltip."""
    field = QLineEdit()
    field.setAccessibleName(name)
    field.setPlaceholderText(empty)
    field.setToolTip(tip)
    return field


def combo(options: list[tuple[str, str]], name: str) -> QComboBox:
    """A plain choice: (key, text) pairs."""
    box = Combo()
    box.setAccessibleName(name)
    offer(box, options)
    return box


def offer(box: QComboBox, options: Sequence[tuple[str, str]], chosen: str = "") -> None:
    """Offer (key, text) pairs, and choose by key; the list is filled again only if it is another one."""
    if [(box.itemData(place), box.itemText(place)) for place in range(box.count())] != list(options):
        box.clear()
        for key, text in options:
            box.addItem(text, key)
    box.setCurrentIndex(max(0, box.findData(chosen)))


def choose_quietly(box: QComboBox, key: str) -> None:
    """Choose by key without a signal."""
    with QSignalBlocker(box):
        box.setCurrentIndex(max(0, box.findData(key)))


# --- Points -----------------------------------------------------------------------------------------------------------


_SIDE: Final = 150
_EDGE: Final = 5.0
_DOT: Final = 4.0
_NEAR: Final = 7.0
"""A click within so many pixels of a point removes it."""
_FADED: Final = 0.4
"""How much is seen of the points that were there before the text became one that cannot be read."""


class _Square(QWidget):
    """The plane from -1 to 1. The left button sets a point of class 0, the right one of class 1."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.points: tuple[PlanePoint, ...] = ()
        self.setFixedSize(_SIDE, _SIDE)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)

    def at(self, x: float, y: float) -> QPointF:
        """The pixel of a point."""
        half = 0.5 * _SIDE - _EDGE
        return QPointF(_EDGE + half * (1 + x), _EDGE + half * (1 - y))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remove the point under the pointer, or set one."""
        at, half = event.position(), 0.5 * _SIDE - _EDGE
        kept = tuple(one for one in self.points if (self.at(*one[:2]) - at).manhattanLength() > _NEAR)
        if len(kept) == len(self.points) and len(kept) < MOST_POINTS:
            x, y = (min(max(one, -1.0), 1.0) for one in ((at.x() - _EDGE) / half - 1, 1 - (at.y() - _EDGE) / half))
            kind = 0 if event.button() is Qt.MouseButton.LeftButton else 1
            kept = (*kept, (round(x, 2), round(y, 2), kind))
        self.points = kept
        self.changed.emit()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The axes and the points, in the colours that classes have in pictures."""
        del event
        ground = self.palette().color(QPalette.ColorRole.Base)
        theme = DARK if ground.lightnessF() < 0.5 else LIGHT
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(theme.border))
        painter.setBrush(QColor(theme.surface))
        painter.setOpacity(1.0 if self.isEnabled() else _FADED)
        painter.drawRoundedRect(QRectF(0.5, 0.5, _SIDE - 1, _SIDE - 1), 6, 6)
        painter.setPen(QColor(theme.grid))
        painter.drawLine(self.at(-1, 0), self.at(1, 0))
        painter.drawLine(self.at(0, -1), self.at(0, 1))
        painter.setPen(Qt.PenStyle.NoPen)
        for x, y, kind in self.points:
            painter.setBrush(QColor(theme.class_colour(kind)))
            painter.drawEllipse(self.at(x, y), _DOT, _DOT)
        painter.end()


class PointsEdit(QWidget):
    """The square, and the same points as text, for the keyboard."""

    edited = Signal()

    def __init__(self, spec: ParamSpec) -> None:
        super().__init__()
        self.square, self.text = _Square(), text_field(f"{spec.label} as text", "0.5,-0.2,1 …")
        self.square.setToolTip(spec.help)
        self.text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        column(self.square, self.text, gap=4, parent=self)
        self.setFocusProxy(self.text)
        self.square.changed.connect(self._clicked)
        self.text.textChanged.connect(self._typed)

    def raw(self) -> object:
        """The text."""
        return self.text.text()

    def set_value(self, value: Value) -> None:
        """Show these points."""
        self.text.setText(format_value(value))
        self.text.setCursorPosition(0)

    def _clicked(self) -> None:
        with QSignalBlocker(self.text):
            self.text.setText(points_text(self.square.points))
        self.edited.emit()

    def _typed(self) -> None:
        try:
            self.square.points = read_points(self.text.text())
            self.square.setEnabled(True)
        except ValueError:  # half typed; the form says what is wrong, and a click must not write over it
            self.square.setEnabled(False)
        self.square.update()
        self.edited.emit()


# --- The editor of a setting ------------------------------------------------------------------------------------------


Editor = NumberEdit | LinesEdit | ChoiceEdit | RunEdit | SwitchEdit | PointsEdit | LaneEdit | ManyChoices
"""What a form needs of a field: ``edited`` when a person or ``set_value`` changed it, and ``raw``, what is in it."""


def _text_editor(spec: ParamSpec) -> Callable[[ParamSpec], Editor]:
    if spec.runs_of:
        return RunEdit
    return PointsEdit if spec.plane else LinesEdit if spec.lines > 1 else NumberEdit


EDITORS: Mapping[Kind, Callable[[ParamSpec], Editor]] = {
    "float": NumberEdit,
    "int": NumberEdit,
    "bool": SwitchEdit,
    "choice": ChoiceEdit,
    "text": lambda spec: _text_editor(spec)(spec),
}
"""The control for each kind of hyperparameter; all else that depends on the kind is in ``clew_shared.params.TYPES``."""


def make_editor(spec: ParamSpec) -> Editor:
    """The control of a hyperparameter."""
    return EDITORS[spec.kind](spec)
