"""Shows the results of a study, for people and for programs: who did best, or how much faster more devices are."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clew_gui.base.state_words import NONE
from clew_gui.commands.output import words
from clew_gui.session.study_runner import StudyResult
from clew_shared.base import operating_system
from clew_shared.base.number_words import quantity
from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import STEPS, check
from clew_shared.run_settings import inside
from clew_shared.study.device_use import device_uses, use_columns
from clew_shared.study.ranking import Better, Standing, rank, stand
from clew_shared.study.scaling import (
    Conclusion,
    Forecast,
    Scaling,
    as_table,
    conclude,
    figures,
    forecast_basis,
    forecast_of,
    interval_words,
    measure,
    on_gpus,
    shared_by,
    time_run,
    unit_of,
)
from clew_shared.study.study import StudySpec

# --- Ranking ----------------------------------------------------------------------------------------------------------


def ranking_lines(study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult]) -> list[str]:
    """The places, the winner first, aligned for reading."""
    metric = words.metric_of(card, study.metric)
    name = inside(metric.label)
    kind = "lane" if study.lanes else "run"
    rows = [("", kind, *([f"steps to {name} {study.target:g}"] if study.target is not None else []), f"best {name}")]
    for place, (result, one) in enumerate(_ranked(study, card, results), start=1):
        best = NONE if one.best is None else quantity(one.best, metric.format)
        reached = [f"{one.reached:,}" if one.reached is not None else NONE] if study.target is not None else []
        rows.append((f"{place}." if one.best is not None else NONE, result.title, *reached, best))
    steps = steps_each(study, card)
    return ["", *aligned(rows, left=(1,)), f"Study {study.study}" + (f", {steps:,} steps each" if steps else "")]


def steps_each(study: StudySpec, card: ExerciseCard) -> int | None:
    """The steps of each run; None if they differ, or if the exercise has none."""
    steps = check(card.params, study.base.params)[0].get(STEPS) if study.axis != STEPS else None
    return steps if isinstance(steps, int) else None


def ranking_summary(study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult]) -> dict[str, object]:
    """The same for programs."""
    lanes = [
        {
            "place": place,
            "lane": result.title,
            "run": result.spec.run or result.folder.name,
            "state": result.history.fold.state.value,
            "reached": one.reached,
            "best": one.best,
            "steps": one.step,
            "run_dir": str(result.folder),
        }
        for place, (result, one) in enumerate(_ranked(study, card, results), start=1)
    ]
    head = {"study": study.study, "exercise": study.base.exercise, "steps": steps_each(study, card)}
    return {**head, "metric": study.metric, "target": study.target, "lanes": lanes}


def _ranked(study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult]) -> list[tuple[StudyResult, Standing]]:
    better: Better = "higher" if words.metric_of(card, study.metric).better == "higher" else "lower"
    by_folder = {str(result.folder): result for result in results}
    found = [stand(run, one.history, study.metric, better, study.target) for run, one in by_folder.items()]
    return [(by_folder[one.run], one) for one in rank(found, better)]


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> list[str]:
    """Columns of text, to the right but for those in ``left``."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(text.ljust(widths[k]) if k in left else text.rjust(widths[k]) for k, text in enumerate(row))
        for row in rows
    ]
    return [line.rstrip() for line in lines]


# --- Scaling ----------------------------------------------------------------------------------------------------------


def scaling_of(study: StudySpec, results: Sequence[StudyResult]) -> Scaling:
    """Returns what the runs of a study over devices or nodes measured that finished in one attempt."""
    timings = (time_run(history, count, study.warm_up) for count, history in _measured(results))
    return measure(timings, weak=study.weak, warm_up=study.warm_up)


def _measured(results: Sequence[StudyResult]) -> list[tuple[int, History]]:
    """The runs that finished in one attempt, each with its number of devices."""
    whole = [one for one in results if one.history.fold.state is RunState.FINISHED and one.history.fold.attempt <= 1]
    return [(one.spec.devices * one.spec.nodes, one.history) for one in whole]


def conclusion(study: StudySpec, results: Sequence[StudyResult], scaling: Scaling, card: ExerciseCard) -> Conclusion:
    """Returns the conclusion of a study that was done on this computer."""
    histories = [one.history for one in results]
    return conclude(scaling, gpus=on_gpus(histories), cores=_cores(study, histories), unit=unit_of(card))


