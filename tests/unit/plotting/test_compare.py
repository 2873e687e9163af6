"""How groups of compared runs are called."""

from __future__ import annotations

from clew_gui.plotting.compare import ComparedRun, title_of
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.history import History


def test_a_group_of_seeds_has_the_name_of_the_point_not_of_its_first_seed() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    runs = [ComparedRun(str(k), k, f"0.01, seed {k}", {"learning_rate": 0.01, "seed": k}, History()) for k in (1, 2)]
    assert title_of(runs, ["learning_rate"], card) == "1, 2  0.01"
    other = [run._replace(name="0.01") if run.number == 1 else run._replace(name="again") for run in runs]
    assert title_of(other, ["learning_rate"], card) == "1, 2  0.01"
    assert title_of(runs[:1], [], card) == "1  0.01, seed 1"
