"""Shows the results of a study, for people and for programs: who did best, or how much faster more devices are."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clew_gui.base.state_words import NONE
from clew_gui.charts.speedup import ScalingRun, SpeedupScene, speedup_scene
from clew_gui.commands.output import words
from clew_gui.session.study_runner import StudyResult
from clew_gui.study.ranking import Better, Standing, rank, stand
from clew_gui.study.scaling import Forecast, as_table, figures, forecast_basis
from clew_shared.base import operating_system
from clew_shared.base.number_words import quantity
from clew_shared.cards import ExerciseCard
from clew_shared.params import STEPS, check
from clew_shared.run_settings import inside
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


def study_scene(study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult]) -> SpeedupScene:
    """What the window shows of a study over devices or nodes; nodes are processes of this computer here."""
    runs = [ScalingRun(one.spec, one.history.fold.state, one.history) for one in results]
    cores = operating_system.usable_cores()
    return speedup_scene(runs, card, weak=study.weak, warm_up=study.warm_up, cores=cores)


def forecast_words(found: Sequence[Forecast], basis: str) -> str:
    """``Forecast by the steps of 1 and 2 devices, if nothing overlaps: 3.5× on 4, 6.1× on 8, 9.8× on 16.``"""
    parts = [f"{figures(one.speedup, 2)}× on {one.replicas}" for one in found if one.replicas > 2]
    return f"Forecast by {basis}: {', '.join(parts)}."


def scaling_lines(study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult]) -> list[str]:
    """A row for each number of devices, how it was measured, and the sentence."""
    scene = study_scene(study, card, results)
    said = ["", *filter(None, (scene.conclusion.sentence, scene.conclusion.detail))]
    said += [forecast_words(scene.forecast, forecast_basis(scene.scaling))] if scene.forecast else []
    if not scene.scaling.rows:
        return said
    rows = [tuple(map(inside, scene.table[0])), *scene.table[1:]]
    return ["", *aligned(rows), f"Study {study.study}, {inside(scene.title)}: {scene.caption}", *said]


def scaling_summary(study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult]) -> dict[str, object]:
    """The same for programs."""
    scene = study_scene(study, card, results)
    scaling = scene.scaling
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
            cells | scene.uses[row.replicas]._asdict()
            for row, cells in zip(scaling.rows, as_table(scaling, study.steps or 100), strict=True)
        ],
        "fits": fits,
        "forecast": [one._asdict() for one in scene.forecast],
        "sentence": scene.conclusion.sentence,
        "detail": scene.conclusion.detail,
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
