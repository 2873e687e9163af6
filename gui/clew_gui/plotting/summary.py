"""A picture of curves in words, for people who cannot see it."""

from __future__ import annotations

from clew_gui.plotting.model import PlotSetup, RunStyle
from clew_gui.plotting.numbers import count_text, value_text
from clew_gui.plotting.readout import prominent
from clew_gui.plotting.scene import Scene
from clew_gui.plotting.series import Sample, SeriesStore

_SPOKEN = 4


def summary(scene: Scene, store: SeriesStore) -> str:
    """Last and best recorded values of the runs that stand out, plot by plot."""
    if scene.empty:
        return "No run has values yet."
    runs = prominent(scene.runs, _SPOKEN)
    parts = []
    for plot in scene.plots:
        spoken = [text for run in runs if (text := _spoken(plot.setup, run, store))]
        if spoken:
            parts.append(f"{plot.setup.title}: {'; '.join(spoken)}.")
    left_out = len(scene.runs) - len(runs)
    if left_out:
        parts.append(f"{left_out} more runs are shown.")
    return " ".join(parts)


def _spoken(setup: PlotSetup, run: RunStyle, store: SeriesStore) -> str:
    for metric in (setup.headline, *setup.others):
        series = store.get(run.run_id, metric)
        if series is None or series.last is None:
            continue
        text = f"{run.label} last {_place(series.last, setup)}"
        best = {"higher": series.highest, "lower": series.lowest}.get(setup.better)
        if best is not None:
            text += f", best {_place(best, setup)}"
        if series.first_bad is not None:
            text += f", not a number from step {count_text(series.first_bad)}"
        return text
    return ""


def _place(sample: Sample, setup: PlotSetup) -> str:
    return f"{value_text(sample.value, setup.format)} at step {count_text(sample.step)}"
