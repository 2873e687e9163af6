"""The one style sheet. It draws boxes and colours by role; fonts are set in code.

Roles (dynamic property ``role``):
QFrame: card, window, note, okNote, warnNote, badNote, sunken, hline, vline, row, rowSelected, segments, pill.
QPushButton: primary, primarySmall, quiet, flat, danger, chip. QToolButton: button, segment, icon, row, corner.
QLineEdit: search, code; its property ``state`` may be "bad". QProgressBar: ok, warn.
QLabel: property ``tone`` is 2, 3, accent, ok, warn, bad, stale or disabled. QWidget names: canvas, panel.
"""

from __future__ import annotations

from clew_gui.base.tokens import Theme


def stylesheet(theme: Theme) -> str:
    """The sheet for a theme. Its pictures are found under the search path ``clew:``."""
    return "\n".join(part(theme) for part in (_surfaces, _labels, _buttons, _inputs, _bars, _menus, _tables))


def _surfaces(t: Theme) -> str:
    return f"""
QToolTip {{ color: {t.surface}; background: {t.text}; border: 0; padding: 4px 6px; }}
QMainWindow, QWidget#canvas {{ background: {t.canvas}; }}
QWidget#panel, QDialog, QMessageBox {{ background: {t.surface}; }}
QFrame[role="card"] {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: 10px; }}
QFrame[role="window"] {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: 12px; }}
QFrame[role="note"] {{ background: {t.accent_soft}; border: 0; border-radius: 8px; }}
QFrame[role="okNote"] {{ background: {t.ok_soft}; border: 0; border-radius: 8px; }}
QFrame[role="warnNote"] {{ background: {t.warn_soft}; border: 0; border-radius: 8px; }}
QFrame[role="badNote"] {{ background: {t.bad_soft}; border: 0; border-radius: 8px; }}
QFrame[role="sunken"] {{ background: {t.sunken}; border: 0; border-radius: 8px; }}
QFrame[role="hline"] {{ background: {t.line}; border: 0; max-height: 1px; min-height: 1px; }}
QFrame[role="vline"] {{ background: {t.line}; border: 0; max-width: 1px; min-width: 1px; }}
QFrame[role="row"] {{ background: transparent; border: 0; border-radius: 6px; }}
QFrame[role="row"]:hover {{ background: {t.hover}; }}
QFrame[role="rowSelected"] {{ background: {t.accent_soft}; border: 0; border-radius: 6px; }}
QFrame[role="segments"] {{ background: {t.sunken}; border: 0; border-radius: 7px; }}
QScrollArea {{ background: transparent; border: 0; }}
QSplitter::handle {{ background: {t.line}; }}
QSplitter[role="gap"]::handle {{ background: transparent; }}
"""


def _labels(t: Theme) -> str:
    tones = {"2": t.text2, "3": t.text3}
    tones |= {name: t.colour(name) for name in ("accent", "ok", "warn", "bad", "stale", "disabled")}
    rules = "".join(f'QLabel[tone="{name}"] {{ color: {colour}; }}\n' for name, colour in tones.items())
    return "QLabel { background: transparent; }\n" + rules


