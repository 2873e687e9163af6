"""A report shows of runs on several devices what the tabs show: staleness, the devices of a pipeline, speed-up."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np

from clew_gui.base.tokens import LIGHT
from clew_gui.reports.figures import LabelledRun, figures_of
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Event, Series, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.study.study import axis_words
from tests.simulated_cluster import SCHEMA, SimulatedCluster
from tests.unit.charts.test_speedup import scaling_run


def fed(exercise: str, *events: Event) -> History:
    history = History()
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise=exercise, spec_sha256="", host="node1"))
    for event in events:
        history.feed(1, event)
    return history


def words(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_parameter_servers_have_a_histogram_and_a_table_of_workers() -> None:
    cluster = SimulatedCluster(workers=3)
    history = fed("ps-lab", SCHEMA, *cluster.join(), *cluster.train(4, 20), State(state=RunState.FINISHED))
    spec = RunSpec(exercise="ps-lab", strategy="parameter-server", options={"workers": 3})
    card = find_card(load_builtin().exercises, "ps-lab")
    (figure,) = [one for one in figures_of(card, [LabelledRun("Run", history, spec)]) if one.title == "Staleness"]
    counts = history.updates.counts
    assert "Asynchronous: 1 coordinator, 1 server, 3 workers on 4 nodes." in figure.caption
    assert f"{counts.mean_staleness:.1f} updates old on average" in figure.caption
    assert f"median {counts.median_staleness()}" in words(figure.svg)
    heads, *rows = figure.table
    assert heads[:4] == ("Worker", "Node", "Gradients", "Applied")
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (str(worker), f"node{worker + 2}", f"{counts.workers[1, worker]:,}") for worker in range(3)
    ]


def test_a_pipeline_has_a_row_of_tasks_for_each_device() -> None:
    card = find_card(load_builtin().exercises, "model-parallel")

    def device(number: int, x: list[float], y: list[float]) -> Series:
        points: dict[str, Any] = {"x": np.array(x, "<f8").tobytes(), "y": np.array(y, "<f8").tobytes()}
        return Series(name=f"Device {number}", x_label="Time", y_label="Micro-batch", x_unit="s", **points)

    first, second = device(1, [0, 1, 2, 4, 5, 6], [1, 2, 0, -1, -2, 0]), device(2, [1, 2, 3, 4, 5], [1, 2, -1, -2, 0])
    history = fed("model-parallel", first, second)
    (figure,) = figures_of(card, [LabelledRun("Run", history, RunSpec(exercise="model-parallel"))])
    assert figure.caption.endswith("On average a device waits 33 % of the time.")
    assert figure.table[1:] == (("Device 1", "4", "67 %"), ("Device 2", "4", "67 %"))
    found = re.findall(r'<rect[^>]*width="([^"]*)"[^>]*fill="([^"]*)"', figure.svg)
    bars = [colour for width, colour in found if colour in LIGHT.curves[:2] and float(width) > 10]
    assert [bars.count(colour) for colour in LIGHT.curves[:2]] == [4, 4], "forward and backward"
    numbers = [word for word in words(figure.svg) if word in ("1", "2")]
    assert numbers == ["1", "2"] * 4


def test_the_runs_of_a_scaling_study_have_their_speed_up() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    found = [scaling_run(card, devices, seconds) for devices, seconds in ((1, 0.04), (2, 0.02), (4, 0.02))]
    names = [axis_words("devices", run.spec.devices) for run in found]
    specs = [
        msgspec.structs.replace(run.spec, study="scaling-a", name=name, timed=True)
        for name, run in zip(names, found, strict=True)
    ]
    runs = [LabelledRun(spec.name, run.history, spec) for spec, run in zip(specs, found, strict=True)]
    speedup, efficiency = [one for one in figures_of(card, runs) if "scaling" in one.title]
    assert [row[-2:] for row in speedup.table] == [
        ("Speed-up", "Efficiency"),
        ("1.00×", "100 %"),
        ("2.00×", "100 %"),
        ("2.00×", "50 %"),
    ]
    assert {"Measured", "2.0×"} <= set(words(speedup.svg))
    assert {"Measured", "50 %"} <= set(words(efficiency.svg))
    assert not [one for one in figures_of(card, runs[:1]) if "scaling" in one.title], "one is no comparison"
