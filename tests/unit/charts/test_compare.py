"""How groups of compared runs are called."""

from __future__ import annotations

import pytest

from clew_gui.base.state_words import NONE
from clew_gui.charts.compare import RESULT, ComparedRun, CompareOptions, CurveCache, compare_scene, title_of
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Evaluation
from clew_shared.journal.history import History
from tests.unit.runs import pulse


def test_a_group_of_seeds_has_the_name_of_the_point_not_of_its_first_seed() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    runs = [ComparedRun(str(k), k, f"0.01, seed {k}", {"learning_rate": 0.01, "seed": k}, History()) for k in (1, 2)]
    assert title_of(runs, ["learning_rate"], card) == "1, 2  0.01"
    other = [run._replace(name="0.01") if run.number == 1 else run._replace(name="again") for run in runs]
    assert title_of(other, ["learning_rate"], card) == "1, 2  0.01"
    assert title_of(runs[:1], [], card) == "1  0.01, seed 1"


def test_groups_are_coloured_by_their_results() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    bests = {1: 0.5, 2: 0.9, 3: 0.7, 4: None}
    runs = [ComparedRun(str(k), k, "", {"learning_rate": k}, ended_at(best)) for k, best in bests.items()]
    scene = compare_scene(runs, card, CompareOptions("test_accuracy", colour=RESULT), "", CurveCache())
    places = {group.runs[0].number: group.ink.place for group in scene.groups}
    assert (places[1], places[2], places[4]) == (0.0, 1.0, None)
    assert places[3] == pytest.approx(0.5)
    assert [text for _, text in scene.legend] == ["50.00 %", "70.00 %", "90.00 %"]
    assert scene.coloured_by == "Best test accuracy"


def ended_at(accuracy: float | None) -> History:
    history = History()
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256=""), 0)
    if accuracy is not None:
        history.feed(1, Evaluation(step=5, values={"test_accuracy": accuracy}), 1)
    return history


def test_a_scatter_is_logarithmic_as_asked_and_leaves_out_what_is_not_above_zero() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    bests = {1: 0.0, 2: 0.001, 3: 1.0}
    runs = [ComparedRun(str(k), k, "", {"learning_rate": k}, ended_at(best)) for k, best in bests.items()]
    for log, places in ((True, {1, 2}), (False, {0, 1, 2})):
        scene = compare_scene(runs, card, CompareOptions("test_accuracy", log=log), "", CurveCache())
        assert scene.scatter[1].log is log
        assert set(scene.places) == places


def test_what_the_runs_used_of_their_machines_is_in_the_table_as_far_as_it_is_known() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    histories = {1: ended_at(0.9), 2: ended_at(0.5)}
    histories[1].feed(1, pulse(10, cpu=[1.0, 1.0], memory=[1e9, 2e9], power=[90.0, 90.0]))
    runs = [ComparedRun(str(k), k, "", {"learning_rate": k}, one) for k, one in histories.items()]
    heads, *rows = compare_scene(runs, card, CompareOptions("test_accuracy"), "", CurveCache()).table
    assert heads[-4:] == ("CPU", "Peak memory", "Energy", "Test accuracy per Wh")
    assert [row[-4:] for row in rows] == [("100 %", "2.0 GB", "90 J", "3600.00 %"), (NONE,) * 4]
