"""Lets a person choose where the next run goes: this computer, a site, a held node; scheduler settings are folded
away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QWidget

from clew_gui.jobs.job import Place
from clew_gui.schedulers.allocation import (
    FIELDS,
    LABELS,
    AllocationRequest,
    changed,
    check_allocation,
    node_hours,
    seconds_asked,
)
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.sites.site import Site
from clew_gui.views.form.fields import combo
from clew_gui.views.form.form import ParamForm, Usual, field_rows
from clew_gui.views.theme.parts import Appearance, Button, FoldingSection, column
from clew_shared.base.number_words import duration
from clew_shared.base.problem import Problem
from clew_shared.params import Value, convert

HERE = ""
_SIZES = frozenset({"nodes", "gpus", "cpus"})
"""The settings that depend on how a run spreads: they belong to its exercise, all others to the site."""
_SITES = "sites…"


_USUAL = Usual("The site's own value", "Back to the site's value")


class WhereForm(QWidget):
    """The settings that one run asks of a site's scheduler, folded away: the site's usual values, with ``changes`` of
    earlier."""

    changed = Signal()

    def __init__(self, appearance: Appearance, name: str, site: Site, changes: Mapping[str, Value]) -> None:
        super().__init__()
        self.name, self.site = name, site
        self._usual = msgspec.structs.asdict(site.allocation)
        specs = [msgspec.structs.replace(spec, default=self._usual[spec.name]) for spec in FIELDS]
        self.form = ParamForm(appearance, specs, _USUAL, heads=False)
        self.form.set_values(self._with(changes))
        self.form.changed.connect(self._edited)
        script = Button(appearance, "Show script…", "quiet", "script", "The job script exactly as it would be sent")
        self.script = script
        self.fold = FoldingSection(appearance, "Job", self.form, inset=10, extra=script)
        column(self.fold, gap=0, parent=self)
        self.fold.setVisible(scheduler_of(site.scheduler).has_queue)
        self._edited()

    def _with(self, changes: Mapping[str, Value]) -> dict[str, Value]:
        return self._usual | {key: value for key, value in changes.items() if key in self._usual}

    def take(self, changes: Mapping[str, Value]) -> None:
        """Show the site's own values with these changes."""
        self.form.set_values(self._with(changes))

    def allocation(self) -> AllocationRequest:
        """Returns the requested allocation; a wrong field counts as the site's value."""
        return AllocationRequest(**self.form.values())  # type: ignore[arg-type]  # the form gives each field's own type

    def changes(self) -> dict[str, Value]:
        """Returns the values that differ from the site's own."""
        return changed(self.site.allocation, self.allocation())

    def problems(self) -> tuple[Problem, ...]:
        """Returns what is wrong with the request."""
        return (*self.form.problems(), *check_allocation(self.allocation()))

    def focus_first_problem(self) -> None:
        """Unfold and go there."""
        self.fold.unfold()
        self.form.focus_first_problem()

    def set_field(self, name: str, value: str) -> None:
        """Ask for another value, and show it."""
        self.fold.unfold()
        self.form.row(name).editor.set_value(convert(self.form.row(name).spec, value)[0])

    def focus_field(self, name: str) -> None:
        """Unfold and put the cursor there."""
        self.fold.unfold()
        self.form.row(name).editor.setFocus()

    def refused(self, problems: Sequence[Problem]) -> bool:
        """The site refused such a job: mark the fields that are named, until one of them is changed; whether there are
        any."""
        mine = [one for one in problems if one.where in LABELS]
        if mine:
            self.fold.unfold()
            self.form.mark(mine)
            self.focus_field(mine[0].where)
        return bool(mine)

    def _edited(self) -> None:
        self.form.show_problems(check_allocation(self.allocation()))
        changes = len(self.changes())
        self.fold.say(f"{changes} changed" if changes else "as usual")
        if self.problems():
            self.fold.unfold()
        self.changed.emit()

    def cost(self) -> tuple[str, str]:
        """Says what the request costs: size and time first, then what it counts."""
        asked = self.allocation()
        if not scheduler_of(self.site.scheduler).has_queue:
            return "Begins at once", "This machine has no queue. Make sure nobody else is using it."
        seconds = seconds_asked(asked)
        size = f"{asked.nodes} node{'s' if asked.nodes > 1 else ''}"
        if asked.gpus:
            size += f" with {asked.gpus} GPU{'s' if asked.gpus > 1 else ''}{' each' if asked.nodes > 1 else ''}"
        asks = f"Asks for {size}, {duration(seconds)}" if seconds else f"Asks for {size}"
        most = f"At most {node_hours(asked.nodes, seconds)}." if seconds else "The site sets the time limit."
        return asks, f"{most} The job waits in the queue first."


