"""What is chosen in the Compare tab, and the views that a person saved: plain data that settings keep."""

from __future__ import annotations

import msgspec


class CompareFields(msgspec.Struct, frozen=True):
    """The choices in the Compare tab: the picture, which runs ("ticked" or "listed"), and the values of the fields;
    empty means as on the first start."""

    page: str = ""
    runs: str = ""
    value: str = ""
    colour: str = ""
    x: str = ""
    target: str = ""
    group: bool = True


class SavedView(CompareFields, frozen=True, kw_only=True):
    """What is compared and how: the choices, the scale of the value, and the filter of the runs table."""

    name: str
    log: bool = False
    filter: str = ""


class CompareState(CompareFields, frozen=True):
    """The state in which the Compare tab was left. ``scales`` are the metrics whose scale a person chose, as "exercise
    metric", and whether it is logarithmic; ``views`` the saved ones, by exercise."""

    scales: dict[str, bool] = {}
    views: dict[str, tuple[SavedView, ...]] = {}