def _buttons(t: Theme) -> str:
    return f"""
QPushButton, QToolButton[role="button"] {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border};
    border-radius: 6px; padding: 0 12px; min-height: 28px; }}
QPushButton:hover, QToolButton[role="button"]:hover {{ background: {t.hover}; }}
QPushButton:pressed, QToolButton[role="button"]:pressed {{ background: {t.sunken}; }}
QPushButton[role="danger"] {{ color: {t.bad}; }}
QPushButton:disabled, QToolButton[role="button"]:disabled {{ color: {t.disabled}; border-color: {t.line}; }}
QPushButton:focus, QToolButton[role="button"]:focus {{ border: 2px solid {t.accent}; padding: 0 11px;
    min-height: 26px; }}
QPushButton[role="primary"] {{ background: {t.accent}; color: {t.on_accent}; border: 0; border-radius: 8px;
    min-height: 44px; padding: 0 16px; }}
QPushButton[role="primarySmall"] {{ background: {t.accent}; color: {t.on_accent}; border: 0; min-height: 30px; }}
QPushButton[role="primary"]:hover, QPushButton[role="primarySmall"]:hover {{ background: {t.accent_hover}; }}
QPushButton[role="primary"]:pressed, QPushButton[role="primarySmall"]:pressed {{ background: {t.accent_press}; }}
QPushButton[role="primary"]:focus {{ border: 2px solid {t.text}; padding: 0 14px; min-height: 40px; }}
QPushButton[role="primarySmall"]:focus {{ border: 2px solid {t.text}; padding: 0 10px; min-height: 26px; }}
QPushButton[role="primary"]:disabled, QPushButton[role="primarySmall"]:disabled {{ background: {t.sunken};
    color: {t.disabled}; }}
QPushButton[role="quiet"] {{ background: transparent; border: 0; color: {t.accent}; padding: 0 6px;
    min-height: 26px; }}
QPushButton[role="quiet"]:hover {{ background: {t.accent_soft}; }}
QPushButton[role="quiet"]:focus {{ border: 2px solid {t.accent}; padding: 0 4px; min-height: 22px; }}
QPushButton[role="quiet"]:disabled {{ color: {t.disabled}; }}
QPushButton[role="flat"] {{ background: transparent; border: 0; color: {t.text2}; padding: 0 8px; min-height: 28px; }}
QPushButton[role="flat"]:hover {{ background: {t.hover}; color: {t.text}; }}
QPushButton[role="flat"]:focus {{ border: 2px solid {t.accent}; padding: 0 6px; min-height: 24px; }}
QPushButton[role="flat"]:disabled {{ color: {t.disabled}; }}
QPushButton[role="chip"] {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: 14px;
    min-height: 26px; padding: 0 10px; text-align: left; }}
QPushButton[role="chip"]:hover {{ background: {t.hover}; }}
QPushButton[role="chip"]:focus {{ border: 2px solid {t.accent}; padding: 0 9px; min-height: 24px; }}
QToolButton[role="segment"] {{ background: transparent; border: 1px solid transparent; border-radius: 5px;
    padding: 0 10px; min-height: 24px; color: {t.text2}; }}
QToolButton[role="segment"]:hover {{ color: {t.text}; }}
QToolButton[role="segment"]:checked {{ background: {t.surface}; border-color: {t.border}; color: {t.text}; }}
QToolButton[role="segment"]:focus {{ border: 2px solid {t.accent}; padding: 0 9px; min-height: 22px; }}
QToolButton[role="segment"]:disabled {{ color: {t.disabled}; }}
QToolButton[role="icon"] {{ background: transparent; border: 0; border-radius: 6px; padding: 5px; }}
QToolButton[role="icon"]:hover, QToolButton[role="icon"]:open {{ background: {t.hover}; }}
QToolButton[role="icon"]:pressed {{ background: {t.sunken}; }}
QToolButton[role="icon"]:focus {{ border: 2px solid {t.accent}; padding: 3px; }}
QToolButton[role="icon"]::menu-indicator {{ image: none; width: 0; }}
QToolButton[role="row"] {{ background: transparent; border: 0; border-radius: 6px; color: {t.text2}; padding: 0 6px;
    min-height: 30px; text-align: left; }}
QToolButton[role="row"]:hover {{ background: {t.hover}; }}
QToolButton[role="row"]:focus {{ border: 2px solid {t.accent}; padding: 0 4px; min-height: 26px; }}
QToolButton[role="group"] {{ background: transparent; border: 0; color: {t.text2}; padding: 0 8px 0 0;
    min-height: 30px; text-align: left; }}
QToolButton[role="group"]:hover {{ color: {t.text}; }}
QToolButton[role="group"]:focus {{ border: 2px solid {t.accent}; border-radius: 6px; padding: 0 6px 0 0;
    min-height: 26px; }}
"""