class PlaceChoice(NamedTuple):
    """One entry: ``key`` is remembered, ``title`` shown. ``job`` holds a node there; ``why_not``: it cannot be used."""

    key: str
    title: str
    name: str = ""
    site: Site | None = None
    job: str = ""
    why_not: str = ""

    @property
    def short(self) -> str:
        """The place's name, short enough for a button."""
        bare = self.title.removeprefix("Held: ").split(" of ")[0] if self.job else self.title.split(" (")[0]
        return bare if len(bare) <= 20 else self.name or bare[:20]


THIS = PlaceChoice(HERE, "This computer")


class WhereBox(QWidget):
    """The choice, and below it what the chosen site's jobs ask for."""

    changed = Signal()
    sites_asked = Signal()
    script_asked = Signal()

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self._choices: dict[str, PlaceChoice] = {HERE: THIS}
        self._wanted = HERE
        self._changes: dict[str, Mapping[str, Value]] = {}
        self._exercise = ""
        self.in_lesson: Callable[[str, AllocationRequest], AllocationRequest] = lambda _exercise, usual: usual
        """What jobs of an exercise ask for instead of what their site says, as its lesson in a course may."""
        self.form: WhereForm | None = None
        self.combo = combo([(HERE, THIS.title)], "Where to run")
        self.combo.setToolTip("This computer, a site, or a node that is held for you")
        self.combo.insertSeparator(1)
        self.combo.addItem("Sites…", _SITES)
        self.combo.activated.connect(lambda _index: self._activated())
        self._box = column(field_rows(("Run on", self.combo)), gap=0, parent=self)

    # --- What can be chosen -------------------------------------------------------------------------------------------

    def remember(self, key: str, changes: Mapping[str, Mapping[str, Value]]) -> None:
        """Keeps what was chosen last; it is chosen again once it is known to exist."""
        self._wanted = key
        self._changes = dict(changes)

    def left(self) -> tuple[str, dict[str, dict[str, Value]]]:
        """The choice, and by site what its jobs ask for instead of the usual values; what an exercise takes because of
        how it spreads by ``site/exercise``."""
        self._keep_changes()
        return self._wanted, {name: dict(changes) for name, changes in self._changes.items() if changes}

    def offer(self, choices: Sequence[PlaceChoice]) -> None:
        """Offers places beside this computer. A held node that is gone is replaced by its site."""
        before = self.choice()
        self._choices = {HERE: THIS, **{one.key: one for one in choices}}
        with QSignalBlocker(self.combo):
            self.combo.clear()
            for one in self._choices.values():
                self.combo.addItem(one.title, one.key)
                place = self.combo.count() - 1
                if one.why_not:
                    self.combo.setItemData(place, one.why_not, Qt.ItemDataRole.ToolTipRole)
            self.combo.insertSeparator(self.combo.count())
            self.combo.addItem("Sites…", _SITES)
        self._wanted = next(key for key in (self._wanted, f"site:{before.name}", HERE) if key in self._choices)
        self.combo.setCurrentIndex(self.combo.findData(self._wanted))
        if self.choice() != before:
            self._show()

    def choose(self, key: str) -> None:
        """Choose by key; an unknown one changes nothing."""
        if key in self._choices:
            self._wanted = key
            self.combo.setCurrentIndex(self.combo.findData(key))
            self._show()

    def choice(self) -> PlaceChoice:
        """Returns the chosen place."""
        return self._choices.get(str(self.combo.currentData() or ""), THIS)

    def _activated(self) -> None:
        key = self.combo.currentData()
        if key == _SITES:
            self.combo.setCurrentIndex(self.combo.findData(self._wanted if self._wanted in self._choices else HERE))
            self.sites_asked.emit()
        else:
            self._wanted = str(key)
            self._show()

    # --- What is asked for --------------------------------------------------------------------------------------------

    def _keep_changes(self) -> None:
        if self.form is None:
            return
        name, changes = self.form.name, self.form.changes()
        self._changes[name] = {key: value for key, value in changes.items() if key not in _SIZES}
        self._changes[f"{name}/{self._exercise}"] = {key: value for key, value in changes.items() if key in _SIZES}

    def _changes_of(self, site: str) -> dict[str, Value]:
        common = {key: value for key, value in self._changes.get(site, {}).items() if key not in _SIZES}
        return common | dict(self._changes.get(f"{site}/{self._exercise}", {}))

    def open_exercise(self, exercise: str) -> None:
        """Switches to another exercise, which has its own number of nodes, GPUs and cores."""
        if exercise != self._exercise:
            self._keep_changes()
            self._exercise = exercise
            site = self.choice().site
            if self.form is None or site is None:
                return
            if self.in_lesson(exercise, site.allocation) == self.form.site.allocation:
                self.form.take(self._changes_of(self.form.name))
            else:
                self._make_form()

    def _show(self) -> None:
        """Shows the form of the chosen site."""
        self._keep_changes()
        self._make_form()

    def _make_form(self) -> None:
        if self.form is not None:
            self._box.removeWidget(self.form)
            self.form.hide()
            self.form.deleteLater()
            self.form = None
        chosen = self.choice()
        if chosen.site is not None and not chosen.job:
            usual = self.in_lesson(self._exercise, chosen.site.allocation)
            site = msgspec.structs.replace(chosen.site, allocation=usual)
            self.form = WhereForm(self._appearance, chosen.name, site, self._changes_of(chosen.name))
            self.form.changed.connect(self.changed)
            self.form.script.clicked.connect(self.script_asked)
            self._box.addWidget(self.form)
        self.changed.emit()

    def problems(self) -> tuple[Problem, ...]:
        """Returns the problems that keep a run from going there."""
        chosen = self.choice()
        if chosen.why_not:
            return (Problem("place.refused", chosen.why_not),)
        return self.form.problems() if self.form is not None else ()

    def set_field(self, name: str, value: str) -> None:
        """Ask the site for another value of one field, and show it."""
        if self.form is not None:
            self.form.set_field(name, value)

    def focus_field(self, name: str) -> None:
        """Put the cursor into a field of what is asked of the site."""
        if self.form is not None:
            self.form.focus_field(name)

    def refused(self, problems: Sequence[Problem]) -> bool:
        """Mark the fields that a site's refusal is about, and put the cursor into the first; whether there are any."""
        return self.form is not None and self.form.refused(problems)

    def focus_first_problem(self) -> None:
        """Put the cursor where something is wrong."""
        if self.form is not None and self.form.problems():
            self.form.focus_first_problem()

    def place(self, data: str = "") -> Place | None:
        """Returns the place where the run goes; None for this computer. ``data`` is a file of this computer that it
        needs."""
        chosen = self.choice()
        if chosen.key == HERE or not (chosen.job or self.form):
            return None
        if chosen.job:
            return Place(site=chosen.name, job=chosen.job, data=data)
        return Place(site=chosen.name, allocation=self.form.allocation(), data=data) if self.form is not None else None

    def cost(self) -> tuple[str, str]:
        """Says what a run takes of the site, and what else matters; both are empty for this computer."""
        chosen = self.choice()
        if chosen.job:
            return "No waiting: the node is yours", "Its time counts whether you use it or not."
        return self.form.cost() if self.form is not None else ("", "")
