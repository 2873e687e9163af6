"""The tabs beside *Guide* and *Run*, in their order. A new tab is a module with a ``Tab``, and a line here."""

from __future__ import annotations

from typing import Final

from clew_gui.views.presentation.menu_entries import Menus
from clew_gui.views.tabs.class_tab import ClassTab
from clew_gui.views.tabs.cluster import ClusterTab
from clew_gui.views.tabs.compare import CompareTab
from clew_gui.views.tabs.report import ReportTab
from clew_gui.views.tabs.speedup import SpeedupTab
from clew_gui.views.tabs.tab import Tab

TABS: Final[tuple[type[Tab], ...]] = (CompareTab, SpeedupTab, ClusterTab, ReportTab, ClassTab)


def with_tabs(menus: Menus, tabs: tuple[type[Tab], ...]) -> Menus:
    """The menus with an entry for each of the tabs, after that of *Run*."""
    found = []
    for title, entries in menus:
        place = next((at for at, entry in enumerate(entries, 1) if entry is not None and entry.name == "work"), 0)
        own = [tab.entry for tab in tabs] if place else []
        found.append((title, (*entries[:place], *own, *entries[place:])))
    return found
