"""The results of runs: which goals they reached, their best values, and what the table and the lab say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from clew_gui.base.state_words import NONE
from clew_gui.session.forecast import Earlier, seconds_each, timed
from clew_gui.session.runs import RunModel
from clew_gui.study.goals import GoalResult, check_goal, shortfall
from clew_gui.study.ranking import best_of, headline_metric
from clew_gui.views.lab.lab_panel import ExerciseProgress, unusable
from clew_gui.views.presentation import words
from clew_gui.views.runs.runs_model import RunRow, cells, number
from clew_shared.base.number_words import difference
from clew_shared.cards import ExerciseCard, Goal, MetricSpec
from clew_shared.goal_settings import has_answer, is_for
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.params import BATCH_SIZE, LEARNING_RATE, OPTIMIZER, check
from clew_shared.spec import RunSpec


class Results:
    """The goals and best values of runs. Each is worked out once for each state of a run: both read whole curves."""

    def __init__(self) -> None:
        self.answers_of: Callable[[str], Mapping[str, str]] = lambda _exercise: {}
        """Returns the answers to the questions of an exercise's guide."""
        self.cards: dict[str, ExerciseCard] = {}
        """The known exercises: they supply the settings of runs that name no data and leave hyperparameters out."""
        self._goals: dict[tuple[str, str], tuple[object, GoalResult]] = {}
        self._bests: dict[tuple[str, str], tuple[object, float | None]] = {}

    # --- Goals --------------------------------------------------------------------------------------------------------

    def reached(self, goal: Goal, run: RunModel) -> bool:
        """Whether a run reached a goal. One of another data set's never does."""
        summary = run.summed_up
        if summary is None:
            return self._judged(goal, run).reached
        return goal.id in summary.reached and has_answer(goal, self._answers(goal, run))

    def _answers(self, goal: Goal, run: RunModel) -> Mapping[str, str]:
        """The answers that the goal asks for; they are read only if it asks for one."""
        return self.answers_of(run.spec.exercise) if goal.question else {}

    def _judged(self, goal: Goal, run: RunModel) -> GoalResult:
        """The verdict on a run; asked for again only when the run went on, its exercise changed or was answered."""
        card, answers = self.cards.get(run.spec.exercise), self._answers(goal, run)
        state = (*_state(run), card.source_hash if card is not None else "", has_answer(goal, answers))
        known = self._goals.get((run.id, goal.id))
        if known is None or known[0] != state:
            known = (state, check_goal(goal, run.history, card, run.spec, answers))
            self._goals[(run.id, goal.id)] = known
        return known[1]

    def why_not(self, goal: Goal, runs: Sequence[RunModel]) -> str:
        """Says why a run that came near a goal does not count: it did better than a goal near a value allows, or its
        settings differ from what the goal requires; empty if there is no such run."""
        for run in runs:
            result = self._judged(goal, run) if run.state in TERMINAL else None
            if result is not None and result.beyond:
                return f"Run {run.number} is better than the tolerance allows."
            if result is not None and result.unmet:
                return f"Run {run.number} does not count: {result.unmet}."
        return ""

    def nearest(self, goal: Goal, runs: Sequence[RunModel]) -> RunModel | None:
        """The first run that reached the goal, else the one whose value came nearest; None if none has a value."""
        found = []
        for run in runs:
            short = shortfall(goal, self._judged(goal, run))
            if short is not None:
                found.append((short, run))
        return min(found, key=lambda one: one[0])[1] if found else None

    def reached_by(self, goal: Goal, runs: Iterable[RunModel]) -> RunModel | None:
        """The first run that reached the goal."""
        return next((run for run in runs if self.reached(goal, run)), None)

    def runs_for(self, goals: Sequence[Goal], runs: Sequence[RunModel]) -> int:
        """Returns the number of runs that together reached the goals; 1 if one run has reached them all, 0 for none."""
        found = {goal.id: by for goal in goals if (by := self.reached_by(goal, runs)) is not None}
        reached = [goal for goal in goals if goal.id in found]
        if any(all(self.reached(goal, run) for goal in reached) for run in runs):
            return min(1, len(reached))
        return len({by.id for by in found.values()})

    def best(self, metric: MetricSpec, run: RunModel) -> float | None:
        """The best value of a run; looked for again only when the run went on: that reads the whole curve."""
        summary, state = run.summed_up, _state(run)
        if summary is not None:
            return summary.results.get(metric.name)
        known = self._bests.get((run.id, metric.name))
        if known is None or known[0] != state:
            found = run.history.best(metric.name)
            known = (state, found.value if found is not None else None)
            self._bests[(run.id, metric.name)] = known
        return known[1]

    def best_run(self, metric: MetricSpec, runs: Sequence[RunModel]) -> RunModel | None:
        """The run with the best value; None if none has one."""
        found = [(value, run) for run in runs if (value := self.best(metric, run)) is not None]
        return best_of(metric)(found, key=lambda one: one[0])[1] if found else None

    # --- Words --------------------------------------------------------------------------------------------------------

    def progress(self, card: ExerciseCard, runs: Sequence[RunModel]) -> ExerciseProgress:
        """Tick and best value of an exercise."""
        if (tick := unusable(card)) is not None:
            return ExerciseProgress(tick)
        if not runs:
            return ExerciseProgress()
        done = any(all(self.reached_by(goal, runs) for goal in goals) for goals in goals_by_data(card))
        metric = headline_metric(card)
        compared = [run for run in runs if run.spec.rate_range is None]
        best = self.best_run(metric, compared) if metric is not None else None
        text = words.metric_value(metric, self.best(metric, best)) if metric is not None and best is not None else ""
        return ExerciseProgress("done" if done else "part", text)

    def row(
        self, card: ExerciseCard, run: RunModel, shown: bool, baseline: RunModel | None, more: Sequence[str], style: int
    ) -> RunRow:
        """A run as a row of the table; with what it has to the ``baseline``, ``more`` columns,
        and its curve's ``style`` if it is drawn."""
        metric = headline_metric(card)
        best = self.best(metric, run) if metric is not None else None
        judged = goals_for(card, words.run_data(run, card))
        reached = [goal for goal in judged if self.reached(goal, run)]
        took = run.history.fold.seconds or None
        values = {spec.name: run.spec.params.get(spec.name, spec.default) for spec in card.params}
        word, where, data = words.state_word(run), words.where(run), words.data_short(words.run_data(run, card))
        detail = words.state_detail(run, words.goals_reached(len(reached), len(judged)))
        delta = self._delta(metric, best, baseline) if run is not baseline and run.spec.rate_range is None else ""
        return RunRow(
            id=run.id,
            number=run.number,
            index=style,
            state=words.state_key(run),
            cells={
                "run": (f"{run.number} {words.name_of(run)}".strip(), float(run.number)),
                "state": (f"{word} {detail}".strip(), word),
                "optimizer": (words.param_words(run, card, OPTIMIZER) or NONE, str(values.get(OPTIMIZER, ""))),
                "rate": (words.param_words(run, card, LEARNING_RATE) or NONE, number(values.get(LEARNING_RATE))),
                "batch": (words.param_words(run, card, BATCH_SIZE) or NONE, number(values.get(BATCH_SIZE))),
                "data": (data or NONE, run.spec.data),
                "best": (words.metric_value(metric, best), number(best)),
                "delta": (delta, number(best)),
                "time": (words.clock(took), number(took)),
                "where": (where, where),
                **(cells(card, run, more, self.best) if more else {}),
            },
            reached=metric is not None and any(goal.metric == metric.name for goal in reached),
            data=data,
            shown=shown,
            pinned=run is baseline,
        )

    def _delta(self, metric: MetricSpec | None, best: float | None, baseline: RunModel | None) -> str:
        base = self.best(metric, baseline) if metric is not None and baseline is not None else None
        return difference(best, base, metric.format) if metric is not None else ""


