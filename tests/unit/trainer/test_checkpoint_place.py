"""Checkpoints of two attempts in one folder, of which one may run on a node that was cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clew_agent.trainer import checkpoints
from clew_agent.trainer.checkpoints import CheckpointPlace
from clew_shared.journal.run_folder import RunFolder


def saving(text: str) -> Callable[[Path], None]:
    """What writes a checkpoint."""

    def save(folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "data").write_text(text)

    return save


def content(folder: RunFolder) -> dict[str, str]:
    return {path.parent.name: path.read_text() for path in folder.checkpoints.rglob("data")}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_a_checkpoint_has_the_number_of_its_step(folder: RunFolder) -> None:
    assert CheckpointPlace(folder, 1).write(200, saving("a")) == folder.checkpoint(200)
    assert CheckpointPlace(folder, 2).write(300, saving("b")) == folder.checkpoint(300)
    assert content(folder) == {"00000200": "a", "00000300": "b"}


@pytest.mark.parametrize("late", [1, 2])
def test_neither_of_two_attempts_touches_the_others(late: int, folder: RunFolder) -> None:
    CheckpointPlace(folder, 3 - late).write(200, saving("first"))
    found = CheckpointPlace(folder, late).write(200, saving("late"))
    assert content(folder) == {"00000200": "first", f"00000200-000{late}": "late"}
    assert found.name == f"00000200-000{late}"


def test_a_damaged_one_gives_way(folder: RunFolder) -> None:
    CheckpointPlace(folder, 1).write(200, saving("damaged"))
    CheckpointPlace(folder, 2, ["checkpoints/00000200"]).write(200, saving("sound"))
    assert content(folder) == {"00000200": "sound"}


def test_a_disk_that_refuses_leaves_nothing(folder: RunFolder) -> None:
    def refuse(partial: Path) -> None:
        saving("half")(partial)
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        CheckpointPlace(folder, 1).write(200, refuse)
    assert list(folder.checkpoints.iterdir()) == []


def test_what_a_trainer_left_is_cleared_but_nothing_of_a_later_attempt(folder: RunFolder) -> None:
    folder.checkpoints.mkdir()
    for attempt in (1, 2, 3):
        saving("x")(checkpoints.partial(folder, 7, attempt))
        checkpoints.reserve(folder, attempt).touch()
    checkpoints.clear(folder, 2)
    assert [path.name for path in folder.checkpoints.iterdir()] == [".00000007-0003.partial"]
    assert [path.name for path in folder.path.glob(".*")] == [".reserve-0003"]
