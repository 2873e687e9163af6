"""Event files that follow journals, and who sees TensorBoard's pages."""

from __future__ import annotations

import errno
import importlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew_gui.reports import tensorboard
from clew_gui.reports.tensorboard import EventFolder, _guarded
from clew_shared.journal.events import Evaluation, Image, Schema
from clew_shared.journal.files import JournalWriter
from tests.unit.runs import METRICS, RUN, begin_run, describe, points, small_run

OTHER = "6a3c9d2f-0000-4000-8000-000000000002"


def board(folder: Path) -> Any:
    """What TensorBoard itself reads."""
    reader: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    accumulator = reader.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return accumulator


def tags(folder: Path) -> dict[str, Any]:
    """The names by kind."""
    return dict(board(folder).Tags())


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The values by name."""
    accumulator = board(folder)
    return {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def test_event_files_follow_a_journal_and_its_next_attempt(tmp_path: Path, expect_logs: Callable[..., None]) -> None:
    expect_logs("Purging expired events")  # TensorBoard's own words
    run = begin_run(tmp_path / "runs" / RUN)
    folder = EventFolder((tmp_path / "runs",), tmp_path / "events")
    folder.update()
    with JournalWriter.create(run.journal(1)) as writer:
        writer.append(describe(run))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(points(0, [4, 3]))
        folder.update()
        seen = tmp_path / "events/softmax-5f2b8c1e"
        assert scalars(seen)["loss"] == [(0, 4.0), (1, 3.0)]
        writer.append(points(2, [2, 1]))
        writer.append(Evaluation(step=4, values={"test_accuracy": 0.5}))
        writer.append(Image(name="samples", step=4, width=2, height=1, channels=1, data=b"\0\xff"))
        writer.append(Image(name="torn", step=4, width=2, height=2, channels=1, data=b"\0\xff"))
    folder.update()
    folder.update()
    assert tags(seen)["images"] == ["samples"], "pictures too, as far as they are whole"
    assert scalars(seen) == {
        "loss": [(0, 4.0), (1, 3.0), (2, 2.0), (3, 1.0)],
        "W": [(step, 10.0 * step) for step in range(4)],
        "test_accuracy": [(4, 0.5)],
    }
    with JournalWriter.create(run.journal(2)) as writer:
        writer.append(describe(run, 2, resumes=1, start_step=2))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(points(2, [7]))
    folder.update()
    assert scalars(seen)["loss"] == [(0, 4.0), (1, 3.0), (2, 7.0)]


def test_of_a_long_run_points_are_left_out_evenly(tmp_path: Path) -> None:
    run = begin_run(tmp_path / "runs" / RUN)
    with JournalWriter.create(run.journal(1)) as writer:
        writer.append(describe(run))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(points(131_068, [1, 2, 3, 4]))
        writer.append(points(131_073, [5, 6, 7]))
        writer.append(points(262_143, [8, 9, 10, 11, 12]))
    EventFolder((tmp_path / "runs",), tmp_path / "events").update()
    steps = [step for step, _ in scalars(tmp_path / "events/softmax-5f2b8c1e")["loss"]]
    assert steps == [131_068, 131_069, 131_070, 131_071, 131_074, 262_144]


def test_a_run_and_its_copy_are_one_and_others_are_left_out(tmp_path: Path) -> None:
    small_run(tmp_path / "runs" / RUN)
    small_run(tmp_path / "mirrors" / RUN)
    small_run(tmp_path / "mirrors" / OTHER)
    folders = (tmp_path / "none", tmp_path / "runs", tmp_path / "mirrors")
    EventFolder(folders, tmp_path / "events", lambda run: run == RUN).update()
    assert [path.name for path in (tmp_path / "events").iterdir()] == [f"softmax-{RUN[:8]}"]


# --- Who gets in ------------------------------------------------------------------------------------------------------


def asked(query: str = "", cookie: str = "") -> tuple[str, dict[str, str], bytes]:
    """The answer of pages that know the token ``secret``."""
    said: list[Any] = []
    pages = _guarded(lambda _request, start: start("200 OK", []) or [b"page"], "secret")
    body = b"".join(pages({"QUERY_STRING": query, "HTTP_COOKIE": cookie}, lambda *words: said.extend(words)))
    return said[0], dict(said[1]), body


@pytest.mark.parametrize("query", ["", "token=", "token=secre", "token=secretly", "tok=secret", "token=\udcff"])
def test_without_the_token_nobody_gets_in(query: str) -> None:
    status, _, body = asked(query, "clew=secret; secret")
    assert status.startswith("403 ")
    assert b"token" in body


def test_a_browser_brings_the_token_once_and_then_its_cookie() -> None:
    status, headers, _ = asked("a=1&token=secret")
    assert (status[:3], headers["Location"]) == ("303", "/")
    cookie, _, more = headers["Set-Cookie"].partition(";")
    assert "HttpOnly" in more
    assert "secret" not in cookie
    assert asked(cookie=f"other=1; {cookie}")[2] == b"page"
    assert asked(cookie=cookie[:-1])[0].startswith("403 ")


def test_a_time_or_step_that_cannot_be_keeps_no_other_run_from_being_shown(tmp_path: Path) -> None:
    strange = begin_run(tmp_path / "runs" / OTHER)
    with JournalWriter.create(strange.journal(1)) as writer:
        writer.append(msgspec.structs.replace(describe(strange), time=math.inf))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(points(2**63 - 2, [4, 3]))
        writer.append(points(0, [4, 3]))
        writer.append(Evaluation(step=2**63, values={"test_accuracy": 0.5}, time=math.nan))
    small_run(tmp_path / "runs" / RUN)
    folder = EventFolder((tmp_path / "runs",), tmp_path / "events")
    folder.update()
    assert scalars(tmp_path / "events/softmax-6a3c9d2f")["loss"] == [(0, 4.0), (1, 3.0)]
    assert scalars(tmp_path / "events/softmax-5f2b8c1e")["loss"]


def test_what_found_no_room_is_written_when_there_is_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin_run(tmp_path / "runs" / RUN)
    folder = EventFolder((tmp_path / "runs",), tmp_path / "events")
    with JournalWriter.create(run.journal(1)) as writer:
        writer.append(describe(run))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(points(0, [4, 3]))
        folder.update()
        writer.append(points(2, [2, 1]))
        with monkeypatch.context() as full:
            full.setattr(tensorboard, "_append", half_written)
            folder.update()
            folder.update()
        folder.update()
        assert scalars(tmp_path / "events/softmax-5f2b8c1e")["loss"] == [(0, 4.0), (1, 3.0), (2, 2.0), (3, 1.0)]


def half_written(path: Path, _size: int, records: list[bytes]) -> None:
    """A disk that is full in the middle of a record."""
    with path.open("ab") as file:
        file.write(b"".join(records)[:9])
    raise OSError(errno.ENOSPC, "No space left on device")


def test_only_the_latest_runs_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "MOST_RUNS", 1)
    for name, age in ((RUN, 100), (OTHER, 0)):
        small_run(tmp_path / "runs" / name)
        os.utime(tmp_path / "runs" / name, (1e9 - age, 1e9 - age))
    EventFolder((tmp_path / "runs",), tmp_path / "events").update()
    assert [path.name for path in (tmp_path / "events").iterdir()] == ["softmax-6a3c9d2f"]
