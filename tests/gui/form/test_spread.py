"""Where a run spreads, as fields: made from the strategies on the card, and back from the spec of a run."""

from __future__ import annotations

import msgspec
import pytest
from PySide6.QtGui import QAction
from pytestqt.qtbot import QtBot

from clew_gui.schedulers.allocation import AllocationRequest, for_run, refit
from clew_gui.sites.site import Site
from clew_gui.views.form.next_run import COMPARISONS, NextRun
from clew_gui.views.form.where_box import PlaceChoice
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.spec import RunSpec, check_strategy

NAMES = ("strategy", "devices", "nodes", "reduce", "average_every", "precision")


@pytest.fixture
def softmax() -> ExerciseCard:
    return find_card(load_builtin().exercises, "softmax")


@pytest.fixture
def panel(qtbot: QtBot, softmax: ExerciseCard) -> NextRun:
    result = NextRun(Appearance(), [QAction() for _ in COMPARISONS])
    qtbot.addWidget(result)
    result.set_card(softmax)
    result.show()
    return result


def choose(panel: NextRun, **values: str | int) -> RunSpec:
    for name, value in values.items():
        panel.spread.row(name).editor.set_value(value)
    return panel.spec()


def seen(panel: NextRun) -> list[str]:
    return [name for name in NAMES if panel.spread.row(name).visible]


def test_every_strategy_brings_its_own_fields_and_makes_a_spec_that_its_card_allows(
    panel: NextRun, softmax: ExerciseCard
) -> None:
    assert seen(panel) == ["strategy", "precision"]
    assert (panel.spec().strategy, panel.spec().devices, panel.spec().options) == ("single", 1, {})
    local = choose(panel, strategy="local-sgd", devices="4", average_every=20)
    assert seen(panel) == ["strategy", "devices", "average_every", "precision"]
    assert (local.strategy, local.devices, local.nodes, local.options) == ("local-sgd", 4, 1, {"average_every": 20})
    several = choose(panel, strategy="multi-worker", devices="1", nodes=3)
    assert seen(panel) == ["strategy", "devices", "nodes", "reduce", "precision"]
    assert (several.devices, several.nodes) == (1, 3)
    assert [check_strategy(spec, softmax) for spec in (local, several)] == [[], []]
    panel.spread.row("nodes").editor.set_value(0)
    assert panel.problems()
    assert not panel.run.isEnabled()


def test_a_runs_own_settings_come_back_and_the_slides_values_are_one_device(panel: NextRun) -> None:
    spec = choose(panel, strategy="mirrored", devices="4", reduce="float16", precision="bfloat16")
    panel.use_spec(RunSpec(exercise="softmax"))
    assert panel.spec().strategy == "single"
    panel.show_spec(spec)
    assert panel.spec() == spec


def test_what_cannot_be_spread_has_no_such_fields(panel: NextRun) -> None:
    linear = find_card(load_builtin().exercises, "linear-regression")
    panel.set_card(linear)
    assert not panel.spread.isVisible()
    assert check_strategy(panel.spec(), linear) == []


def test_the_scheduler_is_asked_for_what_the_run_spreads_over() -> None:
    spec = RunSpec(exercise="cnn", strategy="multi-worker", devices=4, nodes=2)
    assert for_run(AllocationRequest(gpus=1), spec) == AllocationRequest(gpus=4, nodes=2)
    assert for_run(AllocationRequest(nodes=8), spec) == AllocationRequest(nodes=8), (
        "a site without GPUs is asked for none"
    )
    alone = msgspec.structs.replace(spec, devices=1, nodes=1)
    assert for_run(AllocationRequest(gpus=2, nodes=2), alone) == AllocationRequest(gpus=2, nodes=2)


def test_a_run_that_goes_on_with_fewer_asks_for_fewer() -> None:
    spec = RunSpec(exercise="softmax", strategy="mirrored", devices=2)
    assert refit(AllocationRequest(gpus=4, nodes=3, time="10"), spec) == AllocationRequest(gpus=2, nodes=1, time="10")
    assert refit(AllocationRequest(nodes=3), spec) == AllocationRequest()


def test_each_exercise_has_its_own_number_of_nodes_at_a_site_and_one_time_limit_holds_for_all(
    panel: NextRun, softmax: ExerciseCard
) -> None:
    panel.where.offer([PlaceChoice("site:cave", "The Cave", "cave", Site(host="login", scheduler="slurm"))])
    panel.where.choose("site:cave")
    panel.where.set_field("nodes", "2")
    panel.where.set_field("time", "2h")
    panel.set_card(msgspec.structs.replace(softmax, id="gradient"))
    place = panel.place()
    assert place is not None
    assert (place.allocation.nodes, place.allocation.time) == (1, "2h")
    panel.set_card(softmax)
    place = panel.place()
    assert place is not None
    assert place.allocation.nodes == 2
    left = panel.where.left()[1]
    assert left == {"cave": {"time": "2h"}, f"cave/{softmax.id}": {"nodes": 2}}
