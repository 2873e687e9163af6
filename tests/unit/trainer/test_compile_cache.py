"""Which kept programs TensorFlow may find: whole ones, of this processor, not too many."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clew_agent.trainer import checkpoints, compile_cache
from clew_agent.trainer.checkpoints import CheckpointPlace
from clew_agent.trainer.compile_cache import VARIABLE, cache_folder, environment, in_use, prepare, vet, vouch
from clew_shared.base.places import Places
from clew_shared.journal.run_folder import RunFolder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def program(folder: Path, name: str, content: bytes = b"machine code", age: float = 0.0) -> Path:
    path = folder / f"{name}.pb"
    path.write_bytes(content)
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def test_what_was_vouched_for_stays_and_what_has_changed_since_goes(cache: Path) -> None:
    good, torn, flipped = (program(cache, name, age=1000.0) for name in ("good", "torn", "flipped"))
    vouch(cache)
    torn.write_bytes(b"machi")
    flipped.write_bytes(b"machine c0de")
    vet(cache)
    assert sorted(path.name for path in cache.iterdir()) == ["good.crc32", "good.pb"]
    assert good.read_bytes() == b"machine code"


def test_nobodys_file_goes_unless_a_run_is_just_making_it(cache: Path) -> None:
    program(cache, "old", age=1000.0)
    young = program(cache, "young")
    vet(cache)
    assert list(cache.iterdir()) == [young]


def test_the_oldest_of_too_many_go(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cache, "_MOST_FILES", 2)
    for place in range(4):
        program(cache, str(place), age=100.0 * place)
    vouch(cache)
    vet(cache)
    assert sorted(path.name for path in cache.glob("*.pb")) == ["0.pb", "1.pb"]
    assert len(list(cache.iterdir())) == 4


@pytest.mark.unix("modes of files")
def test_the_folder_is_the_users_own_and_named_to_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(home=tmp_path / "home", private=tmp_path / "private")
    told = environment(places)
    folder = cache_folder(places)
    assert told[VARIABLE].endswith(f"={folder}")
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv(VARIABLE, told[VARIABLE])
    assert in_use(places) == folder
    monkeypatch.setenv(VARIABLE, "--tf_xla_clustering_debug")
    assert in_use(places) is None


@pytest.mark.parametrize("room", [True, False])
def test_a_process_whose_environment_is_old_looks_for_room_again(
    tmp_path: Path, room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(home=tmp_path / "home", private=tmp_path / "private")
    for name, value in environment(places).items():
        monkeypatch.setenv(name, value)
    torn = program(cache_folder(places), "torn", age=1000.0)
    if not room:
        monkeypatch.setattr(compile_cache, "_ROOM_BYTES", 1 << 60)
    prepare(places)
    assert (VARIABLE in os.environ) == room
    assert torn.exists() != room, "TensorFlow does not look where there is no room"


@pytest.mark.parametrize("folder", ["with space", "file/below"])
def test_where_it_cannot_be_there_is_none(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("in the way")
    assert environment(Places(home=tmp_path, private=tmp_path / folder)) == {}


def test_a_full_disk_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cache, "_ROOM_BYTES", 1 << 62)
    assert environment(Places(home=tmp_path, private=tmp_path / "private")) == {}


def test_another_processor_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places, cpu = Places(home=tmp_path, private=tmp_path), tmp_path / "cpuinfo"
    folders: set[Path] = set()
    for flags in ("sse avx", "sse avx avx512f"):
        cpu.write_text(f"processor : 0\nflags : {flags}\nbogomips : {len(folders)}\n")
        monkeypatch.setattr(compile_cache, "_CPU", cpu)
        folders.add(cache_folder(places))
    assert len(folders) == 2


# --- Checkpoints of two attempts in one folder, of which one may run on a node that was cut off -----------------------


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