def predicted(study: StudySpec, results: Sequence[StudyResult], scaling: Scaling) -> tuple[Forecast, ...]:
    """Predicts what more devices should give; nothing if they share the cores of one processor."""
    return () if _cores(study, [one.history for one in results]) else forecast_of(scaling)


def forecast_words(found: Sequence[Forecast], basis: str) -> str:
    """``Forecast by the steps of 1 and 2 devices, if nothing overlaps: 3.5× on 4, 6.1× on 8, 9.8× on 16.``"""
    parts = [f"{figures(one.speedup, 2)}× on {one.replicas}" for one in found if one.replicas > 2]
    return f"Forecast by {basis}: {', '.join(parts)}."


def _cores(study: StudySpec, histories: Sequence[History]) -> int:
    """The cores that the devices share; nodes are processes of this computer here."""
    processes_here = study.axis == "nodes" and not on_gpus(histories)
    return shared_by(histories) or (operating_system.usable_cores() if processes_here else 0)


def scaling_lines(study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult]) -> list[str]:
    """A row for each number of devices, how it was measured, and the sentence."""
    scaling = scaling_of(study, results)
    found, more = conclusion(study, results, scaling, card), predicted(study, results, scaling)
    said = ["", found.sentence, *([found.detail] if found.detail else [])]
    said += [forecast_words(more, forecast_basis(scaling))] if more else []
    if not scaling.rows:
        return said
    steps = study.steps or 100
    rows = [("devices", f"time for {steps:,} steps", f"{unit_of(card)}/s", "95 % interval", "speed-up", "efficiency")]
    rows += [
        (
            str(row.replicas),
            words_for_seconds(row.step_seconds * steps),
            figures(row.rate.value, 4),
            interval_words(row.rate, NONE),
            f"{row.speedup:.2f}×",
            f"{100 * row.efficiency:.0f} %",
        )
        for row in scaling.rows
    ]
    uses, gpus = device_uses(_measured(results), scaling.rows), on_gpus([one.history for one in results])
    more_columns = [tuple(map(inside, column)) for column in use_columns(scaling.rows, uses, gpus, NONE)]
    rows = list(zip(*zip(*rows, strict=True), *more_columns, strict=True))
    return ["", *aligned(rows), how_measured(study.study, scaling), *said]


def words_for_seconds(seconds: float) -> str:
    """``0.472 s``, ``41.0 s``: three figures."""
    return f"{figures(seconds)} s"


def how_measured(name: str, scaling: Scaling) -> str:
    """``Study scaling-3fa2c1, strong scaling: 3 repeats each, the first 20 steps dropped as warm-up``."""
    counts = {row.repeats for row in scaling.rows}
    repeats = f"{min(counts)} to {max(counts)} repeats" if len(counts) > 1 else f"{counts.pop()} repeats each"
    repeats = "one run each, intervals over its blocks of steps" if repeats == "1 repeats each" else repeats
    dropped = f", the first {scaling.warm_up:,} steps dropped as warm-up" if scaling.warm_up else ""
    return f"Study {name}, {'weak' if scaling.weak else 'strong'} scaling: {repeats}{dropped}"


def scaling_summary(study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult]) -> dict[str, object]:
    """The same for programs."""
    scaling = scaling_of(study, results)
    found = conclusion(study, results, scaling, card)
    uses = device_uses(_measured(results), scaling.rows)
    fits = {fit.law: fit._asdict() for fit in (scaling.amdahl, scaling.gustafson) if fit is not None}
    return {
        "study": study.study,
        "exercise": study.base.exercise,
        "strategy": study.base.strategy,
        "axis": study.axis,
        "scaling": "weak" if study.weak else "strong",
        "steps": study.steps,
        "warm_up": study.warm_up,
        "table": [
            cells | uses[row.replicas]._asdict()
            for row, cells in zip(scaling.rows, as_table(scaling, study.steps or 100), strict=True)
        ],
        "fits": fits,
        "forecast": [one._asdict() for one in predicted(study, results, scaling)],
        "sentence": found.sentence,
        "detail": found.detail,
        "runs": [
            {
                study.axis: msgspec.to_builtins(one.value),
                "run": one.folder.name,
                "state": one.history.fold.state.value,
                "run_dir": str(one.folder),
            }
            for one in results
        ],
    }
