"""Keeps what the window is about at the moment: the session, the open exercise, its runs and the selected one."""

from __future__ import annotations

from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.views.runs.run_card import can_be_tried
from clew_gui.views.runs.run_choices import RunChoices
from clew_gui.views.runs.runs_model import more_columns
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import ParamSpec, Value, matters
from clew_shared.run_settings import RunFilter
from clew_shared.spec import untraceable


class Scope:
    """Knows what the window is about. Shared by everything that updates the panels or asks the session for
    something."""

    def __init__(self, catalogue: Catalogue, session: Session) -> None:
        self.board = RunChoices()
        self.take(catalogue)
        self.session = session
        self.card: ExerciseCard | None = None
        self.filter = RunFilter()
        """The filter for the runs in the table."""
        self.columns: dict[str, bool] = {}
        """The columns of the table that a person showed or hid."""
        self.beside = ""
        """The run that the details compare with; empty: the baseline."""
        self.data = ""
        """The data of the next run: its goals are those that are shown."""
        self.link_reported = False
        """Whether the link to this computer's agent has reported its state: the mirrors have been read by then."""

    def take(self, catalogue: Catalogue) -> None:
        """Takes over a new catalogue of exercises."""
        self.catalogue = catalogue
        self.cards = {card.id: card for card in catalogue.exercises}
        self.board.cards = self.cards

    @property
    def listed(self) -> bool:
        """Whether all runs of earlier windows are known, those that only the agent knows as well, if it answers."""
        state = str(self.session.link.state)
        return state != "CONNECTING" and (state != "OFFLINE" or self.link_reported)

    def runs(self, card: ExerciseCard | None = None) -> list[RunModel]:
        """The runs of an exercise (the open one), oldest first."""
        wanted = card or self.card
        found = self.session.runs_of(wanted.id) if wanted is not None else []
        return [run for run in found if not self.board.is_removed(run.id)]

    def listed_runs(self) -> list[RunModel]:
        """The runs of the open exercise that fit the filter, oldest first."""
        return [run for run in self.runs() if self.fits(run)]

    def fits(self, run: RunModel) -> bool:
        """Whether the table lists a run of the open exercise."""
        if not self.filter.terms or self.card is None:
            return True
        return self.filter.keeps(self.board.facts(self.card, run))

    def added_columns(self) -> list[str]:
        """The columns that a person added and the open exercise has."""
        offered = more_columns(self.card) if self.card is not None else {}
        return [name for name in offered if self.columns.get(name)]

    def is_mine(self, run: str) -> bool:
        """Whether a run belongs to the open exercise and is in sight."""
        known = self.session.runs.get(run)
        of_this = known is not None and self.card is not None and known.spec.exercise == self.card.id
        return of_this and not self.board.is_removed(run)

    def run(self) -> RunModel | None:
        """The selected run of the open exercise."""
        return self.session.runs.get(self.board.choices(self.card.id).selected) if self.card is not None else None

    def waiting(self) -> int:
        """Returns how many runs wait in the queue, over all exercises."""
        return max((run.queue for run in self.session.runs.values()), default=0)

    def pinned(self) -> str:
        """The run that is drawn as baseline."""
        return self.board.pinned(self.card, self.runs()) if self.card is not None else ""

    def shown(self) -> tuple[str, ...]:
        """The runs whose curves are drawn, oldest first."""
        return self.board.shown(self.card, self.runs()) if self.card is not None else ()

    def styles(self) -> dict[str, int]:
        """The curve styles of the runs that are drawn."""
        return self.board.styles(self.card, self.runs()) if self.card is not None else {}

    def live_params(self) -> tuple[tuple[ParamSpec, Value], ...]:
        """Returns the parameters that may be changed while the selected run trains, with their present values."""
        run = self.run()
        if run is None or self.card is None:
            return ()
        changed = {event.name: event.value for event in run.history.live}
        values = {spec.name: run.spec.params.get(spec.name, spec.default) for spec in self.card.params}
        live = (spec for spec in self.card.params if spec.live and matters(spec, values))
        return tuple((spec, changed.get(spec.name, values[spec.name])) for spec in live)


# --- Why something cannot be done now ---------------------------------------------------------------------------------

_OF_RUN = (
    *("reuse", "pause", "rate", "trace", "stop", "stop_now", "continue", "try", "queue_next", "queue_up", "queue_down"),
    *("unqueue", "show", "pin", "note", "export_run", "export_board", "remove", "try_here", "log", "details"),
)
"""The entries of the menus that are about the selected run."""


def why_not(scope: Scope) -> dict[str, str]:
    """Says of each entry about the selected run why it cannot be done now; empty if it can."""
    run, card = scope.run(), scope.card
    if run is None:
        return dict.fromkeys(_OF_RUN, "No run is selected")
    over, trace = run.state in TERMINAL, untraceable(run.spec, card) if card is not None else None
    ended, goes_on = ("This run has ended", "") if over else ("", "This run has not ended")
    silent = "The link to this run is silent" if run.link_stale else ""
    trains = "" if run.state in (RunState.RUNNING, RunState.PAUSED) else "The run is not training yet"
    steer = ended or silent or trains
    waits = silent or ("" if run.state is RunState.QUEUED else "This run does not wait in the queue")
    changes = "" if scope.live_params() else "Nothing of this run can be changed while it trains"
    kept = "" if run.history.checkpoints else "This run has no checkpoint to continue from"
    done = "This run has done all of its steps" if run.state is RunState.FINISHED else ""
    sent = run.job is not None and not run.history.fold.attempt
    return dict.fromkeys(_OF_RUN, "") | {
        "pause": "A script cannot be paused" if card is not None and card.kind == "script" else steer,
        "rate": steer or changes,
        "trace": steer or (trace.text if trace is not None else ""),
        "stop": ended or silent,
        "stop_now": ended,
        "continue": goes_on or done or kept,
        "try": "" if can_be_tried(run, card) else "This run has no checkpoint, so there is no trained network to try",
        "remove": goes_on,
        "pin": "" if run.spec.rate_range is None else "A range test is no baseline",
        "try_here": ended or ("" if sent else "Only while a run waits on a site"),
        "queue_next": waits or ("" if run.queue > 1 else "No run waits before this one"),
        "queue_up": waits or ("" if run.queue > 1 else "No run waits before this one"),
        "queue_down": waits or ("" if 0 < run.queue < scope.waiting() else "No run waits behind this one"),
        "unqueue": waits,
    }
