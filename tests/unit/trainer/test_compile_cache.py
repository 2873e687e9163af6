"""Which kept programs TensorFlow may find: whole ones, of this processor, not too many."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from clew_agent.trainer import compile_cache
from clew_agent.trainer.compile_cache import VARIABLE, cache_folder, environment, in_use, prepare, vet, vouch
from clew_shared.base.places import Places


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
