"""A data set is one file: with it in place it is found, read, offered, named and brought to sites."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from clew_agent.datasets import known, registry
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search, available, locate
from clew_agent.trainer.spec_check import check_spec
from clew_gui.commands.run.arguments import make_parser, parse_run
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.schedulers.state import Output, Phase
from clew_gui.study.goals import needs_words
from clew_gui.views.presentation.words import data_name
from clew_shared.base.problem import ProblemError
from clew_shared.base.remedies import as_typed
from clew_shared.cards import Catalogue, Goal
from clew_shared.catalogue import encode, find_card, known_sets, load_builtin
from clew_shared.data_sets import data_set_of
from tests.contract.joblab import JOB
from tests.unit.datasets import kuzushiji


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """The packaged catalogue as ``clew-agent catalogue --write`` makes it once the file is in its folder."""
    folder = tmp_path / "known"
    folder.mkdir()
    shutil.copy(kuzushiji.__file__, folder)
    monkeypatch.setattr(known, "__path__", [*known.__path__, str(folder)])
    before = load_builtin()
    cards = [msgspec.structs.replace(one, datasets=registry.accepted(one.datasets)) for one in before.exercises]
    made = msgspec.structs.replace(before, exercises=tuple(cards), datasets=registry.cards())
    (tmp_path / "catalogue.json").write_bytes(encode(made))
    monkeypatch.setattr("clew_shared.catalogue.BUILTIN", tmp_path / "catalogue.json")
    return load_builtin()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the new set: 12 training and 5 test images."""
    found = tmp_path / "data"
    found.mkdir()
    images = {"x_train": np.zeros((12, 28, 28), np.uint8), "x_test": np.zeros((5, 28, 28), np.uint8)}
    labels = {"y_train": np.full(12, 7, np.uint8), "y_test": np.full(5, 7, np.uint8)}
    np.savez(found / "kuzushiji.npz", allow_pickle=True, **images, **labels)
    return found


def test_the_packaged_catalogue_has_the_card_of_each_module() -> None:
    assert tuple(known_sets().values()) == registry.cards()
    assert list(known_sets()) == ["mnist", "digits", "fashion-mnist", "cifar10"]


@pytest.mark.usefixtures("catalogue")
def test_a_new_data_set_is_found_and_read_by_its_name_and_by_its_path(folder: Path) -> None:
    assert available(Search(folders=(folder,))) == ("digits", "kuzushiji")
    for name in ("kuzushiji", str(folder), str(folder / "kuzushiji.npz")):
        data = load(name, Search(folders=(folder,)))
        assert (data.name, data.class_names[data.train.y[0]]) == ("kuzushiji", "や")
    assert data_set_of(str(folder / "kuzushiji.npz")) == "kuzushiji"


@pytest.mark.usefixtures("catalogue")
def test_a_missing_new_data_set_is_refused_with_what_it_needs_and_where_it_is_published(
    tmp_path: Path,
) -> None:
    with pytest.raises(ProblemError, match=r"kuzushiji.npz.*github.com/rois-codh/kmnist") as caught:
        locate("kuzushiji", Search(folders=(tmp_path / "empty",)))
    assert as_typed(caught.value.problems[0].remedies[0]) == "--data /here/kuzushiji.npz"


def test_exercises_that_take_a_set_like_it_take_a_new_data_set(catalogue: Catalogue, folder: Path) -> None:
    taken = {card.id for card in catalogue.exercises if "kuzushiji" in card.datasets}
    assert taken == {card.id for card in catalogue.exercises if "fashion-mnist" in card.datasets}
    _, _, spec = parse_run(["softmax", "--data", "kuzushiji"], catalogue, "a-run")
    assert spec.data == "kuzushiji"
    assert check_spec(spec, catalogue, Search(folders=(folder,))) == ()


def test_the_help_and_the_windows_words_name_a_new_data_set(catalogue: Catalogue) -> None:
    text = " ".join(make_parser([find_card(catalogue.exercises, "softmax")]).format_help().split())
    assert "by name (mnist, digits, fashion-mnist, cifar10, kuzushiji) or a file or folder" in text
    assert data_name("kuzushiji") == "Kuzushiji-MNIST"
    goal = Goal(id="a", text="a", metric="loss", op="<=", value=1, data="kuzushiji")
    assert needs_words(goal) == "needs Kuzushiji-MNIST"


# --- Files as users of such programs have them, kept in ``tests/inputs`` ----------------------------------------------

INPUTS = Path(__file__).resolve().parents[2] / "inputs"


def test_images_of_16_bits_are_not_white() -> None:
    data = load(str(INPUTS / "16-bit"), Search())
    assert len(np.unique(data.train.x)) > 10
    assert "Scaled 12 images of more than 8 bits" in data.notes[0]


def test_postscript_that_is_called_an_image_is_refused_by_name() -> None:
    with pytest.raises(ProblemError, match=r"a\.png is not a usable data set: it is not a readable image"):
        load(str(INPUTS / "postscript"), Search())


def test_the_tables_of_three_spreadsheets_are_the_same() -> None:
    """As pandas writes it with its index, and as a German Excel does with its own separators."""
    tables = [load(str(INPUTS / name), Search()) for name in ("index-column.csv", "semicolon.csv", "decimal-comma.csv")]
    assert [len([note for note in data.notes if "No sample of class" not in note]) for data in tables] == [1, 1, 1]
    for other in tables[1:]:
        np.testing.assert_array_equal(other.train.x, tables[0].train.x)
        np.testing.assert_array_equal(other.test.y, tables[0].test.y)


def test_a_scheduler_of_tomorrow_and_its_gpus_are_understood_as_far_as_they_go() -> None:
    slurm = scheduler_of("slurm")
    state = slurm.states([JobRef("5", JOB)], Output(0, (INPUTS / "squeue.txt").read_text()))["5"]
    assert (state.phase, state.reason) == (Phase.PENDING, "ReservationDeleted")
    asked = slurm.partitions()
    assert asked is not None
    gpu, mig = asked.read(Output(0, (INPUTS / "sinfo.txt").read_text()))
    assert (gpu.gpus, gpu.kinds, mig.gpus, mig.kinds) == (8, ("2080Ti",), 34, ("ampere", "1g.10gb"))
