"""The input pipeline: every way gives the same images in the same order, and what a step waits for is said."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import numpy as np
import psutil
import pytest

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises.devices.pipeline import (
    EXERCISE,
    LEFT_S,
    PREFIX,
    TRACED,
    WARM_UP,
    WAYS,
    Feeding,
    PipelineSettings,
    Source,
    checked_folder,
    compare,
    dataset,
    gains,
    workplace,
    write,
)
from clew_agent.training.exercise import Setup
from clew_agent.training.tracing import Profiler
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Evaluation, Event, Schema, Series, Trace
from clew_shared.journal.trace import shares
from clew_shared.params import Value, build


def setup(data: DataSet, **values: Value) -> Setup[PipelineSettings]:
    small: dict[str, Value] = {"images": 60, "passes": 2, "batch_size": 20}
    return Setup(build(PipelineSettings, small | values), 1, data)


def measured(data: DataSet, **values: Value) -> list[Event]:
    return [event for event in EXERCISE.measure(setup(data, **values)) if event is not None]


def whole_of(writing: Generator[None, None, Source]) -> Source:
    """What is returned at the end."""
    while True:
        try:
            next(writing)
        except StopIteration as end:
            found: Source = end.value
            return found


@contextmanager
def written(chosen: Setup[PipelineSettings]) -> Iterator[Source]:
    with workplace(checked_folder(chosen)) as place:
        yield whole_of(write(chosen.require_data(), chosen.settings, 1, place))


@pytest.fixture(scope="module")
def whole(small_digits: DataSet) -> list[Event]:
    return measured(small_digits)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_gives_the_images_of_a_pass_again_and_again(way: str, small_digits: DataSet, tmp_path: Path) -> None:
    source = whole_of(write(small_digits, setup(small_digits).settings, 1, tmp_path))
    taken: Iterator[tuple[object, object]] = iter(dataset(way, source, 25, 4).take(5).as_numpy_iterator())
    images, labels = (np.concatenate(parts) for parts in zip(*taken, strict=True))
    order = np.resize(source.order, 125)
    np.testing.assert_array_equal(images, source.pixels[order])
    np.testing.assert_array_equal(labels, source.labels[order])
    assert images.dtype == np.uint8


def test_losses_and_weights_are_the_same_whatever_the_way(small_digits: DataSet) -> None:
    chosen = setup(small_digits)
    with written(chosen) as source:
        runs = [Feeding(key, source, chosen, traced=False) for key in WAYS]
        for run in runs:
            list(run.train())
    assert {tuple(run.losses) for run in runs} == {tuple(runs[0].losses)}
    assert len(runs[0].losses) == WARM_UP + 2 * 3
    assert runs[0].losses[-1] < runs[0].losses[0], "it learns, so equal losses are those of equal weights"


def test_other_images_are_refused() -> None:
    compare([1.0, 2.0], [1.0, 2.0], "Cache")
    with pytest.raises(ProblemError, match="Cache gives another loss in step 2: 3 instead of 2"):
        compare([1.0, 2.0], [1.0, 3.0], "Cache")


def test_all_ways_are_measured_in_turn(whole: list[Event]) -> None:
    names = {event.name for event in whole if isinstance(event, Series)}
    assert names == {way.line for way in WAYS.values()} | {way.name for way in WAYS.values()}
    steps = [event for event in whole if isinstance(event, Evaluation)]
    assert [event.step for event in steps] == [1, 2, 3, 4, 5, 6]
    assert set(steps[-1].values) == {metric.name for metric in EXERCISE.metrics}
    assert [event.steps for event in whole if isinstance(event, Schema)] == [6]
    assert not any(isinstance(event, Trace) for event in whole)


def test_a_step_waits_and_then_trains(whole: list[Event]) -> None:
    rows = [event for event in whole if isinstance(event, Series) and event.name in {way.name for way in WAYS.values()}]
    for row in rows:
        x, y = np.frombuffer(row.x, "<f8"), np.frombuffer(row.y, "<f8")
        assert y.tolist() == [-1, 1, 0]
        assert 0 == x[0] < x[1] < x[2]


def test_files_are_removed_afterwards(small_digits: DataSet, tmp_path: Path) -> None:
    with written(setup(small_digits, folder=str(tmp_path))) as source:
        assert source.folder.parent == tmp_path
        assert len(list(source.folder.iterdir())) == 61
    assert not source.folder.exists()


def test_what_a_killed_measurement_left_behind_is_removed_by_the_next(small_digits: DataSet, tmp_path: Path) -> None:
    host, gone, day = operating_system.host_name(), 2**31 - 7, time.time() - 2 * LEFT_S
    there = {
        f"{PREFIX}{host}-{gone}-a": 0.0,
        f"{PREFIX}{host}-{os.getpid()}-b": day,
        f"{PREFIX}other-node-{gone}-c": 0.0,
        f"{PREFIX}other-node-{gone}-d": day,
        f"{PREFIX}e": 0.0,
        f"{PREFIX}f": day,
        "kept": day,
    }
    for name, touched in there.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000.png").touch()
        if touched:
            os.utime(tmp_path / name, (touched, touched))
    with suppress(OSError):  # Windows has them for administrators
        (tmp_path / f"{PREFIX}{host}-{gone}-g").symlink_to(tmp_path / "kept")
    measured(small_digits, feeding="memory", images=50, folder=str(tmp_path))
    left = {path.name[len(PREFIX) :][-1] for path in tmp_path.glob(f"{PREFIX}*") if not path.is_symlink()}
    assert left == {"b", "c", "e"}
    assert (tmp_path / "kept" / "00000.png").exists()


@pytest.mark.parametrize("way", ["files", "tfrecord"])
def test_a_measurement_can_be_stopped_anywhere_and_has_no_file_open_then(
    way: str, small_digits: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, list[str]]] = []

    class Folder(tempfile.TemporaryDirectory[str]):
        def cleanup(self) -> None:
            opened = [file.path for file in psutil.Process().open_files() if file.path.startswith(self.name)]
            seen.append((len(list(Path(self.name).iterdir())), opened))
            super().cleanup()

        def __exit__(self, *_: object) -> None:
            self.cleanup()

    monkeypatch.setattr("clew_agent.exercises.devices.pipeline.tempfile.TemporaryDirectory", Folder)
    for events in (10, 65, 63 + 60 + 5, 10_000):
        found = EXERCISE.measure(setup(small_digits, feeding=way, folder=str(tmp_path)))
        list(islice(found, events))
        assert isinstance(found, Generator)
        found.close()
    counts, opened = zip(*seen, strict=True)
    assert counts[0] < 60 < counts[-1], "it is stopped while it writes, too"
    assert not any(opened)
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_a_single_way_is_traced_as_well(small_digits: DataSet) -> None:
    (trace,) = [event for event in measured(small_digits, feeding="prefetch") if isinstance(event, Trace)]
    assert (trace.step, trace.count) == (WARM_UP + 2 * 3, TRACED)
    assert any(name.startswith("Reader") for name in trace.rows)


def test_the_trace_of_a_way_that_waits_for_its_files_says_so(small_digits: DataSet) -> None:
    chosen, profiler = setup(small_digits, extra_ms=50.0, batch_size=4), Profiler()
    with written(chosen) as source:
        run = Feeding("files", source, chosen, traced=False)
        run.once()
        profiler.start()
        with profiler.steps():
            for _ in range(3):
                run.once()
        found = shares(profiler.stop(1, 3))
    assert found["input"] > found["compute"] > 0


def test_gains_are_against_files_one_after_the_other() -> None:
    rates = {"memory": 1000.0, "files": 100.0, "parallel": 500.0, "prefetch": 900.0}
    assert gains(rates) == {"memory_gain": 10.0, "parallel_gain": 5.0, "prefetch_gain": 9.0, "hidden": 0.9}
    assert gains({"memory": 1000.0}) == {}
    assert gains({"cache": 10.0}) == {}


def test_a_full_disk_is_a_problem_and_leaves_nothing(
    small_digits: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    (tmp_path / "images").mkdir()
    with pytest.raises(ProblemError, match="cannot be written: No space left on device"):
        measured(small_digits, folder=str(tmp_path / "images"))
    assert not list((tmp_path / "images").iterdir())


class SlowFiles:
    """Takes the place of the extra time: a file comes as soon as ``together`` are asked for at once, or in vain."""

    def __init__(self, together: int) -> None:
        self.calls = self.most = self._now = 0
        self._together, self._change = together, threading.Condition()

    def sleep(self, _seconds: float) -> None:
        """Waits for others."""
        with self._change:
            self.calls, self._now = self.calls + 1, self._now + 1
            self.most = max(self.most, self._now)
            self._change.notify_all()
            self._change.wait_for(lambda: self.most >= self._together, timeout=30)
            self._now -= 1


@pytest.mark.parametrize(("way", "together"), [("files", 1), ("parallel", 8), ("prefetch", 8), ("cache", 8)])
def test_files_are_read_one_by_one_or_many_at_once(
    way: str, together: int, small_digits: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowFiles(together)
    monkeypatch.setattr("clew_agent.exercises.devices.pipeline.sleep", slow.sleep)
    source = whole_of(write(small_digits, setup(small_digits, extra_ms=1.0).settings, 1, tmp_path))
    list(dataset(way, source, 20, 16).take(6))
    assert slow.most >= together if together > 1 else slow.most == 1
    assert slow.calls == 60 if way == "cache" else slow.calls >= 120


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"images": 5000}, "There are 1,200 training images in digits, fewer than the 5,000 asked for"),
        ({"folder": "/nowhere"}, "is no folder"),
        ({"batch_size": 60, "extra_ms": 100}, "A batch would wait 6 s for its files, more than 5 s"),
        ({"feeding": "cache", "batch_size": 1000, "extra_ms": 100}, "A batch would wait 25 s"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    values: dict[str, Value], words: str, small_digits: DataSet
) -> None:
    with pytest.raises(ProblemError, match=words):
        measured(small_digits, **values)


def test_no_preset_reaches_a_goal() -> None:
    for goal in EXERCISE.goals:
        for preset in EXERCISE.presets:
            settings = build(PipelineSettings, preset.values)
            assert any(getattr(settings, one.name) < (one.least or 0) for one in goal.requires), (goal.id, preset.name)


def test_no_goal_is_reached_by_slow_files_alone() -> None:
    readers = build(PipelineSettings, {}).readers
    assert all(goal.value > readers for goal in EXERCISE.goals), "so many files at once are as many times as fast"
