"""The benchmarks' own arithmetic, and one short race with real processes, so that they run when they are wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_shared.journal.events import Log
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from tests.bench import __main__ as program
from tests.bench.__main__ import SHOWN, figures, names, updated
from tests.bench.bench_first import rows as stage_rows
from tests.bench.bench_journal import make_folder
from tests.bench.bench_loops import RACES, Contender, Race, behind, check_results, present, race, rows
from tests.bench.bench_start import slow, window
from tests.bench.first_point_worker import journal_marks, split
from tests.bench.measure import CannotMeasure, Timing, ratio, table
from tests.unit.runs import begin_run, describe, points


def test_a_ratio_of_medians_lies_within_its_interval() -> None:
    found = ratio([20.0, 22.0, 19.0, 21.0, 40.0], [10.0, 11.0, 9.5, 10.5, 10.0])
    assert found.value == pytest.approx(2.1)
    assert 1.8 < found.low <= found.value <= found.high <= 4.2
    assert str(ratio([3000.0] * 7, [1.0] * 7)) == "3,000 (3,000 to 3,000)"
    assert str(ratio([1.5] * 7, [1.0] * 7)) == "1.5 (1.5 to 1.5)"


def test_a_part_of_the_page_is_replaced_and_what_stands_around_it_stays() -> None:
    page = "Words.\n<!-- figures -->\nold\n<!-- end of figures -->\nMore.\n"
    assert updated(page, "figures", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="not found"):
        updated("Words.\n", "figures", "new")


def test_every_figure_of_the_page_is_what_was_measured_last() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "benchmarks.md").read_text(encoding="utf-8")
    assert updated(page, "figures", figures(docs / "benchmarks")) == page
    assert "not measured" not in page
    assert {one.benchmark for one in SHOWN} == set(names())


def test_stages_are_the_times_between_marks_in_their_order() -> None:
    stages = split({"click": 10.0, "painted": 10.6, "begun": 10.1, "block": 10.4})
    assert list(stages) == ["begun", "block", "painted"]
    assert stages == {"begun": pytest.approx(0.1), "block": pytest.approx(0.3), "painted": pytest.approx(0.2)}
    lines = stage_rows([stages, stages])
    assert lines[0] == ("begun", "0.100")
    assert lines[-1] == ("**altogether**", "**0.600**")


def test_the_marks_of_a_run_come_from_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.0001"
    with JournalWriter.create(path) as writer:
        writer.append(describe(begin_run(tmp_path), time=5.0))
        writer.append(Log(text="Data read.", stage="data", seconds=0.5, time=5.5))
        writer.append(points(0, [1.0], time=6.0))
        writer.append(Log(text="Later.", stage="compile", seconds=9.0, time=9.0))
    assert sorted(journal_marks(path).values()) == [5.0, 5.5, 6.0]


def test_what_cannot_be_measured_is_said_and_the_page_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(*_: object) -> str:
        raise CannotMeasure("There is no cluster.")

    monkeypatch.setattr(program, "_DOCS", tmp_path)
    monkeypatch.setattr(program, "measure", measure)
    monkeypatch.setattr("sys.argv", ["bench", "--only", "site"])
    assert program.main() == 0
    assert "Not measured. There is no cluster." in capsys.readouterr().out
    assert not (tmp_path / "benchmarks").exists()


def test_imports_that_are_slow_are_found() -> None:
    text = "import time:      1500 |       1500 |   clew_gui.views\nimport time:  500 | 2000 | clew_gui\n"
    assert slow(text + "import time: 1 | 1 | numpy.core\nimport time: 1 | 1 | zmq\n") == ("zmq",)


def test_the_start_of_the_window_is_seen_up_to_its_first_paint() -> None:
    reached = window()
    assert reached.seconds > 0
    assert "pyqtgraph" in reached.imported
    assert "paramiko" not in reached.imported


def test_a_journal_for_the_benchmark_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert make_folder(folder, points=4000) > 0
    assert verify_run(folder).ok
    assert len(read_run(folder).column("accuracy").steps) == 2000


@pytest.mark.parametrize(
    ("with_short", "clew", "short", "jax", "faster"),
    [(False, 10, 99, 20, True), (False, 10, 99, 5, False), (True, 50, 10, 20, True), (True, 10, 50, 20, False)],
)
def test_what_was_faster_than_clew_over_as_many_steps_is_named(
    with_short: bool, clew: int, short: int, jax: int, faster: bool
) -> None:
    timings = {"clew": [Timing(clew, 1, 0)], "clew-short": [Timing(short, 1, 0)], "jax": [Timing(jax, 1, 0)]}
    long, one = (Contender("clew", "Clew", steps) for steps in (9, 1))
    ours = (long, one._replace(name="clew-short")) if with_short else (one,)
    said = behind(Race("softmax", (*ours, Contender("jax", "JAX, one scan", 1))), timings)
    assert said == ("Faster than Clew over as many steps: JAX, one scan." if faster else "None was faster than Clew.")


def test_a_contender_whose_framework_is_absent_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.bench_loops.python_with", lambda _: None)
    left = {contender.name for contest in map(present, RACES) for contender in contest.contenders}
    assert {"clew", "course", "keras", "numpy"} <= left
    assert not {name for name in left if name.startswith(("torch", "jax"))}


def test_a_table_lines_up() -> None:
    assert table(("a", "long"), [("1", "2")]) == "| a | long |\n| - | ---- |\n| 1 | 2    |"


def test_a_contender_that_did_something_else_is_found_out() -> None:
    same = {"clew": [Timing(500, 1, 0.9079)], "course": [Timing(500, 4, 0.9078)]}
    check_results("softmax", same, real=True)
    with pytest.raises(AssertionError):
        check_results("softmax", same | {"fast": [Timing(500, 0.1, 0.4)]}, real=True)
    with pytest.raises(AssertionError):
        check_results("cnn", {"idle": [Timing(60, 0.1, 0.1)]}, real=True)


def test_a_short_race_has_a_row_for_each_contender() -> None:
    contest = Race("linear-regression", (Contender("clew", "ours", 900), Contender("course", "theirs", 900)))
    timings = race(contest, rounds=2)
    check_results("linear-regression", timings, real=False)
    assert [row[0] for row in rows(contest, timings)] == ["ours", "theirs"]
    assert all(len(found) == 2 and all(timing.seconds > 0 for timing in found) for found in timings.values())
