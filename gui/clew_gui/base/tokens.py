"""Design tokens: every colour and curve style of the window, for the light and the dark theme. Plain data, no Qt.

Contrast on ``surface``: text 4.5:1 or more, outlines and curves 3:1 or more. The curve hues were searched for the
largest smallest CIELAB distance over normal, deutan, protan and tritan vision (31.7 light, 30.4 dark).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FontKind = Literal[
    "caption",
    "captionStrong",
    "body",
    "strong",
    "section",
    "subtitle",
    "title",
    "big",
    "button",
    "primary",
    "guide",
    "mono",
]
FONT_FACTORS: Final[dict[str, float]] = {
    "caption": 0.88,
    "captionStrong": 0.88,
    "subtitle": 1.15,
    "title": 1.54,
    "big": 2.0,
    "primary": 1.12,
    "guide": 1.1,
    "mono": 0.94,
}
"""Size of a kind of text as a factor of the body's."""
BOLD: Final = frozenset(("captionStrong", "strong", "section", "subtitle", "title", "big", "primary"))


class Theme(msgspec.Struct, frozen=True):
    """Colours by role as ``#RRGGBB``. No widget names a colour itself."""

    name: str
    canvas: str  # behind the cards, centre of the window only
    surface: str  # cards, plots, tables, panels
    sunken: str  # segmented controls, progress track, code
    hover: str
    line: str  # hairlines between regions, decoration
    grid: str  # plot grid, decoration
    border: str  # outline of an input or check box, at least 3:1
    text: str
    text2: str
    text3: str  # captions and axis numbers, still at least 4.5:1
    disabled: str
    accent: str
    accent_hover: str
    accent_press: str
    accent_soft: str
    on_accent: str
    ok: str
    ok_soft: str
    warn: str
    warn_soft: str
    bad: str
    bad_soft: str
    stale: str
    stale_soft: str
    neutral_soft: str
    curves: tuple[str, ...]
    classes: tuple[str, ...]  # of points in a plane, which a name at their middle tells apart as well

    @property
    def dark(self) -> bool:
        """Whether light ink is on a dark ground."""
        return luminance(self.surface) < luminance(self.text)

    def colour(self, role: str) -> str:
        """The colour of a role by its name, such as ``"warn_soft"``."""
        value = getattr(self, role)
        if not isinstance(value, str):
            raise AttributeError(f"{role} is not a colour role")
        return value

    def class_colour(self, number: int) -> str:
        """The colour of a class; from the eleventh on they repeat."""
        return self.classes[number % len(self.classes)]

    def curve(self, index: int) -> CurveStyle:
        """Hue and dash of the run with this index. From the seventh on the hues repeat with a dash."""
        hues = len(self.curves)
        return CurveStyle(self.curves[index % hues], DASHES[index // hues % len(DASHES)])


class CurveStyle(msgspec.Struct, frozen=True):
    """Colour of a curve and its dash pattern in pixels, on and off in turn; an empty tuple is a full line."""

    colour: str
    dash: tuple[float, ...]


DASHES: Final[tuple[tuple[float, ...], ...]] = ((), (7, 4), (2, 3), (9, 3, 2, 3))

LIGHT: Final = Theme(
    name="light",
    canvas="#F3F5F8",
    surface="#FFFFFF",
    sunken="#ECEFF4",
    hover="#F0F3F8",
    line="#DDE2EA",
    grid="#E9ECF1",
    border="#848E9E",
    text="#18202B",
    text2="#465162",
    text3="#5F6A7A",
    disabled="#9AA3B0",
    accent="#2F5BD7",
    accent_hover="#274EBE",
    accent_press="#2042A3",
    accent_soft="#E7EDFC",
    on_accent="#FFFFFF",
    ok="#14773F",
    ok_soft="#E1F3E8",
    warn="#8A5000",
    warn_soft="#FCF0D8",
    bad="#B3261E",
    bad_soft="#FBE7E5",
    stale="#6B3FA0",
    stale_soft="#F0E9F9",
    neutral_soft="#E9ECF1",
    curves=("#2F5BD7", "#F0690F", "#003C1E", "#D269B4", "#96875A", "#5A0F69"),
    classes=(
        "#1F6FB4",
        "#D9630A",
        "#23862B",
        "#C4232B",
        "#7E57C2",
        "#7A4A3E",
        "#C9559F",
        "#6B6B6B",
        "#8A8A00",
        "#0E8FA3",
    ),
)
DARK: Final = Theme(
    name="dark",
    canvas="#0F1318",
    surface="#171B22",
    sunken="#222933",
    hover="#1E242D",
    line="#2B323D",
    grid="#252B35",
    border="#6F7B8C",
    text="#E8ECF2",
    text2="#B6BFCC",
    text3="#929CAB",
    disabled="#626C7A",
    accent="#7AA2FF",
    accent_hover="#94B4FF",
    accent_press="#A9C3FF",
    accent_soft="#1F2C4A",
    on_accent="#0B1426",
    ok="#5CC98A",
    ok_soft="#15301F",
    warn="#E8B04B",
    warn_soft="#362A13",
    bad="#FF8A80",
    bad_soft="#401C1A",
    stale="#C4A5F5",
    stale_soft="#2C2242",
    neutral_soft="#262D38",
    curves=("#7AA2FF", "#FFA52D", "#D2FFD2", "#D22D87", "#87783C", "#963CFF"),
    classes=(
        "#5AA9F0",
        "#FFA24C",
        "#58C463",
        "#FF6B6B",
        "#B79AF0",
        "#C08F80",
        "#F29BD4",
        "#A8A8A8",
        "#D6D64A",
        "#3FD0E0",
    ),
)


def mixed(first: str, second: str, share: float) -> str:
    """A colour between two: ``share`` of the second."""
    pairs = ((int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round((1 - share) * one + share * other):02x}" for one, other in pairs)


def ink_on(ground: str, theme: Theme) -> str:
    """The theme's ink that is best to read on a colour."""
    return max((theme.surface, theme.text), key=lambda ink: contrast(ink, ground))


def luminance(colour: str) -> float:
    """Relative luminance of ``#RRGGBB``, 0 to 1 (WCAG 2.1, section "relative luminance")."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.1)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)
