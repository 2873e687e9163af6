"""The theme: enough contrast in both themes, every icon drawable, the style sheet's pictures up to date."""

from __future__ import annotations

import re

import msgspec
import pytest
from PySide6.QtGui import QFont, QFontInfo, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import DARK, LIGHT, Theme, contrast
from clew_gui.views.theme.icons import ICONS, PICTURES, icon, pixmap, sheet_pictures, state_style
from clew_gui.views.theme.theme import FONTS, alpha, apply, font, palette, prepare, stylesheet
from clew_shared.journal.lifecycle import RunState

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


@THEMES
@pytest.mark.parametrize("ground", ["surface", "canvas"])
@pytest.mark.parametrize("ink", ["text", "text2", "text3", "accent", "ok", "warn", "bad", "stale"])
def test_text_can_be_read(theme: Theme, ink: str, ground: str) -> None:
    assert contrast(theme.colour(ink), theme.colour(ground)) >= 4.5


@THEMES
@pytest.mark.parametrize("ink", ["accent", "ok", "warn", "bad", "stale"])
def test_states_can_be_read_on_their_own_ground(theme: Theme, ink: str) -> None:
    assert contrast(theme.colour(ink), theme.colour(f"{ink}_soft")) >= 4.5


@THEMES
def test_outlines_buttons_and_curves_stand_out(theme: Theme) -> None:
    assert contrast(theme.border, theme.surface) >= 3
    assert contrast(theme.on_accent, theme.accent) >= 4.5
    assert all(contrast(curve, theme.surface) >= 3 for curve in theme.curves)


def test_a_run_keeps_its_hue_family_and_gets_a_dash_from_the_seventh_on() -> None:
    assert [LIGHT.curve(k).dash for k in (0, 5, 6, 12, 18, 24)] == [(), (), (7, 4), (2, 3), (9, 3, 2, 3), ()]
    assert LIGHT.curve(7).colour == LIGHT.curve(1).colour
    assert len({LIGHT.curve(k) for k in range(24)}) == 24


@THEMES
def test_every_icon_leaves_ink(theme: Theme, qtbot: QtBot) -> None:
    for name in sorted(path.stem for path in ICONS.glob("*.svg")):
        picture = pixmap(name, theme.text, 16, theme.surface).toImage()
        ink = sum(picture.pixelColor(x, y).alpha() > 0 for x in range(32) for y in range(32))
        assert ink > 8, name
        assert not icon(name, theme).isNull()
    with pytest.raises(FileNotFoundError):
        pixmap("no such icon", theme.text)


def test_every_state_has_a_word_and_a_shape_of_its_own(qtbot: QtBot) -> None:
    shown = {state: state_style(state.value) for state in RunState}
    assert shown[RunState.TIMED_OUT].word == "Timed out"
    alike = {RunState.STARTING, RunState.PREPARING}
    assert len({style.icon for style in shown.values()}) == len(RunState) - len(alike) + 1
    assert state_style("SOMETHING_NEW").word == "Something new"


@THEMES
def test_the_pictures_of_the_sheet_are_up_to_date(theme: Theme) -> None:
    for name, content in sheet_pictures(theme).items():
        assert (PICTURES / name).read_bytes() == content, "run python -m clew_gui.views.theme.icons"


@THEMES
def test_the_sheet_names_only_colours_of_the_theme_and_pictures_that_exist(theme: Theme) -> None:
    sheet = stylesheet(theme)
    known = {value for value in msgspec.structs.asdict(theme).values() if isinstance(value, str)}
    assert set(re.findall(r"#[0-9A-Fa-f]{6}\b", sheet)) <= known
    for name in re.findall(r"url\(clew:([^)]+)\)", sheet):
        assert (PICTURES / name).exists()


def test_a_theme_can_be_switched_while_running(qapp: QApplication) -> None:
    sheet, colours, letters, style = qapp.styleSheet(), qapp.palette(), qapp.font(), qapp.style().objectName()
    try:
        for theme in (LIGHT, DARK, LIGHT):
            apply(qapp, theme)
            assert qapp.palette().color(QPalette.ColorRole.Window).name().upper() == theme.canvas
            assert qapp.styleSheet() == stylesheet(theme)
        assert font("title").pointSizeF() == pytest.approx(1.54 * font().pointSizeF())
        assert font("title").weight() == QFont.Weight.DemiBold
        apply(qapp, DARK)
        assert font().pointSizeF() == pytest.approx(font().pointSizeF())
    finally:
        qapp.setStyleSheet(sheet)
        qapp.setPalette(colours)
        qapp.setFont(letters)
        qapp.setStyle(style)


def test_disabled_text_has_its_own_colour(qapp: QApplication) -> None:
    group, role = QPalette.ColorGroup.Disabled, QPalette.ColorRole.Text
    assert palette(DARK).color(group, role).name().upper() == DARK.disabled
    assert alpha("#102030", 0.5).alpha() == 128


def test_a_role_that_is_no_colour_is_refused() -> None:
    with pytest.raises(AttributeError, match="curves is not a colour role"):
        LIGHT.colour("curves")
    assert DARK.dark
    assert not LIGHT.dark


def test_the_window_has_its_own_font_with_its_licence(qapp: QApplication) -> None:
    prepare(qapp)
    assert QFontInfo(qapp.font()).family() == "Inter"
    assert {QFontInfo(font(kind)).weight() for kind in ("body", "button", "strong")} == {400, 500, 600}
    assert "SIL Open Font License" in (FONTS / "OFL.txt").read_text()
