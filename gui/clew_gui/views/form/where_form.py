"""The settings that one run asks of a site's scheduler: the site's usual values, changed like hyperparameters, folded
away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

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
from clew_gui.views.form.form import ParamForm, Usual
from clew_gui.views.theme.fold import FoldingSection
from clew_gui.views.theme.parts import Appearance, Button, column
from clew_shared.base.number_words import duration
from clew_shared.base.problem import Problem
from clew_shared.params import Value, convert

_USUAL = Usual("The site's own value", "Back to the site's value")


class WhereForm(QWidget):
    """Begins at the site's own allocation with ``changes`` of earlier."""

    changed = Signal()
    script_asked = Signal()

    def __init__(self, appearance: Appearance, name: str, site: Site, changes: Mapping[str, Value]) -> None:
        super().__init__()
        self.name, self.site = name, site
        self._usual = msgspec.structs.asdict(site.allocation)
        specs = [msgspec.structs.replace(spec, default=self._usual[spec.name]) for spec in FIELDS]
        self.form = ParamForm(appearance, specs, _USUAL, heads=False)
        self.form.set_values(self._with(changes))
        self.form.changed.connect(self._edited)
        script = Button(appearance, "Show script…", "quiet", "script", "The job script exactly as it would be sent")
        script.clicked.connect(self.script_asked)
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
        self.form.row(name).editor.widget().setFocus()

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
        self.fold.say(f"{changes} changed" if changes else "as usual there")
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
        if not seconds:
            return f"Asks for {size}", "The site sets the time limit. The job waits in the queue first."
        return (
            f"Asks for {size}, {duration(seconds)}",
            f"At most {node_hours(asked.nodes, seconds)}. The job waits in the queue first.",
        )
