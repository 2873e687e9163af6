"""The model of the window: which exercise is open, which of its runs are selected, drawn and listed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from clew_gui.courses.course import Course, applied
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.views.runs.results import Results, is_preset
from clew_gui.views.runs.runs_model import facts, more_columns
from clew_gui.views.window.window_state import Choices, WindowState
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import ParamSpec, Value, matters
from clew_shared.run_settings import RunFilter

MANY = 8
"""The number of new runs that are drawn without being ticked; the oldest are dropped, and more can be ticked by
hand."""


class WindowModel:
    """Knows what the window is about. Everything that shows a panel reads it, everything that a click does changes it.

    What a person chose is in ``state``, which the next window begins with.
    """

    def __init__(
        self, catalogue: Catalogue, session: Session, state: WindowState, course: Course | None = None
    ) -> None:
        self.session, self.state = session, state
        for chosen in state.runs.values():
            chosen.by_hand = bool(chosen.selected)  # what was selected then is waited for
        self.results = Results()
        self.course = course
        """The course that is followed."""
        self.take(catalogue)
        self.card = self.catalogue.exercises[0]
        """The open exercise."""
        self.filter = RunFilter()
        """The filter for the runs in the table."""
        self.beside = ""
        """The run that the details compare with; empty: the baseline."""
        self.data = ""
        """The data of the next run: its goals are those that are shown."""
        self.link_reported = False
        """Whether the link to this computer's agent has reported its state: the mirrors have been read by then."""
        self._removed: set[str] = set()
        self._baselines: dict[tuple[str, str], bool] = {}

    def take(self, catalogue: Catalogue) -> None:
        """Takes over a new catalogue of exercises; the course says which are shown, and how."""
        self.whole, self.catalogue = catalogue, applied(self.course, catalogue)
        self.cards = self.results.cards = {card.id: card for card in self.catalogue.exercises}

    @property
    def listed(self) -> bool:
        """Whether all runs of earlier windows are known, those that only the agent knows as well, if it answers."""
        state = str(self.session.link.state)
        return state != "CONNECTING" and (state != "OFFLINE" or self.link_reported)

    # --- The runs of the open exercise --------------------------------------------------------------------------------

    def runs(self, card: ExerciseCard | None = None) -> list[RunModel]:
        """The runs of an exercise (the open one), oldest first; of two courses each has its own."""
        courses = ("", self.course.id) if self.course is not None else ()
        found = self.session.runs_of((card or self.card).id)
        return [run for run in found if run.id not in self._removed and (not courses or run.spec.course in courses)]

    def listed_runs(self) -> list[RunModel]:
        """The runs of the open exercise that fit the filter, oldest first."""
        return [run for run in self.runs() if self.fits(run)]

    def fits(self, run: RunModel) -> bool:
        """Whether the table lists a run of the open exercise."""
        return not self.filter.terms or self.filter.keeps(facts(self.card, run, self.results.best))

    def added_columns(self) -> list[str]:
        """The columns that a person added and the open exercise has."""
        return [name for name in more_columns(self.card) if self.state.columns.get(name)]

    def is_mine(self, run: str) -> bool:
        """Whether a run belongs to the open exercise and is in sight."""
        known = self.session.runs.get(run)
        return known is not None and known.spec.exercise == self.card.id and run not in self._removed

    def remove(self, run: str) -> None:
        """Hides a run; the session still has it."""
        self._removed.add(run)
        if run == self.selected:
            self.choices.by_hand = False

    def restore(self, run: str) -> None:
        """Undoes a removal."""
        self._removed.discard(run)

    def waiting(self) -> int:
        """Returns how many runs wait in the queue, over all exercises."""
        return max((run.queue for run in self.session.runs.values()), default=0)

    # --- The selected run ---------------------------------------------------------------------------------------------

    @property
    def choices(self) -> Choices:
        """What a person chose about the runs of the open exercise."""
        return self.state.runs.setdefault(self.card.id, Choices())

    @property
    def selected(self) -> str:
        """The id of the selected run, which may not have been read yet; empty if there is none."""
        return self.choices.selected

    def run(self) -> RunModel | None:
        """The selected run of the open exercise."""
        return self.session.runs.get(self.selected)

    def select(self, run: str) -> None:
        """Select a run by hand."""
        chosen = self.choices
        chosen.selected, chosen.by_hand = run, True

    def choose(self) -> None:
        """Select the newest run, rather a running one, until a person selects one, and when that one is gone.

        What was selected in the window before is waited for until all runs are known.
        """
        chosen, runs = self.choices, self.runs()
        known = any(run.id == chosen.selected for run in runs)
        if not chosen.by_hand or (not known and self.listed):
            chosen.selected = (self.at_work() or runs)[-1].id if runs else ""
            chosen.by_hand = False

    def follow(self) -> None:
        """Selects a run that is at work, until a person selects one."""
        working, chosen = [run.id for run in self.at_work()], self.choices
        if working and not chosen.by_hand and chosen.selected not in working:
            chosen.selected = working[-1]

    def at_work(self) -> list[RunModel]:
        """Returns the runs that train now, or pause. One that is still being read may show an old state."""
        return [run for run in self.runs() if run.state in (RunState.RUNNING, RunState.PAUSED) and run.reading is None]

    def select_started(self, run: str) -> None:
        """Selects a run that was just started here; it is drawn beside what was drawn before."""
        chosen, before = self.choices, [one for one in self.shown() if one != run]
        added = [one for one in (*before, run) if one not in chosen.recent]
        chosen.recent = [*chosen.recent, *added][-MANY:]
        self.select(run)

    def live_params(self) -> tuple[tuple[ParamSpec, Value], ...]:
        """Returns the parameters that may be changed while the selected run trains, with their present values."""
        run = self.run()
        if run is None:
            return ()
        changed = {event.name: event.value for event in run.history.live}
        values = {spec.name: run.spec.params.get(spec.name, spec.default) for spec in self.card.params}
        live = (spec for spec in self.card.params if spec.live and matters(spec, values))
        return tuple((spec, changed.get(spec.name, values[spec.name])) for spec in live)

    # --- Which curves -------------------------------------------------------------------------------------------------

    def pinned(self) -> str:
        """The run that is always drawn, as baseline: chosen by hand, else the first with a curve that has the values of
        the card's baseline preset, so that it stays when another one starts. Never a range test."""
        by_hand, runs = self.state.pinned.get(self.card.id, ""), self.runs()
        if by_hand == "none":
            return ""
        if any(run.id == by_hand and run.spec.rate_range is None for run in runs):
            return by_hand
        return next((run.id for run in runs if run.fold.step and self._is_baseline(run)), "")

    def _is_baseline(self, run: RunModel) -> bool:
        """Whether a run has the values of the baseline's preset; what it was started with never changes."""
        card, key = self.card, (run.id, self.card.source_hash)
        if key not in self._baselines:
            named = bool(card.baseline) and run.spec.rate_range is None
            self._baselines[key] = named and is_preset(card, card.baseline, run)
        return self._baselines[key]

    def pin(self, run: str) -> None:
        """Pin a run as baseline; empty for none."""
        self.state.pinned[self.card.id] = run or "none"

    def shown(self) -> tuple[str, ...]:
        """The runs whose curves are drawn, oldest first: ticked ones, the selected one, the pinned one; never those
        unticked."""
        chosen = self.choices
        wanted = {*chosen.shown, *chosen.recent, chosen.selected, self.pinned()}
        return tuple(run.id for run in self.runs() if run.id in wanted and run.id not in chosen.hidden)

    def show(self, run: str, on: bool) -> None:
        """Ticks or unticks a run."""
        chosen = self.choices
        (chosen.shown.add if on else chosen.shown.discard)(run)
        (chosen.hidden.discard if on else chosen.hidden.add)(run)

    def show_alone(self, runs: Sequence[str]) -> None:
        """Draws these runs, the selected one and the baseline. The first is selected until another one is at work."""
        chosen = self.choices
        chosen.shown, chosen.recent = set(runs), []
        chosen.selected, chosen.by_hand = runs[0], False
        self.follow()

    def styles(self) -> dict[str, int]:
        """The curve style of each run that is drawn: the first one that was free when it came, and its own while it
        stays, also in the next window. A run that has no curve and will have none takes none."""
        wanted, before = set(self.shown()), self.choices.styles
        drawn = [run.id for run in self.runs() if run.id in wanted and (run.fold.step or run.state not in TERMINAL)]
        kept = {run: style for run, style in before.items() if run in drawn or not self.listed}
        free = (style for style in itertools.count() if style not in set(kept.values()))
        found = {run: kept[run] if run in kept else next(free) for run in drawn}
        self.choices.styles = kept | found
        return found

    # --- The report ---------------------------------------------------------------------------------------------------

    def report(self, ended: Sequence[RunModel]) -> set[str]:
        """The runs in the report. Until a person ticks some these are, once there are any, the best run for each goal
        and those that are drawn then; later only a run joins that reaches a goal which none of them reaches."""
        chosen, results = self.choices, self.results
        if chosen.report_by_hand:
            return chosen.report
        trained = [run for run in ended if run.history.fold.step or run.history.series]
        if not chosen.report.intersection(run.id for run in trained):
            plain = [run.id for run in trained if run.spec.rate_range is None and not run.spec.timed]
            best = {run.id for goal in self.card.goals if (run := results.nearest(goal, trained)) is not None}
            usual = best | set(self.shown()).intersection(plain) or set([run.id for run in trained][-1:])
            if all(run.reading is None for run in ended):  # else a better one may still be read
                chosen.report = usual
            return usual
        for goal in self.card.goals:
            by = [run.id for run in trained if results.reached(goal, run)]
            if by and not chosen.report.intersection(by):
                chosen.report.add(by[0])
        return chosen.report

    def choose_report(self, runs: Iterable[str]) -> None:
        """Puts these runs in the report, as a person ticked them."""
        chosen = self.choices
        chosen.report, chosen.report_by_hand = set(runs), True