def _state(run: RunModel) -> tuple[object, ...]:
    """Returns how far a run has come. A history that was read again counts as another one: it may have more than the
    first."""
    return run.version, id(run.fold), run.fold.attempt, run.fold.step


def is_preset(card: ExerciseCard, name: str, run: RunModel) -> bool:
    """Whether a run has exactly the values of a preset."""
    values, _ = check(card.params, run.spec.params)
    return values == words.preset_values(card, name)


def goals_for(card: ExerciseCard, data: str) -> list[Goal]:
    """The goals by which runs with this data are judged."""
    return [goal for goal in card.goals if not data or is_for(goal, data)]


def goals_by_data(card: ExerciseCard) -> list[list[Goal]]:
    """The goals for each data set that has goals of its own; an exercise is done when all of one list are reached."""
    sets = dict.fromkeys(goal.data for goal in card.goals if goal.data)
    found = [[goal for goal in card.goals if goal.data in ("", name)] for name in sets]
    return found or ([list(card.goals)] if card.goals else [])


def estimate(spec: RunSpec, card: ExerciseCard, runs: Sequence[RunModel]) -> str:
    """Says how long a run will take, by the latest of these runs, all of the place where it goes."""
    latest = sorted(runs, key=lambda run: run.number, reverse=True)
    judge = timed(Earlier(run.spec, run.history, run.number) for run in latest)
    if judge is None:
        return "Estimate after the first run"
    (seconds,) = seconds_each([spec], card, [judge])
    return f"Next run: {words.roughly(seconds)} (based on run {judge.number})"
