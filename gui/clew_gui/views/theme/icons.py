"""Icons: strokes of our own on a 16 grid, one SVG file each, tinted from the theme: ``currentColor`` is the icon's
colour, ``white`` the ground that it lies on.

The state icons (names that begin with ``s_``) differ by shape, so that nothing is shown by colour alone.
``python -m clew_gui.views.theme.icons`` rewrites the few picture files that the style sheet needs beside this module.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from clew_gui.base.tokens import DARK, LIGHT, Theme

PICTURES: Final = Path(__file__).parent / "pictures"

ICONS: Final = Path(__file__).parent / "icons"


class StateStyle(msgspec.Struct, frozen=True):
    """The appearance of a run state: its word, its icon, and the theme's roles for ink and soft ground."""

    word: str
    icon: str
    ink: str
    ground: str


_STATE_STYLES: Final = (
    StateStyle("Draft", "s_draft", "text3", "neutral_soft"),
    StateStyle("Submitted", "s_submitted", "text2", "neutral_soft"),
    StateStyle("Queued", "s_queued", "warn", "warn_soft"),
    StateStyle("Starting", "s_starting", "accent", "accent_soft"),
    StateStyle("Preparing", "s_starting", "accent", "accent_soft"),
    StateStyle("Running", "s_running", "accent", "accent_soft"),
    StateStyle("Paused", "s_paused", "warn", "warn_soft"),
    StateStyle("Finished", "s_done", "ok", "ok_soft"),
    StateStyle("Diverged", "warn", "warn", "warn_soft"),
    StateStyle("Stopped", "s_stopped", "text2", "neutral_soft"),
    StateStyle("Failed", "s_failed", "bad", "bad_soft"),
    StateStyle("Timed out", "s_timedout", "bad", "bad_soft"),
    StateStyle("Lost", "s_lost", "bad", "bad_soft"),
    StateStyle("Stale", "s_stale", "stale", "stale_soft"),
)


def state_style(state: str) -> StateStyle:
    """Returns how a run state is shown. It is a word or an enum value: "Timed out", "TIMED_OUT" and "timed-out" are the
    same.

    A state this version does not know (a newer agent may send one) is shown by its own name with a ring.
    """
    key = state.replace("_", " ").replace("-", " ").lower()
    unknown = StateStyle(key.capitalize(), "s_todo", "text2", "neutral_soft")
    return next((style for style in _STATE_STYLES if style.word.lower() == key), unknown)


def svg(name: str, colour: str, back: str = "#ffffff", width: float = 1.4) -> bytes:
    """The icon as an SVG document; raises OSError for a name that does not exist."""
    found = _file(name).replace("currentColor", colour).replace('"white"', f'"{back}"')
    return found.replace('stroke-width="1.4"', f'stroke-width="{width}"', 1).strip().encode()


@cache
def _file(name: str) -> str:
    return (ICONS / f"{name}.svg").read_text(encoding="utf-8")


def pixmap(name: str, colour: str, size: int = 16, back: str = "#ffffff", dpr: float = 2.0) -> QPixmap:
    """The icon as a picture of ``size`` logical pixels; ``back`` is the colour of what it lies on."""
    picture = QPixmap(round(size * dpr), round(size * dpr))
    picture.setDevicePixelRatio(dpr)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    QSvgRenderer(QByteArray(svg(name, colour, back))).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return picture


def icon(name: str, theme: Theme, colour: str | None = None, size: int = 16) -> QIcon:
    """The icon for a button or action, crisp at 1x and 2x, with a disabled form. Colour: the theme's text2."""
    ink = colour or theme.text2
    result = QIcon()
    for dpr in (1.0, 2.0):
        plain = pixmap(name, ink, size, theme.surface, dpr)
        result.addPixmap(plain)
        result.addPixmap(plain, QIcon.Mode.Selected)  # else Qt tints it in a selected row
        result.addPixmap(pixmap(name, theme.disabled, size, theme.surface, dpr), QIcon.Mode.Disabled)
    return result


def sheet_pictures(theme: Theme) -> dict[str, bytes]:
    """File name and content of each picture the style sheet refers to. The theme is in the name: Qt caches by name."""
    inks = {
        "down": (theme.text2, 1.4),
        "up": (theme.text2, 1.4),
        "right": (theme.text3, 1.4),
        "check": (theme.on_accent, 1.7),
        "minus": (theme.on_accent, 1.7),
    }
    return {f"{name}-{theme.name}.svg": svg(name, ink, width=width) + b"\n" for name, (ink, width) in inks.items()}


def main() -> None:
    """Write the style sheet's pictures beside this module; to be run after a change of token or stroke."""
    PICTURES.mkdir(exist_ok=True)
    for theme in (LIGHT, DARK):
        for name, content in sheet_pictures(theme).items():
            (PICTURES / name).write_bytes(content)


if __name__ == "__main__":
    main()
