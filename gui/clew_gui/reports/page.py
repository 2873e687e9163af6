"""A report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere.

The same template makes the text of the PDF, where the figures are resources that Qt draws.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from clew_gui.reports.facts import (
    GoalFact,
    MetricFact,
    ReportFacts,
    RunFact,
    RunSource,
    make_facts,
    prediction_of,
    read_answers,
    utc,
)
from clew_gui.reports.figures import WIDTH, LabelledRun, ReportFigure, figures_of
from clew_shared import __version__
from clew_shared.base.harmless import for_terminal
from clew_shared.base.places import Places
from clew_shared.cards import ExerciseCard

if TYPE_CHECKING:
    from jinja2 import Template

TOLERANCE_WORDS = (
    "On the processor and with the versions that are named here, the same bits come out. Elsewhere rounding differs: "
    "values may then differ by a thousandth of the largest value of their curve, shares of a batch by two samples, and "
    "shares of the held-out data by half a percentage point."
)
"""The tolerance of ``--rerun`` for a repeated run, in words."""


class LabReport(NamedTuple):
    """A report: what it states, and its figures by exercise."""

    facts: ReportFacts
    figures: dict[str, list[ReportFigure]]

    @property
    def all_figures(self) -> list[ReportFigure]:
        """Returns every figure, in the order of the page."""
        return [figure for one in self.facts.exercises for figure in self.figures[one.id]]


def make_report(facts: ReportFacts, sources: Sequence[RunSource], cards: Mapping[str, ExerciseCard]) -> LabReport:
    """``facts`` with the figures of the same runs."""
    labels = {run.id: run.label for run in facts.runs}
    figures = {
        exercise.id: figures_of(
            cards[exercise.id],
            [_labelled(source, labels) for source in sources if source.spec.exercise == exercise.id],
        )
        for exercise in facts.exercises
    }
    return LabReport(facts, figures)


def _labelled(source: RunSource, labels: Mapping[str, str]) -> LabelledRun:
    drawn = prediction_of(source.spec)
    expected = (drawn.metric, np.array(drawn.steps, float), np.array(drawn.values, float)) if drawn else None
    return LabelledRun(labels[source.history.fold.run], source.history, source.spec, expected)


def report_of(
    places: Places,
    sources: Sequence[RunSource],
    cards: Mapping[str, ExerciseCard],
    student: str,
    jobs: Mapping[str, str],
) -> LabReport:
    """The report of these runs as of now, with the answers that this computer keeps. Raises ``ProblemError`` as
    ``make_facts`` does."""
    ids = dict.fromkeys(source.spec.exercise for source in sources)
    facts = make_facts(
        sources,
        cards,
        student=student,
        created=float(int(time.time())),
        version=__version__,
        answers={one: read_answers(places, one) for one in ids},
        jobs=jobs,
    )
    return make_report(facts, sources, cards)


def render(report: LabReport, *, for_print: bool = False, figure_width: int = 600) -> str:
    """The page as HTML. ``for_print``: for Qt's text engine, with ``<img src="figure:N">`` of so many pixels instead of
    the figures."""
    facts = report.facts
    return _template().render(
        facts=facts,
        for_print=for_print,
        figure_width=figure_width,
        figure_scale=figure_width / WIDTH,
        created=utc(facts.created),
        goals={one.id: [goal for goal in facts.goals if goal.exercise == one.id] for one in facts.exercises},
        runs={one.id: [run for run in facts.runs if run.exercise == one.id] for one in facts.exercises},
        figures=_numbered(report),
        labels={run.id: run.label for run in facts.runs},
        metrics=_metrics,
        settings=lambda runs: list(dict.fromkeys(name for run in runs for name in run.settings)),
        reached=sum(goal.reached for goal in facts.goals),
        tolerance=TOLERANCE_WORDS,
    )


def _numbered(report: LabReport) -> dict[str, list[tuple[int, ReportFigure]]]:
    numbers = iter(range(len(report.all_figures)))
    return {one.id: [(next(numbers), figure) for figure in report.figures[one.id]] for one in report.facts.exercises}


def _metrics(runs: Sequence[RunFact]) -> list[tuple[str, list[MetricFact | None]]]:
    """The label of each metric that these runs recorded, and what each of them recorded of it."""
    found = [{metric.name: metric for metric in run.metrics} for run in runs]
    labels = {name: metric.label for known in found for name, metric in known.items()}
    return [(label, [known.get(name) for known in found]) for name, label in labels.items()]


def goal_mark(goal: GoalFact) -> str:
    """The sign of a goal, which is a shape and not a colour alone."""
    return "✓" if goal.reached else "–"


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["mark"] = goal_mark
    environment.finalize = lambda value: for_terminal(value) if type(value) is str else value
    return environment.from_string(files(__package__).joinpath("report.html.j2").read_text(encoding="utf-8"))
