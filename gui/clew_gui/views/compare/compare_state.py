"""What is chosen in the Compare tab, and the views that a person saved: plain data that settings keep."""

from __future__ import annotations

import msgspec


class SavedView(msgspec.Struct, frozen=True):
    """What is compared and how: the picture, which runs ("ticked" or "listed"), the values of the fields, the scale of
    the value, and the filter of the runs table."""

    name: str
    page: str = ""
    runs: str = ""
    value: str = ""
    colour: str = ""
    x: str = ""
    target: str = ""
    group: bool = True
    log: bool = False
    filter: str = ""


class CompareState(msgspec.Struct, frozen=True):
    """The state in which the Compare tab was left: the picture, which runs, and the values of its fields; empty means
    as on the first start. ``scales`` are the metrics whose scale a person chose, as "exercise metric", and whether it
    is logarithmic; ``views`` the saved ones, by exercise."""

    page: str = ""
    runs: str = ""
    value: str = ""
    colour: str = ""
    x: str = ""
    target: str = ""
    group: bool = True
    scales: dict[str, bool] = {}
    views: dict[str, tuple[SavedView, ...]] = {}
