"""What is chosen in the Compare tab: plain data that settings keep."""

from __future__ import annotations

import msgspec


class CompareState(msgspec.Struct, frozen=True):
    """The state in which the Compare tab was left: the picture, which runs ("ticked" or "listed"), and the values of
    the fields; empty means as on the first start. ``scales`` are the metrics whose scale a person chose, as "exercise
    metric", and whether it is logarithmic."""

    page: str = ""
    runs: str = ""
    value: str = ""
    colour: str = ""
    x: str = ""
    target: str = ""
    group: bool = True
    scales: dict[str, bool] = {}