def _inputs(t: Theme) -> str:
    return f"""
QLineEdit, QComboBox, QAbstractSpinBox {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border};
    border-radius: 6px; padding: 0 8px; min-height: 28px; selection-background-color: {t.accent};
    selection-color: {t.on_accent}; }}
QLineEdit:focus, QComboBox:focus, QAbstractSpinBox:focus {{ border: 2px solid {t.accent}; padding: 0 7px;
    min-height: 26px; }}
QLineEdit:disabled, QComboBox:disabled, QAbstractSpinBox:disabled {{ color: {t.disabled}; border-color: {t.line}; }}
QLineEdit[state="bad"], QComboBox[state="bad"] {{ border: 1px solid {t.bad}; }}
QLineEdit[state="bad"]:focus {{ border: 2px solid {t.bad}; }}
QLineEdit[role="code"] {{ border: 2px solid {t.accent}; border-radius: 8px; min-height: 44px; padding: 0 12px; }}
QLineEdit[role="search"] {{ background: {t.sunken}; border: 1px solid transparent; }}
QLineEdit[role="search"]:focus {{ border: 2px solid {t.accent}; }}
QPushButton[role="field"] {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border};
    border-radius: 6px; padding: 0; padding-left: 10px; padding-right: 24px; min-height: 28px; text-align: left; }}
QPushButton[role="field"]:focus {{ border: 2px solid {t.accent}; padding-left: 9px; min-height: 26px; }}
QPushButton[role="field"]::menu-indicator {{ image: url(clew:down-{t.name}.svg); width: 12px; height: 12px;
    subcontrol-origin: padding; subcontrol-position: center right; right: 6px; }}
QToolButton[role="corner"] {{ background: transparent; color: {t.text3}; border: 1px solid transparent;
    border-radius: 4px; padding: 1px 0; min-width: 40px; max-width: 40px; }}
QToolButton[role="corner"]:hover, QToolButton[role="corner"]:checked {{ background: {t.accent_soft};
    color: {t.accent}; }}
QToolButton[role="corner"]:focus {{ border-color: {t.accent}; }}
QComboBox {{ padding-right: 0; }}
QComboBox::drop-down {{ width: 20px; border: 0; }}
QComboBox::down-arrow {{ image: url(clew:down-{t.name}.svg); width: 12px; height: 12px; }}
QComboBox QAbstractItemView {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.line}; outline: 0;
    padding: 4px; selection-background-color: {t.accent_soft}; selection-color: {t.text}; }}
QPlainTextEdit, QTextEdit, QTextBrowser {{ background: {t.surface}; color: {t.text}; border: 0;
    selection-background-color: {t.accent}; selection-color: {t.on_accent}; }}
QPlainTextEdit[role="code"], QTextBrowser[role="code"] {{ background: {t.sunken}; color: {t.text2};
    border-radius: 8px; padding: 8px; }}
QPlainTextEdit[role="code"]:focus {{ border: 2px solid {t.accent}; padding: 6px; }}
QPlainTextEdit[role="lines"] {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border};
    border-radius: 6px; padding: 2px 4px; }}
QPlainTextEdit[role="lines"]:focus {{ border: 2px solid {t.accent}; padding: 1px 3px; }}
QPlainTextEdit[state="bad"] {{ border: 1px solid {t.bad}; }}
QCheckBox, QRadioButton {{ spacing: 8px; color: {t.text}; background: transparent; }}
QCheckBox:disabled {{ color: {t.disabled}; }}
QCheckBox::indicator, QListWidget::indicator, QTableView::indicator {{ width: 14px; height: 14px;
    border: 1px solid {t.border};
    border-radius: 4px; background: {t.surface}; }}
QCheckBox::indicator:checked, QListWidget::indicator:checked, QTableView::indicator:checked {{
    background: {t.accent}; border-color: {t.accent};
    image: url(clew:check-{t.name}.svg); }}
QCheckBox::indicator:indeterminate {{ background: {t.accent}; border-color: {t.accent};
    image: url(clew:minus-{t.name}.svg); }}
QCheckBox::indicator:disabled {{ border-color: {t.disabled}; }}
QCheckBox::indicator:focus {{ border: 2px solid {t.accent}; width: 12px; height: 12px; }}
QCheckBox::indicator:checked:focus {{ border: 2px solid {t.text}; width: 12px; height: 12px; }}
QSlider {{ min-height: 20px; background: transparent; }}
QSlider::groove:horizontal {{ height: 4px; border-radius: 2px; background: {t.sunken}; }}
QSlider::sub-page:horizontal {{ height: 4px; border-radius: 2px; background: {t.accent}; }}
QSlider::handle:horizontal {{ width: 14px; height: 14px; margin: -6px 0; border-radius: 8px; background: {t.surface};
    border: 1px solid {t.border}; }}
QSlider::handle:horizontal:focus {{ border: 2px solid {t.accent}; width: 12px; height: 12px; }}
"""


