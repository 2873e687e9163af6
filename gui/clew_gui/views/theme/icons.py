"""Icons: strokes of our own on a 16 grid, kept as SVG text and tinted from the theme.

The state icons (names that begin with ``s_``) differ by shape, so that nothing is shown by colour alone.
``python -m clew_gui.views.theme.icons`` rewrites the few picture files that the style sheet needs beside this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from clew_gui.base.tokens import DARK, LIGHT, Theme

PICTURES: Final = Path(__file__).parent / "pictures"

# "C" stands for the icon's colour, "S" for the ground it lies on.
_RING = '<circle cx="8" cy="8" r="5.8"/>'
_DISC = '<circle cx="8" cy="8" r="6.4" fill="C" stroke="none"/>'
_BROKEN_LINK = (
    '<path d="M9.6 10l2.8-2.7a2.6 2.6 0 0 0-3.7-3.7l-.7.7M6.4 6L3.6 8.7a2.6 2.6 0 0 0 3.7 3.7l.7-.7'
    'M2.6 2.6l10.8 10.8"/>'
)
_BODIES: Final[dict[str, str]] = {
    "play": '<path d="M5 3.2v9.6l7.6-4.8z" fill="C"/>',
    "pause": '<path d="M5.2 3.5v9M10.8 3.5v9" stroke-width="2"/>',
    "stop": '<rect x="4" y="4" width="8" height="8" rx="1.2" fill="C"/>',
    "check": '<path d="M3.2 8.6l3 3 6.6-7"/>',
    "cross": '<path d="M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6"/>',
    "down": '<path d="M4 6.2l4 4 4-4"/>',
    "right": '<path d="M6.2 4l4 4-4 4"/>',
    "left": '<path d="M9.8 4l-4 4 4 4"/>',
    "up": '<path d="M4 9.8l4-4 4 4"/>',
    "search": '<circle cx="7" cy="7" r="4.2"/><path d="M10.2 10.2l3.3 3.3"/>',
    "clock": _RING + '<path d="M8 4.8V8l2.3 1.5"/>',
    "sun": '<circle cx="8" cy="8" r="2.8"/><path d="M8 1.6v1.3M8 13.1v1.3M1.6 8h1.3M13.1 8h1.3M3.5 3.5l.9.9'
    'M11.6 11.6l.9.9M12.5 3.5l-.9.9M4.4 11.6l-.9.9"/>',
    "moon": '<path d="M13 9.6A5.6 5.6 0 1 1 6.6 3a4.5 4.5 0 0 0 6.4 6.6z"/>',
    "gear": '<path d="M2.5 4.5h7M12.5 4.5h1M2.5 11.5h1M6.5 11.5h7"/>'
    '<circle cx="11" cy="4.5" r="1.6"/><circle cx="5" cy="11.5" r="1.6"/>',
    "server": '<rect x="2.5" y="3" width="11" height="4.2" rx="1.2"/><rect x="2.5" y="8.8" width="11" height="4.2" '
    'rx="1.2"/><path d="M5 5.1h.01M5 10.9h.01" stroke-width="1.8"/>',
    "laptop": '<rect x="3.2" y="3.4" width="9.6" height="6.8" rx="1"/><path d="M1.8 12.6h12.4"/>',
    "link": '<path d="M6.7 9.3a2.6 2.6 0 0 0 3.7 0l2-2a2.6 2.6 0 0 0-3.7-3.7l-.7.7M9.3 6.7a2.6 2.6 0 0 0-3.7 0l-2 2'
    'a2.6 2.6 0 0 0 3.7 3.7l.7-.7"/>',
    "unlink": _BROKEN_LINK,
    "data": '<ellipse cx="8" cy="4" rx="5" ry="1.9"/><path d="M3 4v8c0 1 2.2 1.9 5 1.9s5-.9 5-1.9V4'
    'M3 8c0 1 2.2 1.9 5 1.9S13 9 13 8"/>',
    "chip": '<rect x="4.2" y="4.2" width="7.6" height="7.6" rx="1.2"/><path d="M6.3 1.9v2.3M9.7 1.9v2.3M6.3 11.8v2.3'
    'M9.7 11.8v2.3M1.9 6.3h2.3M1.9 9.7h2.3M11.8 6.3h2.3M11.8 9.7h2.3"/>',
    "flag": '<path d="M4 14V2.6h7.6L10 5.6l1.6 3H4"/>',
    "reset": '<path d="M3.4 6.2A5.2 5.2 0 1 1 2.8 9M3 2.8v3.5h3.5"/>',
    "copy": '<rect x="5.6" y="5.6" width="7.6" height="7.6" rx="1.4"/><path d="M10.4 5.4V4a1.3 1.3 0 0 0-1.3-1.3H4'
    'A1.3 1.3 0 0 0 2.7 4v5.1A1.3 1.3 0 0 0 4 10.4h1.4"/>',
    "export": '<path d="M8 9.8V2.6M5.2 5.2L8 2.5l2.8 2.7M3 10.4v2.2c0 .5.4.9.9.9h8.2c.5 0 .9-.4.9-.9v-2.2"/>',
    "warn": '<path d="M8 2.4l6 10.8H2z"/><path d="M8 6.6v3M8 11.4h.01" stroke-width="1.6"/>',
    "info": _RING + '<path d="M8 7.4v3.6M8 5.1h.01" stroke-width="1.7"/>',
    "help": _RING + '<path d="M6.3 6.4a1.8 1.8 0 1 1 2.5 1.7c-.6.3-.8.6-.8 1.2M8 11.2h.01"/>',
    "dots": '<path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2.2"/>',
    "plus": '<path d="M8 3v10M3 8h10"/>',
    "minus": '<path d="M3 8h10"/>',
    "pin": '<path d="M8 9.8V14M5.4 2.4h5.2l-.7 4 1.7 3.2H4.4l1.7-3.2z"/>',
    "code": '<path d="M5.4 4.6L2 8l3.4 3.4M10.6 4.6L14 8l-3.4 3.4"/>',
    "script": '<path d="M4 2.5h5.5L12.5 5.5v8H4zM9.3 2.7v3h3"/>',
    "folder": '<path d="M2.4 12.4V4c0-.5.4-.9.9-.9h3l1.4 1.7h5c.5 0 .9.4.9.9'
    'v6.7c0 .5-.4.9-.9.9H3.3a.9.9 0 0 1-.9-.9z"/>',
    "trash": '<path d="M3.4 4.6h9.2M6.4 4.4V3h3.2v1.4M4.5 4.8l.6 8.4h5.8l.6-8.4"/>',
    "slow": '<path d="M2.6 11.5a5.6 5.6 0 1 1 10.8 0M8 10.4L5.2 7.2"/>',
    "key": '<circle cx="5.4" cy="10.6" r="2.9"/><path d="M7.6 8.4l5.6-5.6M11 5l1.9 1.9"/>',
    "eye": '<path d="M1.8 8S4 3.8 8 3.8 14.2 8 14.2 8 12 12.2 8 12.2 1.8 8 1.8 8z"/><circle cx="8" cy="8" r="1.9"/>',
    "pencil": '<path d="M2.8 13.2l.8-3.2 7.2-7.2 2.4 2.4-7.2 7.2zM9.4 4.2l2.4 2.4"/>',
    "rate": '<path d="M2.4 3v8.6c0 .8.5 1.4 1.4 1.4h9.8M5 5.6c1.6 3.6 4 4.8 8 5"/>',
    # exercise ticks and run states
    "s_todo": '<circle cx="8" cy="8" r="5.6"/>',
    "s_part": '<circle cx="8" cy="8" r="5.6"/><path d="M8 2.4a5.6 5.6 0 0 1 0 11.2z" fill="C" stroke="none"/>',
    "s_done": _DISC + '<path d="M5 8.2l2.2 2.2 4-4.5" stroke="S" stroke-width="1.7"/>',
    "s_draft": '<circle cx="8" cy="8" r="5.6" stroke-dasharray="2.2 2.2"/>',
    "s_submitted": _RING + '<path d="M8 11V5.4M5.7 7.4L8 5.1l2.3 2.3"/>',
    "s_queued": _RING + '<path d="M8 4.8V8l2.3 1.5"/>',
    "s_starting": '<path d="M8 2.2a5.8 5.8 0 1 1-5.8 5.8" stroke-width="1.9"/>',
    "s_running": _DISC + '<path d="M6.4 5v6l4.8-3z" fill="S" stroke="none"/>',
    "s_paused": _RING + '<path d="M6.4 5.8v4.4M9.6 5.8v4.4" stroke-width="1.7"/>',
    "s_stopped": '<rect x="3" y="3" width="10" height="10" rx="2"/>',
    "s_failed": '<path d="M5.4 1.9h5.2L14.1 5.4v5.2l-3.5 3.5H5.4L1.9 10.6V5.4z" fill="C" stroke="none"/>'
    '<path d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4" stroke="S" stroke-width="1.6"/>',
    "s_timedout": '<path d="M4 2.4h8M4 13.6h8M4.8 2.4c0 3.2 3.2 3.6 3.2 5.6S4.8 10.4 4.8 13.6M11.2 2.4'
    'C11.2 5.6 8 6 8 8s3.2 2.4 3.2 5.6"/>',
    "s_lost": '<circle cx="8" cy="8" r="5.8" stroke-dasharray="2.2 2.2"/>'
    '<path d="M6.5 6.5a1.6 1.6 0 1 1 2.2 1.5c-.5.3-.7.5-.7 1M8 10.9h.01"/>',
    "s_stale": _BROKEN_LINK,
    "logo": '<circle cx="7.4" cy="8" r="5.6"/><path d="M3 5.2c3.2-.6 6.6.8 8.8 4M2 8.4c2.8-.6 5.6.6 7.4 4.6'
    'M6.2 2.8c2.8 0 5 1.2 6.5 3.6M12.2 11.2c1 1.8 2.2 1.6 3 .4"/>',
}


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


def names() -> tuple[str, ...]:
    """Returns all icon names."""
    return tuple(_BODIES)


def state_style(state: str) -> StateStyle:
    """Returns how a run state is shown. It is a word or an enum value: "Timed out", "TIMED_OUT" and "timed-out" are the
    same.

    A state this version does not know (a newer agent may send one) is shown by its own name with a ring.
    """
    key = state.replace("_", " ").replace("-", " ").lower()
    for style in _STATE_STYLES:
        if style.word.lower() == key:
            return style
    return StateStyle(key.capitalize(), "s_todo", "text2", "neutral_soft")


def svg(name: str, colour: str, back: str = "#ffffff", width: float = 1.4) -> bytes:
    """The icon as an SVG document; raises KeyError for a name that does not exist."""
    body = _BODIES[name].replace('"C"', f'"{colour}"').replace('"S"', f'"{back}"')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="none" stroke="{colour}" '
        f'stroke-width="{width}" stroke-linecap="round" stroke-linejoin="round">{body}</svg>'
    ).encode()


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