def _bars(t: Theme) -> str:
    return f"""
QProgressBar {{ background: {t.sunken}; border: 0; border-radius: 3px; max-height: 6px; min-height: 6px; }}
QProgressBar::chunk {{ background: {t.accent}; border-radius: 3px; }}
QProgressBar[role="ok"]::chunk {{ background: {t.ok}; }}
QProgressBar[role="warn"]::chunk {{ background: {t.warn}; }}
QTabWidget::pane {{ border: 0; }}
QTabBar {{ background: transparent; border: 0; }}
QTabBar::tab {{ background: transparent; color: {t.text2}; border: 0; border-bottom: 2px solid transparent;
    padding: 0 2px; margin-right: 22px; min-height: 32px; }}
QTabBar::tab:selected {{ color: {t.text}; border-bottom: 2px solid {t.accent}; }}
QTabBar::tab:hover:!selected {{ color: {t.text}; }}
QTabBar::tab:disabled {{ color: {t.disabled}; }}
QTabBar::tab:selected:focus {{ color: {t.accent}; background: {t.accent_soft}; }}
QScrollBar:vertical {{ background: transparent; width: 10px; margin: 2px; }}
QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 2px; }}
QScrollBar::handle:vertical {{ background: {t.line}; border-radius: 3px; min-height: 32px; }}
QScrollBar::handle:horizontal {{ background: {t.line}; border-radius: 3px; min-width: 32px; }}
QScrollBar::handle:hover {{ background: {t.border}; }}
QAbstractScrollArea::corner {{ background: transparent; border: 0; }}
QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page {{ width: 0; height: 0;
    background: none; }}
"""


def _menus(t: Theme) -> str:
    return f"""
QMenuBar {{ background: transparent; }}
QMenuBar::item {{ background: transparent; color: {t.text2}; padding: 5px 9px; border-radius: 6px; }}
QMenuBar::item:selected {{ background: {t.hover}; color: {t.text}; }}
QMenu {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.line}; padding: 4px; }}
QMenu::item {{ padding: 5px 20px 5px 12px; border-radius: 5px; }}
QMenu::item:selected {{ background: {t.accent_soft}; }}
QMenu::item:disabled {{ color: {t.disabled}; }}
QMenu::separator {{ height: 1px; background: {t.line}; margin: 4px 8px; }}
"""


def _tables(t: Theme) -> str:
    return f"""
QTableView, QTreeView, QListView {{ background: {t.surface}; border: 0; gridline-color: transparent; outline: 0;
    color: {t.text}; }}
QTableView::item {{ border: 0; border-bottom: 1px solid {t.grid}; padding: 0 8px; }}
QTableView::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
QTableView::item:focus {{ border: 2px solid {t.accent}; padding: 0 6px; }}
QTreeView::item, QListView::item {{ padding: 4px 6px; border-radius: 6px; }}
QTreeView::item {{ height: 24px; }}
QTreeView::item:first {{ border-top-right-radius: 0; border-bottom-right-radius: 0; }}
QTreeView::item:last {{ border-top-left-radius: 0; border-bottom-left-radius: 0; }}
QTreeView::item:focus {{ border: 2px solid {t.accent}; }}
QTreeView::item:hover, QListView::item:hover {{ background: {t.hover}; }}
QTreeView::item:selected, QListView::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
QHeaderView {{ background: {t.surface}; }}
QHeaderView::section {{ background: {t.surface}; color: {t.text3}; border: 0; border-bottom: 1px solid {t.line};
    padding: 0 8px; min-height: 26px; }}
"""
